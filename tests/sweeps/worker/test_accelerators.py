import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import Precision, Task
from sweeps.worker.accelerators import EmulatedAccelerator, TorchAccelerator, is_named


class Clock:
    """Time that passes only when somebody sleeps; sleeps end late, as real ones do."""

    def __init__(self, late=0.0):
        self.now = 100.0
        self.slept = 0.0
        self.late = late

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds + self.late
        self.slept += seconds


def emulated(step, clock, depth=2):
    return EmulatedAccelerator(step, depth=depth, clock=clock, sleep=clock.sleep)


@given(step=st.floats(0.001, 1.0), late=st.floats(0.0, 0.0005))
def test_batches_that_wait_are_taken_at_the_known_pace_within_one_percent(step, late):
    clock = Clock(late)
    accelerator = emulated(step, clock)
    start, batches = clock.now, 200
    for _ in range(batches):
        accelerator.submit(None, None)
    accelerator.drain()
    assert (clock.now - start) / batches == pytest.approx(step, rel=0.01)


def test_two_batches_are_in_flight_before_anybody_waits():
    clock = Clock()
    accelerator = emulated(1.0, clock)
    accelerator.submit(None, None)
    accelerator.submit(None, None)
    assert clock.slept == 0
    accelerator.submit(None, None)
    assert clock.slept == 1.0


def test_a_slow_host_costs_no_more_than_its_own_time():
    clock = Clock()
    accelerator = emulated(0.1, clock)
    for _ in range(10):
        clock.now += 0.5
        accelerator.submit(None, None)
    assert clock.slept == 0


@pytest.mark.parametrize("task", [Task.TRAINING, Task.INFERENCE])
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16])
def test_training_changes_the_weights_and_inference_does_not(task, precision):
    import torch

    from sweeps.worker.stepping import Stepper

    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4))

    class Opened:
        def build(self):
            return network

        def forward(self, built, inputs):
            return built(inputs)

        def training_loss(self, built, inputs, targets):
            return torch.nn.functional.cross_entropy(built(inputs), targets)

    before = network[1].weight.detach().clone()
    accelerator = TorchAccelerator(Stepper(Opened(), device="cpu", task=task, precision=precision))
    accelerator.submit(torch.rand(3, 3, 2, 2), torch.tensor([0, 1, 2]))
    changed = not torch.equal(before, network[1].weight)
    assert changed == (task is Task.TRAINING)


@pytest.mark.parametrize(
    ("device", "asked", "same"),
    [
        ("Tesla T4", "T4", True), ("NVIDIA L4", "L4", True), ("NVIDIA L40S", "L4", False),
        ("NVIDIA A100-SXM4-40GB", "A100", True), ("NVIDIA A100-SXM4-40GB", "A100-40G", True),
        ("NVIDIA A100-SXM4-80GB", "A100-40G", False), ("NVIDIA A10G", "A10", False),
        ("Tesla V100-SXM2-16GB", "V100-SXM2-16GB", True),
    ],
)  # fmt: skip
def test_a_gpu_is_known_by_the_names_of_ray_and_of_the_catalogue(device, asked, same):
    assert is_named(device, asked) is same
