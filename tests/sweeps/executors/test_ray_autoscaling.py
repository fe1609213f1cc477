"""Demand that an autoscaler sees: nodes of types that none is there of start, and are refused by
name where no type gives them."""

import time
from collections import defaultdict
from contextlib import closing
from itertools import accumulate

import psutil
import pytest

from advisor.domain import Status
from advisor.errors import MeasuringError
from sweeps.executors.ray.executor import RayExecutor
from sweeps.store import SqlStore
from tests.sweeps import ray_clusters
from tests.sweeps.builders import resources, trial
from tests.sweeps.marks import LEFT_TO_THE_COLLECTOR
from tests.sweeps.ray_clusters import FIRST_NODE, driver, numbered, scaled_cluster_of

pytestmark = [pytest.mark.slow, pytest.mark.ray, *LEFT_TO_THE_COLLECTOR]
GIB = 2**30


def with_two(gpu, memory_gib):
    own = {"CPU": 4, "GPU": 2, "memory": memory_gib * GIB, "advisor_trial": 2}
    return {"resources": own | {f"accelerator_type:{gpu}": 1}, "max_workers": 2}


def test_what_waits_starts_nodes_of_its_type_and_what_no_type_gives_is_refused(tmp_path_factory):
    folder = tmp_path_factory.mktemp("r")  # a socket's name has 107 bytes
    with (
        scaled_cluster_of(folder, t4=with_two("T4", 16), l4=with_two("L4", 8)) as address,
        closing(RayExecutor(address, measure=ray_clusters.measured_at_once)) as executor,
    ):
        trials = numbered(12, "cuda:T4", "cuda:L4")
        large = trial(accelerator="cuda:L4", resources=resources(memory_mib=12 * 1024))
        with pytest.raises(MeasuringError, match="2 of 14 trials can run on no node that is"):
            executor.refuse_impossible([*trials, large, *numbered(1, "cuda:H100")])
        executor.refuse_impossible(trials)
        rows = list(executor.execute(iter(trials)))
        assert sorted(row.trial.trial_id for row in rows) == sorted(t.trial_id for t in trials)
        assert {row.status for row in rows} == {Status.OK}
        nodes = {(str(row.trial.accelerator), row.environment["node"]) for row in rows}
        assert len({node for _, node in nodes}) == len(nodes)  # none had trials of both GPUs


def test_a_node_that_dies_is_replaced_a_killed_driver_continues_and_each_trial_is_measured_once(
    tmp_path_factory,
):
    folder = tmp_path_factory.mktemp("r")
    url, count = f"sqlite:///{folder}/m.sqlite", 48
    kinds = {"t4": with_two("T4", 16), "l4": with_two("L4", 16)}
    with scaled_cluster_of(folder, **kinds) as address, closing(SqlStore(url)) as store:
        first = driver(url, address, count, "cuda:T4", "cuda:L4")
        wait_for(store, 8)
        node_of(folder).kill()
        wait_for(store, 20)
        first.kill()
        first.wait()
        before = {row.trial.trial_id: row for row in store.all()}
        assert driver(url, address, count, "cuda:T4", "cuda:L4").wait(timeout=240) == 0
        rows = {row.trial.trial_id: row for row in store.all()}
        assert set(rows) == {one.trial_id for one in numbered(count, "cuda:T4", "cuda:L4")}
        assert before == {name: rows[name] for name in before}
        assert {row.status for row in rows.values()} == {Status.OK}
        assert not any(row.repeats for row in rows.values())
    of_node = defaultdict(list)
    for facts in (row.environment for row in rows.values()):
        of_node[facts["node"]].append((facts["began"], 1))
        of_node[facts["node"]].append((facts["ended"], -1))
    assert len(of_node) > 4  # the two of each type, and what the autoscaler added
    for changes in of_node.values():
        assert max(accumulate(change for _, change in sorted(changes))) <= 2


def wait_for(store, count):
    while len(store.done_ids()) < count:
        time.sleep(0.1)


def node_of(folder):
    """The raylet of a node that the autoscaler started."""
    for one in psutil.process_iter(["cmdline"]):
        words = one.info["cmdline"] or [""]
        is_ours = words[0].endswith("/raylet") and any(str(folder) in word for word in words)
        if is_ours and FIRST_NODE in one.environ().values():
            return one
    raise AssertionError("no node has started")
