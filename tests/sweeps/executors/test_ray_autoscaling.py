"""Demand that an autoscaler sees: nodes of types that none is there of start, and are refused by
name where no type gives them."""

from contextlib import closing

import pytest

from advisor.domain import Status
from advisor.errors import MeasuringError
from sweeps.executors.ray.executor import RayExecutor
from tests.sweeps import ray_clusters
from tests.sweeps.builders import resources, trial
from tests.sweeps.marks import LEFT_TO_THE_COLLECTOR
from tests.sweeps.ray_clusters import numbered, scaled_cluster_of

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
