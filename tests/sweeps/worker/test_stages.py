"""Each stage by itself, and what a stage that fails costs: its own figure."""

import shutil
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import Stage, Status, Task
from advisor.models.zoo.opening import open_network
from advisor.sweeps.datasets.source import JpegFiles, Sample, SampleKind
from advisor.sweeps.trial.limits import PROCESS_TREE, ResourceLimits
from advisor.sweeps.trial.trial_process import run_attempt
from advisor.sweeps.worker import stages
from advisor.sweeps.worker.engine import EmulatedGpu
from advisor.sweeps.worker.measuring import runner_of
from advisor.sweeps.worker.timed_run import StepRunner
from tests.sweeps.builders import TIME_BOX, trial, trial_on
from tests.sweeps.cuda_standin import simulated

JOB = {"usage_source": {"kind": PROCESS_TREE}}
STEP, COPY = 0.5, 0.25


class Stored:
    """Samples in one file each, of 1 MiB as far as they tell, that are slow to read."""

    storage_format = "jpeg-files"

    def __init__(self, count, seconds=0.0):
        self.files = [Path(f"/{number}") for number in range(count)]
        self._seconds = seconds
        self.read_ones = []

    def __len__(self):
        return len(self.files)

    def read(self, index):
        time.sleep(self._seconds)
        self.read_ones.append(index)
        return Sample(SampleKind.JPEG, b"x" * 100)

    def name(self, index):
        return str(self.files[index])


@given(st.integers(1, 300), st.floats(0.1, 400))
def test_a_part_has_no_sample_twice_and_about_the_size_that_was_asked_for(count, mib):
    part = stages.StoredPart(Stored(count), mib, 2.0**20)
    for index in range(len(part)):
        part.read(index)
    assert len(set(part._source.read_ones)) == len(part) == min(count, -int(-mib // 1))


def test_every_sample_is_read_once_by_all_threads_together_until_time_is_up():
    source = Stored(100_000, seconds=0.001)
    read = stages.read_for(0.2, stages.StoredPart(source, 1e6, 2.0**20), workers=4)
    assert read.samples == len(source.read_ones) == len(set(source.read_ones)) < 100_000
    assert read.seconds >= 0.2
    assert read.size == 100 * read.samples
    assert stages.read_for(60.0, stages.StoredPart(Stored(20), 1e6, 2.0**20), workers=3).samples == 20


@pytest.fixture
def tiny(monkeypatch):
    opened = open_network("googlenet")
    small = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, stride=64), torch.nn.Flatten())
    monkeypatch.setattr(type(opened), "build", lambda _self: small)
    monkeypatch.setattr(type(opened), "forward", lambda _self, built, inputs: built(inputs))
    return opened


EMULATED = {"task": Task.INFERENCE, "accelerator": "emulated:T4", "emulated_step_seconds": 0.04}


@pytest.mark.slow
def test_stages_of_an_emulated_gpu_say_what_they_were_measured_on(images, tiny):
    runner = StepRunner(EmulatedGpu(0.04))
    results = stages.stage_results(trial_on(images, **EMULATED), JOB, tiny, runner, JpegFiles(images))
    assert results.rates["accelerator"] == 4 / 0.04
    assert results.rates["host"] > 0
    assert results.runs["host"]["batch_size"] == 4
    assert "transfer" not in {**results.rates, **results.failures}
    if "storage" in results.rates:  # not where the folder lies in memory
        run = results.runs["storage"]
        assert run["samples"] == 24
        assert run["whole_data_set"]


@pytest.mark.slow
def test_a_trial_that_shares_its_disk_empties_no_page_cache(images, tiny):
    runner = StepRunner(EmulatedGpu(0.04))
    entry, source = trial_on(images, **EMULATED), JpegFiles(images)
    job = {**JOB, "shares_disk": True}
    assert "storage" not in stages.stage_results(entry, job, tiny, runner, source).rates


@pytest.fixture
def gpu(monkeypatch):
    with simulated(monkeypatch, step_seconds=STEP, copy_seconds=COPY) as device:
        yield device


