"""A network that goes away between Ray's nodes, and a driver and PostgreSQL: needs root and `ip`."""

import time
from collections import Counter
from contextlib import ExitStack, closing

import psutil
import pytest

from advisor.domain import Status
from advisor.store.measurements import SqlStore
from tests.host.nodes import NoNodes, address_of, emulated_nodes, parted
from tests.postgresql import PostgreSQL
from tests.sweeps.builders import LEFT_TO_THE_COLLECTOR
from tests.sweeps.ray_clusters import ROOT, driver, numbered, started_node
from tests.sweeps.run.test_queue import TRIALS, started, wait_for

pytestmark = [pytest.mark.root, pytest.mark.timeout(900), *LEFT_TO_THE_COLLECTOR]
PORT = 26379
# PostgreSQL's connection is given up after 15 s in which nothing is acknowledged.
SHORT_SECONDS, LONG_SECONDS = 5, 25
GIVEN_UP_SECONDS = 90  # Ray asks a node five times, for 10 s each


@pytest.fixture
def nodes():
    """Two namespaces that reach each other."""
    with ExitStack() as block:
        try:
            joined = block.enter_context(emulated_nodes(1.0, count=2))
        except NoNodes as error:
            pytest.skip(str(error))
        yield joined


@pytest.fixture
def far_postgresql(nodes):
    server = PostgreSQL(nodes[0], address_of(nodes[0]))
    yield server
    server.remove()


def on(node):
    return ("ip", "netns", "exec", node)


def driving(node, url, name, lease_seconds=120):
    return started(url, name, 0.5, inside=on(node), lease_seconds=lease_seconds)


@pytest.mark.parametrize("seconds", [SHORT_SECONDS, LONG_SECONDS])
def test_a_driver_parted_from_its_database_for_a_while_measures_each_trial_once(
    nodes, far_postgresql, seconds
):
    url = far_postgresql.new_database()
    with closing(SqlStore(far_postgresql.near_url(url))) as store:
        entry = driving(nodes[1], url, "one")
        wait_for(store, 2)
        with parted(nodes[1]):
            time.sleep(seconds)
        measured, said = entry.communicate(timeout=120)
        assert entry.returncode == 0, said
        rows = store.all()
    assert Counter(measured.split()) == Counter(trial.trial_id for trial in TRIALS)
    assert {row.trial.trial_id for row in rows} == {trial.trial_id for trial in TRIALS}
    assert not any(row.repeats for row in rows)


def test_what_a_parted_driver_had_in_hand_goes_to_another_one_and_is_stored_once(nodes, far_postgresql):
    """Its leases end meanwhile; what it measured of these comes second, and is not stored."""
    url = far_postgresql.new_database()
    with closing(SqlStore(far_postgresql.near_url(url))) as store:
        parted_one = driving(nodes[1], url, "parted", lease_seconds=30)
        wait_for(store, 2)
        with parted(nodes[1]):
            other = driving(nodes[0], url, "other", lease_seconds=30)
            others, said = other.communicate(timeout=120)
            assert other.returncode == 0, said
            assert set(store.summaries()) == {trial.trial_id for trial in TRIALS}
            before = store.all()
        measured, said = parted_one.communicate(timeout=120)
        assert parted_one.returncode == 0, said
        assert store.all() == before
        assert store.leases.held() == {}
    assert not any(row.repeats for row in before)
    assert len(set(measured.split()) & set(others.split())) <= 3  # in flight when it was parted


def node_options(node, trials):
    return (
        f"--node-ip-address={address_of(node)}",
        "--num-cpus=2",
        "--num-gpus=0",
        f'--resources={{"advisor_trial": {trials}}}',
    )


@pytest.fixture
def cluster(nodes, tmp_path_factory, monkeypatch):
    """A head that takes no trial on the first node; starts others of the cluster."""
    folder = tmp_path_factory.mktemp("r")  # a socket's name has 107 bytes
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    head = ("--head", f"--port={PORT}", "--include-dashboard=false", *node_options(nodes[0], 1))
    with ExitStack() as block:
        block.enter_context(started_node(folder, *head, inside=on(nodes[0])))

        def joined(node, *before):
            options = (f"--address={address_of_head(nodes)}", *node_options(node, 1))
            inside = (*on(node), *before)
            return block.enter_context(started_node(folder, *options, inside=inside))

        yield joined


@pytest.mark.parametrize("seconds", [SHORT_SECONDS, GIVEN_UP_SECONDS])
def test_a_node_parted_from_its_cluster_costs_no_trial(nodes, cluster, tmp_path, seconds):
    given_up = seconds == GIVEN_UP_SECONDS
    url, count = f"sqlite:///{tmp_path}/m.sqlite", 200 if given_up else 40
    running = cluster(nodes[1])
    with closing(SqlStore(url)) as store:
        sweep = driver(url, address_of_head(nodes), count, inside=on(nodes[0]))
        wait_for(store, 6)
        with parted(nodes[1]):
            time.sleep(seconds)
        if given_up:
            running.wait(timeout=120)
            cluster(nodes[1])
        assert sweep.wait(timeout=400) == 0
        rows = store.all()
    refuse_other_than(rows, count)
    assert len({row.environment["node"] for row in rows}) == (3 if given_up else 2)


def test_a_driver_parted_from_its_head_ends_and_the_same_command_continues(nodes, cluster, tmp_path):
    url, count = f"sqlite:///{tmp_path}/m.sqlite", 60
    beside = cluster(nodes[1], *_OWN_PROCESSES)
    with closing(SqlStore(url)) as store:
        sweep = driver(url, address_of_head(nodes), count, inside=in_its_container(beside))
        wait_for(store, 6)
        with parted(nodes[1]):
            had = len(store.all())
            assert sweep.wait(timeout=300) != 0
        assert len(store.all()) > had + 10
        before = {row.trial.trial_id: row for row in store.all() if row.status is Status.OK}
        beside = cluster(nodes[1], *_OWN_PROCESSES)
        again = driver(url, address_of_head(nodes), count, inside=in_its_container(beside))
        assert again.wait(timeout=300) == 0
        rows = {row.trial.trial_id: row for row in store.all()}
    assert before == {name: rows[name] for name in before}
    refuse_other_than(list(rows.values()), count)


# A driver joins the head's node wherever it sees the process of that.
_OWN_PROCESSES = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


def in_its_container(started):
    """Stands before a command: beside a node that sees its own processes only."""
    (first,) = psutil.Process(started.pid).children()
    return ("nsenter", f"--target={first.pid}", "--net", "--mount", "--pid")


def address_of_head(nodes):
    return f"{address_of(nodes[0])}:{PORT}"


def refuse_other_than(rows, count):
    """Each trial has one row and one good run."""
    assert Counter(row.trial.trial_id for row in rows) == Counter(entry.trial_id for entry in numbered(count))
    assert {row.reason for row in rows} == {""}
    assert {row.status for row in rows} == {Status.OK}
    assert not any(row.repeats for row in rows)
