"""What every executor promises; with real workers, on a handful of images."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from advisor.domain import LimitedBy, Status, Task
from advisor.errors import MeasuringError
from advisor.sweeps.run.runner import InlineExecutor, ProcessExecutor
from advisor.sweeps.trial.trial_process import measure_trial
from tests.sweeps.builders import REAL_WORKER, trial, trial_on

pytestmark = REAL_WORKER


def groups():
    return list(Path("/sys/fs/cgroup").glob(f"*/advisor-{os.getpid()}-*"))


def test_inline_measurements_are_marked_as_not_limited(images):
    """Before Ray is here: its threads do not survive that torch's loader forks."""
    (row,) = InlineExecutor().execute([trial_on(images)])
    assert row.limited_by is LimitedBy.NONE
    assert row.step_seconds


class ExecutorContract:
    @pytest.fixture
    def executor(self):
        raise NotImplementedError

    def test_each_trial_comes_back_once_and_a_failure_stops_nothing(self, executor, images):
        trials = [
            trial_on(images),
            trial_on(images, network="no-such-network"),
            trial_on(images, task=Task.INFERENCE, accelerator="emulated:T4", emulated_step_seconds=0.01),
        ]
        rows = {row.trial.trial_id: row for row in executor.execute(trials)}
        executor.close()
        assert set(rows) == {entry.trial_id for entry in trials}
        assert rows.pop(trials[1].trial_id).status is Status.FAILED
        good = list(rows.values())
        assert {row.status for row in good} <= {Status.OK, Status.CONTAMINATED}
        for row in good:
            assert len(row.step_seconds) >= 1
            assert row.cpu_seconds > 0
            assert row.environment["versions"]["torch"]
        assert groups() == []


@pytest.mark.smoke
@pytest.mark.vector
def test_a_sweep_by_processes_measures_for_real(images):
    (row,) = ProcessExecutor(partial(measure_trial, repeats=0)).execute([trial_on(images)])
    assert row.status in (Status.OK, Status.CONTAMINATED), row.reason
    assert row.throughput_samples_per_second > 0
    assert groups() == []


class TestProcess(ExecutorContract):
    @pytest.fixture
    def executor(self):
        return ProcessExecutor(partial(measure_trial, repeats=0))

    def test_a_broken_image_is_named(self, images, tmp_path):
        broken = tmp_path / "0.jpg"
        broken.write_bytes(b"no picture")
        entry = trial(dataset_path=str(tmp_path), batch_size=1)
        (row,) = ProcessExecutor().execute([entry])
        assert row.status is Status.FAILED
        assert "0.jpg" in row.reason
        assert "\n" not in row.reason

    def test_the_emulated_accelerator_bounds_what_a_fast_host_could_do(self, executor, images):
        entry = trial_on(images, task=Task.INFERENCE, accelerator="emulated:T4", emulated_step_seconds=0.2)
        (row,) = executor.execute([entry])
        assert row.throughput_samples_per_second <= 4 / 0.2 * 1.02
        assert row.stage_rates["accelerator"] == 4 / 0.2


@pytest.mark.ray
class TestRay(ExecutorContract):
    @pytest.fixture
    def executor(self):
        from advisor.sweeps.run.ray.executor import RayExecutor

        return RayExecutor(measure=partial(measure_trial, repeats=0))


class TestRayCluster(ExecutorContract):
    """Several nodes: what holds on one machine holds for them."""

    @pytest.fixture
    def executor(self, ray_cluster):
        from advisor.sweeps.run.ray.executor import RayExecutor

        return RayExecutor(ray_cluster.address, measure=partial(measure_trial, repeats=0))


def test_an_unreachable_cluster_is_told_with_the_way_out():
    from advisor.sweeps.run.ray.executor import RayExecutor

    with pytest.raises(MeasuringError, match="--executor process"):
        RayExecutor("127.0.0.1:1")
    with pytest.raises(MeasuringError, match="HOST:6379, or auto"):
        RayExecutor("ray://127.0.0.1:10001")