def gpu_stages(opened):
    entry = trial(task=Task.INFERENCE, accelerator="cuda", batch_size=4)
    return stages.stage_results(entry, JOB, opened, runner_of(entry, opened), None)


def test_transfer_is_the_pace_of_copies_and_the_accelerator_that_of_steps(gpu, tiny):
    results = gpu_stages(tiny)
    assert results.rates[Stage.TRANSFER] == pytest.approx(4 / COPY)
    assert results.rates[Stage.ACCELERATOR] == pytest.approx(4 / STEP)
    mib = 4 * 3 * 224 * 224 * 4 / 2**20
    assert results.runs[Stage.TRANSFER]["mib_per_second"] == pytest.approx(mib / COPY)


def test_a_gpu_alone_is_timed_for_ten_seconds_before_anything_idles_it(gpu, tiny):
    """Its raw steps and the GPU's state stay in the row: the figure decides answers."""

    class Broken(Stored):
        def __len__(self):
            gpu.note("stored")
            raise OSError("no such device")

    plan = {**TIME_BOX, "measure_seconds": 60.0}
    entry = trial(task=Task.INFERENCE, accelerator="cuda", batch_size=4, plan=plan)
    begun = gpu.clock()
    results = stages.stage_results(entry, JOB, tiny, runner_of(entry, tiny), Broken(4))
    run = results.runs[Stage.ACCELERATOR]
    assert run["step_seconds"] == pytest.approx([STEP] * len(run["step_seconds"]))
    assert sum(run["step_seconds"]) >= 10
    assert run["gpu_sampling"] == "unavailable"
    idle = next(call.at for call in gpu.calls if call.what == "stored")
    assert idle - begun >= 10
    assert set(results.failures) == {Stage.STORAGE, Stage.HOST}


def test_a_fault_of_cuda_that_stays_costs_the_figures_of_the_gpu_only(gpu, tiny, monkeypatch):
    entry = trial(task=Task.INFERENCE, accelerator="cuda", batch_size=4)
    runner = runner_of(entry, tiny)
    broken = RuntimeError("CUDA error: an illegal memory access was encountered")
    monkeypatch.setattr("torch.cuda.Event", Mock(side_effect=broken))
    results = stages.stage_results(entry, JOB, tiny, runner, None)
    assert results.rates == {}
    assert set(results.failures) == {Stage.ACCELERATOR, Stage.TRANSFER}
    assert "illegal memory access" in results.failures[Stage.TRANSFER]
    assert "stage_failures" in results.environment


# A real worker in which something happens between the main run and the stages.
_BETWEEN = """
import os, shutil, sys
import advisor.sweeps.worker.measuring as measuring
from advisor.sweeps.worker.__main__ import main

stage_results = measuring.stage_results

def run(*arguments, **options):
    {between}
    return stage_results(*arguments, **options)

measuring.stage_results = run
main()
"""


def measured_with(between, folder):
    entry = trial_on(folder, **EMULATED)
    command = (sys.executable, "-P", "-c", _BETWEEN.format(between=between))
    return run_attempt(entry, limits=ResourceLimits, command=command)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("between", "failures"),
    [
        ("shutil.rmtree({folder!r})", {"storage", "host"}),
        ("[os.truncate(os.path.join({folder!r}, name), 9) for name in os.listdir({folder!r})]", {"host"}),
        ("os.kill(os.getpid(), 9)", {"worker"}),
        ("sys.exit('an end that nobody foresaw')", {"worker"}),
    ],
)
def test_what_goes_wrong_in_a_stage_costs_no_more_than_that_stage(between, failures, images, tmp_path):
    folder = tmp_path / "images"
    shutil.copytree(images, folder)
    row = measured_with(between.format(folder=str(folder)), folder)
    assert row.status in (Status.OK, Status.CONTAMINATED), row.reason
    assert row.throughput_samples_per_second > 0
    assert set(row.environment["stage_failures"]) >= failures
    assert failures == {"worker"} or row.stage_rates["accelerator"] == 4 / 0.04
