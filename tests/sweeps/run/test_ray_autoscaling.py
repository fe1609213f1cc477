"""Demand that an autoscaler sees: nodes of types that none is there of start."""

from collections import defaultdict
from contextlib import closing
from itertools import accumulate

import psutil
import pytest

from advisor.domain import Status
from advisor.store.measurements import SqlStore
from advisor.sweeps.run.ray.executor import RayExecutor
from tests.sweeps import ray_clusters
from tests.sweeps.builders import LEFT_TO_THE_COLLECTOR
from tests.sweeps.ray_clusters import FIRST_NODE, driver, numbered, of_a_fleet, scaled_cluster_of
from tests.sweeps.run.test_queue import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.ray, *LEFT_TO_THE_COLLECTOR]
GIB, MIB = 2**30, 2**20


def with_two(gpu, memory_gib, most=2):
    own = {"CPU": 4, "GPU": 2, "memory": memory_gib * GIB, "advisor_trial": 2}
    return {"resources": own | {f"accelerator_type:{gpu}": 1}, "max_workers": most}


def test_what_waits_starts_nodes_of_its_type(tmp_path_factory):
    folder = tmp_path_factory.mktemp("r")  # a socket's name has 107 bytes
    with (
        scaled_cluster_of(folder, t4=with_two("T4", 16), l4=with_two("L4", 8)) as address,
        closing(RayExecutor(address, measure=ray_clusters.measured_at_once)) as executor,
    ):
        trials = numbered(12, "cuda:T4", "cuda:L4")
        executor.refuse_impossible(trials)
        rows = list(executor.execute(iter(trials)))
        assert sorted(row.trial.trial_id for row in rows) == sorted(t.trial_id for t in trials)
        assert {row.status for row in rows} == {Status.OK}
        nodes = {(str(row.trial.accelerator), row.environment["node"]) for row in rows}
        assert len({node for _, node in nodes}) == len(nodes)  # none had trials of both GPUs


@pytest.mark.timeout(600)  # eight nodes take four minutes on two cores
def test_a_fleet_loses_a_node_and_its_driver_and_measures_each_trial_once(tmp_path_factory):
    """Eight nodes of two kinds, two slots each; the autoscaler replaces the one that is killed. One
    kind is too small for the trials of 4 GiB, which this machine itself must hold."""
    folder = tmp_path_factory.mktemp("r")
    url, count = f"sqlite:///{folder}/m.sqlite", 500
    fleet = {"kind": "of_a_fleet", "measure": "measured_on_a_core"}
    kinds = {"t4": with_two("T4", 2, most=4), "l4": with_two("L4", 12, most=4)}
    with scaled_cluster_of(folder, **kinds) as address, closing(SqlStore(url)) as store:
        first = driver(url, address, count, **fleet)
        wait_for(store, 60)
        node_of(folder).kill()
        wait_for(store, 150)
        first.kill()
        first.wait()
        before = {row.trial.trial_id: row for row in store.all()}
        assert driver(url, address, count, **fleet).wait(timeout=400) == 0
        rows = {row.trial.trial_id: row for row in store.all()}
    assert set(rows) == {entry.trial_id for entry in of_a_fleet(count)}
    assert before == {name: rows[name] for name in before}
    assert {row.reason for row in rows.values()} == {""}
    assert not any(row.repeats for row in rows.values())
    of_node, of_core = defaultdict(list), defaultdict(list)
    for row in rows.values():
        facts = row.environment
        assert facts["memory"] >= row.trial.resources.memory_mib * MIB
        spans = [of_node[facts["node"]], *(of_core[facts["node"], cpu] for cpu in facts["cpus"])]
        for changes in spans:
            changes += [(facts["began"], 1), (facts["released"], -1)]
    assert len(of_node) > 8
    assert max(map(most_at_once, of_node.values())) == 2
    assert max(map(most_at_once, of_core.values())) == 1


def most_at_once(changes):
    return max(accumulate(change for _, change in sorted(changes)))


def node_of(folder):
    for entry in psutil.process_iter(["cmdline"]):
        words = entry.info["cmdline"] or [""]
        is_ours = words[0].endswith("/raylet") and any(str(folder) in word for word in words)
        if is_ours and FIRST_NODE in entry.environ().values():
            return entry
    raise AssertionError("no node has started")
