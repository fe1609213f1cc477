import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import MemoryFormat, Precision, Task
from advisor.sweeps.worker.engine import EmulatedGpu, Engine, TorchEngine
from advisor.sweeps.worker.timed_run import StepRunner
from tests.sweeps.builders import SleepingClock


def emulated(step, clock, **depth):
    return StepRunner(EmulatedGpu(step, clock=clock, sleep=clock.sleep), **depth)


def test_two_steps_are_in_flight_and_what_passes_between_two_runs_or_after_preprocessing_is_no_step():
    clock = SleepingClock()
    runner = emulated(1.0, clock)
    runner.submit(None, None)
    runner.submit(None, None)
    assert clock.slept == 0
    runner.submit(None, None)
    assert clock.slept == 1.0
    clock = SleepingClock()
    runner = emulated(1.0, clock)
    runner.submit(None, None)
    runner.restart()
    clock.now += 50.0
    runner.submit(None, None)
    runner.drain()
    assert runner.take_seconds() == [1.0, 1.0]
    clock = SleepingClock()
    runner = StepRunner(Engine(clock=clock, sleep=clock.sleep), depth=0)
    runner.submit(None, None)
    clock.now += 0.25
    runner.submit(None, None)
    assert runner.take_seconds() == [0.0, 0.25]


@given(
    host=st.lists(st.floats(0.0, 3.0), min_size=3, max_size=40),
    step=st.floats(0.01, 1.0),
    depth=st.integers(0, 3),
)
def test_the_sum_of_steps_is_the_time_that_passed(host, step, depth):
    """Whoever is slower, and however late the host comes to look."""
    clock = SleepingClock(late=0.2)
    engine = EmulatedGpu(step, clock=clock, sleep=clock.sleep)
    runner, start = StepRunner(engine, depth=depth), clock.now
    for seconds in host:
        clock.now += seconds
        runner.submit(None, None)
    runner.drain()
    steps = runner.take_seconds()
    assert len(steps) == len(host)
    first = start + host[0]  # the first step begins when its batch comes
    assert sum(steps) == pytest.approx(engine.mark().at - first, abs=0.21)
    assert min(steps) >= step - 1e-9


class Linear:
    def __init__(self, network):
        self.network = network

    def build(self):
        return self.network

    def forward(self, built, inputs):
        return built(inputs)

    def training_loss(self, built, inputs, targets):
        return torch.nn.functional.cross_entropy(built(inputs), targets)


def engine_of(network, **options):
    values = {"task": Task.INFERENCE, "precision": Precision.FP32, **options}
    return TorchEngine(Linear(network), device="cpu", **values)


@pytest.mark.parametrize("task", [Task.TRAINING, Task.INFERENCE])
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16])
@pytest.mark.parametrize("memory_format", MemoryFormat)
def test_training_changes_the_weights_and_inference_does_not(task, precision, memory_format):
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4))
    before = network[1].weight.detach().clone()
    engine = engine_of(network, task=task, precision=precision, memory_format=memory_format)
    StepRunner(engine, depth=0).submit(torch.rand(3, 3, 2, 2), torch.tensor([0, 1, 2]))
    changed = not torch.equal(before, network[1].weight)
    assert changed == (task is Task.TRAINING)


def test_a_network_that_takes_gradients_or_finds_no_memory_in_its_first_step_is_told_apart():
    """As energies and their forces are computed; inference mode forbids it."""

    class Force(torch.nn.Linear):
        def forward(self, places):
            with torch.enable_grad():
                places = places.clone().requires_grad_()
                return torch.autograd.grad(super().forward(places).sum(), places)[0]

    def engine(network):
        made = engine_of(network)
        StepRunner(made, depth=0).submit(torch.rand(2, 3), None)
        return made

    assert engine(Force(3, 1)).environment == {"gradient_mode": "no_grad"}
    assert engine(torch.nn.Linear(3, 1)).environment == {}

    class TooLarge(torch.nn.Linear):
        tries = 0

        def forward(self, _inputs):
            TooLarge.tries += 1
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 90 GiB")

    engine = engine_of(TooLarge(3, 1))
    with pytest.raises(torch.OutOfMemoryError):
        StepRunner(engine, depth=0).submit(torch.rand(2, 3), None)
    assert (TooLarge.tries, engine.environment) == (1, {})


@pytest.mark.parametrize("memory_format", MemoryFormat)
def test_images_and_weights_lie_in_the_format_of_the_trial(memory_format):
    seen = []

    class Recording(torch.nn.Conv2d):
        def forward(self, images):
            both = (images, self.weight)
            seen.extend(entry.is_contiguous(memory_format=torch.channels_last) for entry in both)
            return super().forward(images)

    engine = engine_of(Recording(3, 4, 3), memory_format=memory_format)
    StepRunner(engine, depth=0).submit(torch.rand(2, 3, 8, 8), None)
    assert set(seen) == {memory_format is MemoryFormat.CHANNELS_LAST}
