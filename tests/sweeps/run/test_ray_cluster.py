"""Sweeps on clusters of several nodes: placing, nodes that go, trials that hang, two drivers."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time

import pytest
from msgspec.structs import replace

from advisor.domain import Status
from advisor.errors import MeasuringError
from advisor.sweeps.run.ray.executor import LOST_RUNS, RayExecutor
from advisor.sweeps.trial.trial_process import LONGEST_PAUSES, REPEATS_WHEN_SPOILED
from tests.sweeps import ray_clusters
from tests.sweeps.builders import LEFT_TO_THE_COLLECTOR
from tests.sweeps.ray_clusters import ROOT, add_node, numbered

pytestmark = [pytest.mark.slow, *LEFT_TO_THE_COLLECTOR]


@pytest.fixture
def on(ray_cluster):
    """Makes executors of the cluster that are closed at the end."""
    made = []

    def make(measure=ray_clusters.measured_at_once, **options):
        made.append(RayExecutor(ray_cluster.address, measure=measure, **options))
        return made[-1]

    yield make
    for entry in made:
        entry.close()


def rows_of(executor, trials):
    return {row.trial.trial_id: row for row in executor.execute(iter(trials))}


def test_trials_run_side_by_side_on_nodes_that_have_their_gpu(on):
    trials = numbered(9, "cuda:T4", "cuda:L4", "cpu")
    rows = rows_of(on(ray_clusters.measured_slowly), trials)
    assert set(rows) == {trial.trial_id for trial in trials}
    nodes = {"cuda:T4": set(), "cuda:L4": set(), "cpu": set()}
    for row in rows.values():
        nodes[str(row.trial.accelerator)].add(row.environment["node"])
    assert len(nodes["cuda:T4"]) == len(nodes["cuda:L4"]) == 1
    assert nodes["cuda:T4"] != nodes["cuda:L4"]
    assert sum(row.environment["gpu_seen"] == "0" for row in rows.values()) == 6
    spans = sorted((row.environment["began"], row.environment["ended"]) for row in rows.values())
    overlaps = sum(later < ended for (_, ended), (later, _) in itertools.pairwise(spans))
    assert overlaps >= 3


def test_what_no_node_takes_is_refused_before_anything_runs(on):
    with pytest.raises(MeasuringError, match=r"no node has the GPU H100 \(there: L4, T4\)"):
        on().refuse_impossible(numbered(4, "cuda:T4", "cuda:H100"))


def test_a_kind_whose_nodes_never_come_costs_those_trials_only(on):
    trials = numbered(6, "cuda:T4", "cuda:H100")
    rows = rows_of(on(node_patience_seconds=2.0), trials)
    assert [rows[trial.trial_id].status for trial in trials] == [Status.OK, Status.FAILED] * 3
    assert "waited 2 s for a node: no node has the GPU H100" in rows[trials[1].trial_id].reason


def test_a_hung_trial_is_ended_and_costs_itself_only(on):
    # A trial is given its limit for each repeat, the longest pauses and a minute: 10 s in all.
    limit_seconds = (10 - 60 - LONGEST_PAUSES) / (REPEATS_WHEN_SPOILED + 1)
    executor = on(ray_clusters.measured_never, timeout_of=lambda _trial: limit_seconds)
    rows = rows_of(executor, trials := numbered(6))
    assert rows[trials[0].trial_id].status is Status.TIMED_OUT
    assert {rows[trial.trial_id].status for trial in trials[1:]} == {Status.OK}


def test_a_trial_that_kills_what_measures_it_is_tried_again_a_bounded_number_of_times(on):
    rows = rows_of(on(ray_clusters.killed), trials := numbered(5))
    lost = rows[trials[0].trial_id]
    assert lost.status is Status.FAILED
    assert len(lost.attempts) == LOST_RUNS
    assert all("WorkerCrashedError" in attempt["reason"] for attempt in lost.attempts)
    assert {rows[trial.trial_id].status for trial in trials[1:]} == {Status.OK}


def test_a_fault_of_our_own_is_not_tried_again(on):
    (row,) = rows_of(on(ray_clusters.raising), numbered(1)).values()
    assert row.status is Status.FAILED
    assert "no such thing" in row.reason
    assert row.attempts == ()


def test_a_node_that_goes_costs_its_trial_a_run_and_the_sweep_nothing(ray_cluster, on, tmp_path):
    evicted, _ = add_node(ray_cluster, gpu="V100"), add_node(ray_cluster, gpu="V100")
    executor = on(ray_clusters.measured_in_sight)

    def evict():
        while not (tmp_path / evicted.node_id).exists():
            time.sleep(0.05)
        ray_cluster.remove_node(evicted, allow_graceful=False)

    evicting = threading.Thread(target=evict, daemon=True)
    evicting.start()
    trials = [replace(entry, dataset_path=str(tmp_path)) for entry in numbered(12, "cuda:V100")]
    rows = rows_of(executor, trials)
    evicting.join(timeout=60)
    assert {row.status for row in rows.values()} == {Status.OK}
    assert set(rows) == {trial.trial_id for trial in trials}
    lost = [attempt for row in rows.values() for attempt in row.attempts]
    assert lost
    assert all(entry["status"] == "failed" and "died" in entry["reason"].lower() for entry in lost)


def test_a_trial_that_ray_had_not_begun_when_its_node_went_is_taken_back(ray_cluster, on):
    only = add_node(ray_cluster, gpu="A10G", disk="io1")
    executor = on(node_patience_seconds=2.0)
    import ray

    needs = {"advisor_trial": 1, "advisor_disk:io1": 0.001}
    somebody = ray.remote(resources=needs, max_retries=0)(lambda: time.sleep(600)).remote()
    while ray.available_resources().get("advisor_disk:io1", 1) == 1:
        time.sleep(0.1)
    going = threading.Timer(2.0, ray_cluster.remove_node, (only,), {"allow_graceful": False})
    going.start()
    (row,) = rows_of(executor, numbered(1, "cuda:A10G")).values()
    going.join()
    del somebody
    assert row.status is Status.FAILED
    assert "waited 2 s for a node" in row.reason
    assert row.attempts == ()


_OWN = """
from contextlib import closing
from msgspec.structs import replace
from advisor.sweeps.run.ray.executor import RayExecutor
from tests.sweeps.ray_clusters import measured_at_once, numbered

with closing(RayExecutor(measure=measured_at_once)) as executor:
    (row,) = executor.execute(numbered(1))
    print(row.environment["node"])
"""


def test_a_ray_of_our_own_does_not_join_a_cluster_that_happens_to_run_here(ray_cluster):
    output = subprocess.check_output(
        [sys.executable, "-c", _OWN],
        cwd=ROOT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "RAY_ADDRESS": ray_cluster.address},
    )
    assert output.strip().splitlines()[-1] not in {node.node_id for node in ray_cluster.worker_nodes}
