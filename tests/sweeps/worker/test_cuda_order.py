"""In which order the worker calls CUDA, recorded by a stand-in: overlap, waiting, and time."""

import weakref

import pytest
import torch

from advisor.domain import MemoryFormat, Precision, Task
from advisor.errors import MeasuringError
from advisor.sweeps.worker.engine import TorchEngine
from advisor.sweeps.worker.timed_run import StepRunner, TimeBox, timed_steps, warm_up
from tests.sweeps.cuda_standin import simulated

STEP, LOAD, COPY = 1.0, 0.3, 0.05


@pytest.fixture
def gpu(monkeypatch):
    with simulated(monkeypatch, late=0.02, step_seconds=STEP, copy_seconds=COPY) as device:
        yield device


class Network:
    """A `Runnable`, as far as steps need it."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def build(self):
        return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten())

    def forward(self, built, inputs):
        return built(inputs)

    def training_loss(self, built, inputs, targets):
        loss = torch.nn.functional.cross_entropy(built(inputs), targets)
        return loss * self.scale if self.scale else (0 * loss).sqrt()  # its gradient is NaN

    @property
    def info(self):
        class Info:
            name = "tiny"

        return Info


def runner(task=Task.INFERENCE, precision=Precision.FP32, depth=2, **network):
    engine = TorchEngine(Network(**network), device="cuda", task=task, precision=precision)
    return StepRunner(engine, depth=depth)


def loaded(gpu, seconds=LOAD):
    """Batches that a loader needs time for."""
    while True:
        gpu.sleep(seconds)
        gpu.note("load")
        yield torch.rand(2, 3, 8, 8), torch.tensor([0, 1])


def steps(gpu, runner, count, batches=None):
    batches = batches or loaded(gpu)
    runner.submit(*next(batches))
    gpu.calls.clear()
    for _ in range(count):
        runner.submit(*next(batches))
    return list(gpu.calls)


def test_the_next_batch_comes_while_the_gpu_computes_and_the_host_sleeps_until_the_step_two_before(gpu):
    calls = steps(gpu, runner(), 8)
    sent = [call for call in calls if call.what in ("load", "copy")]
    assert sent
    assert all(call.busy for call in sent)
    # Never for the device, and never spinning.
    assert {call.what for call in calls} == {"load", "copy", "record", "wait"}
    records = 0
    for call in calls:
        if call.what == "record":
            records = call.number
        if call.what == "wait":
            assert call.blocking
            assert call.number == records - 2  # record 0 is the mark before the first step


@pytest.mark.parametrize(("load", "step"), [(LOAD, STEP + COPY), (4.0, 4.02)])
def test_a_faster_loader_costs_nothing_and_a_slower_one_sets_the_pace(gpu, load, step):
    entry = runner()
    steps(gpu, entry, 20, loaded(gpu, load))
    entry.drain()
    assert entry.take_seconds()[1:] == pytest.approx([step] * 20)


def test_a_trial_that_synchronises_each_step_waits_for_that_step(gpu):
    entry = runner(depth=0)
    calls = steps(gpu, entry, 5)
    last = None
    for call in calls:
        last = call.number if call.what == "record" else last
        assert call.what != "wait" or call.number == last
        assert call.what != "load" or not call.busy
    assert min(entry.take_seconds()[1:]) >= LOAD + STEP


def test_the_steps_of_a_window_sum_up_to_its_time_by_the_gpus_clock(gpu):
    entry, batches = runner(), loaded(gpu)
    warm_up(entry, batches, 4)
    begun = gpu.ready_at - 2 * (STEP + COPY)  # the last step that was waited for
    box = TimeBox(seconds=20.0, min_steps=1, max_seconds=1e9)
    assert sum(timed_steps(entry, batches, box)) == pytest.approx(gpu.ready_at - begun, rel=1e-6)
    assert "synchronize" not in {call.what for call in gpu.calls}


def test_a_batch_stays_in_host_memory_until_its_step_is_done_and_one_that_found_none_holds_none(
    gpu, monkeypatch
):
    """The copy of a pinned batch reads it after `submit` returned."""
    entry, batches = runner(), loaded(gpu)
    inputs, targets = next(batches)
    alive = weakref.ref(inputs)
    entry.submit(inputs, targets)
    del inputs
    entry.submit(*next(batches))
    assert alive() is not None
    entry.submit(*next(batches))
    assert alive() is None
    # A smaller batch is tried next, on the same runner.

    def no_memory(*_):
        raise MemoryError

    entry, batches = runner(), loaded(gpu)
    inputs, targets = next(batches)
    alive = weakref.ref(inputs)
    entry.submit(inputs, targets)
    with monkeypatch.context() as full:
        full.setattr(Network, "forward", no_memory)
        with pytest.raises(MemoryError):
            entry.submit(*next(batches))
    del inputs
    assert alive() is None
    entry.submit(*next(batches))
    entry.drain()
    assert entry.take_seconds() == pytest.approx([STEP + COPY])


def test_a_scale_that_is_too_large_settles_and_skipped_steps_and_lost_losses_are_told(gpu, monkeypatch):
    entry, batches = runner(Task.TRAINING, Precision.AMP, scale=0), loaded(gpu)
    with pytest.raises(MeasuringError, match="optimiser steps were skipped") as caught:
        warm_up(entry, batches, 3)
    assert "bf16" in str(caught.value.hint)
    assert entry.engine.environment["skipped_optimizer_steps"] > 50
    entry, batches = runner(Task.TRAINING, scale=float("nan")), loaded(gpu)
    box = TimeBox(seconds=0.0, min_steps=1, max_seconds=1e9, most_steps=3)
    with pytest.raises(MeasuringError, match="the loss of tiny is nan") as caught:
        timed_steps(entry, batches, box)
    assert "precision" in str(caught.value.hint)
    monkeypatch.setattr("advisor.sweeps.worker.engine._LEARNING_RATE", 0.0)  # else it diverges
    entry, batches = runner(Task.TRAINING, Precision.AMP, scale=1e34), loaded(gpu)
    assert warm_up(entry, batches, 3) > 3
    box = TimeBox(seconds=0.0, min_steps=1, max_seconds=1e9, iterations=10)
    assert len(timed_steps(entry, batches, box)) == 10


@pytest.mark.parametrize("task", [Task.TRAINING, Task.INFERENCE])
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.AMP, Precision.BF16])
def test_every_task_and_precision_takes_steps_on_a_gpu_in_channels_last(gpu, task, precision):
    engine = TorchEngine(
        Network(), device="cuda", task=task, precision=precision, memory_format=MemoryFormat.CHANNELS_LAST
    )
    entry = StepRunner(engine)
    for _, batch in zip(range(3), loaded(gpu), strict=False):
        entry.submit(*batch)
    entry.drain()
    assert len(entry.take_seconds()) == 3
