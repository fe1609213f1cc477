"""A step's memory on fake tensors is that of the step itself, and costs none."""

from __future__ import annotations

import pytest

from advisor.errors import UsageError
from models.zoo.memory_facts import VARIANTS, network_memory
from models.zoo.opening import open_network
from models.zoo.own import load_own
from models.zoo.tracing import StepOptions, StepTracer

pytestmark = pytest.mark.slow  # loads torch
MIB = 2**20
TRAINING = StepOptions(training=True)

SMALL = """
import torch
INPUT_SHAPE = (3, 16, 16)
def build():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(inplace=True),
        torch.nn.Conv2d(8, 8, 3), torch.nn.ReLU(inplace=True),
        torch.nn.Flatten(), torch.nn.Linear(8 * 12 * 12, 10),
    )
"""
READS_VALUES = SMALL.replace(
    "def build():", "class Net(torch.nn.Module):\n"
    "    def __init__(self):\n        super().__init__()\n"
    "        self.inner = torch.nn.Linear(8, 8)\n"
    "    def forward(self, x):\n"
    "        times = int(x.sum().item() > -1)\n"
    "        for _ in range(times):\n            x = self.inner(x)\n"
    "        return x\n"
    "def values():\n    return Net()\n"
    "def build():",
)  # fmt: skip


def own(tmp_path, text, name="build"):
    path = tmp_path / "net.py"
    path.write_text(text)
    return load_own(f"{path}:{name}", tmp_path)


def test_what_lives_after_the_forward_pass_is_what_autograd_saved(tmp_path):
    """saved_tensors_hooks see the same bytes; beside them live the batch, logits and loss."""
    import torch

    network = own(tmp_path, SMALL)
    traced = StepTracer(network).trace(4, TRAINING)
    real, (inputs, targets) = network.build(), network.synthetic_batch(4)
    weights = {one.untyped_storage().data_ptr() for one in real.parameters()}
    saved: dict[int, int] = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = network.training_loss(real, inputs, targets)
    saved[inputs.data_ptr()] = inputs.nbytes
    assert loss.ndim == 0
    assert traced.fake
    assert traced.forward_mib * MIB == pytest.approx(sum(saved.values()), rel=0.02)


def test_fake_and_real_steps_take_the_same(tmp_path):
    tracer = StepTracer(own(tmp_path, SMALL))
    fake, real = tracer.trace(4, TRAINING), tracer._really(4, TRAINING)
    assert (fake.fake, real.fake) == (True, False)
    assert fake.peak_mib == pytest.approx(real.peak_mib, rel=0.02)
    assert fake.weights_mib == real.weights_mib


def test_memory_of_activations_grows_with_the_batch_and_shrinks_with_16_bits(tmp_path):
    tracer = StepTracer(own(tmp_path, SMALL))
    small, large = tracer.trace(8, TRAINING), tracer.trace(64, TRAINING)
    assert large.forward_mib == pytest.approx(8 * small.forward_mib, rel=0.05)
    sixteen = tracer.trace(64, StepOptions(training=True, sixteen_bit=True))
    assert sixteen.forward_mib < 0.8 * large.forward_mib


def test_checkpointing_keeps_less_even_where_layers_work_in_place():
    tracer = StepTracer(open_network("alexnet"))
    plain = tracer.trace(32, TRAINING)
    less = tracer.trace(32, StepOptions(training=True, checkpointing=True))
    assert less.forward_mib < 0.6 * plain.forward_mib
    assert tracer.trace(32, TRAINING).forward_mib == plain.forward_mib  # and nothing stays behind


def test_inference_without_no_grad_keeps_what_nobody_needs(tmp_path):
    tracer = StepTracer(own(tmp_path, SMALL))
    careful = tracer.trace(32, StepOptions(training=False, gradients=False))
    careless = tracer.trace(32, StepOptions(training=False))
    assert careful.forward_mib < careless.forward_mib


def test_a_network_that_reads_its_values_is_run_for_real(tmp_path):
    text = READS_VALUES + "\ndef loss(outputs, targets):\n    return outputs.mean()\n"
    network = own(tmp_path, text.replace("(3, 16, 16)", "(8,)"), "values")
    profile = network_memory(network, {"training/fp32": VARIANTS["training/fp32"]})
    assert profile["traced"] == "run"
    assert [batch for batch, *_ in profile["steps"]["training/fp32"]] == [1, 2]


def test_a_network_that_cannot_run_is_a_usage_error(tmp_path):
    broken = own(tmp_path, SMALL.replace("8 * 12 * 12", "7"))
    with pytest.raises(UsageError, match="cannot be run on a batch of 4"):
        StepTracer(broken).trace(4, TRAINING)


def test_shared_weights_are_counted_once(tmp_path):
    shared = SMALL.replace("def build():", "def tied():\n"
        "    one = torch.nn.Linear(8, 8)\n    return torch.nn.Sequential(one, one)\n"
        "def build():").replace("(3, 16, 16)", "(8,)")  # fmt: skip
    traced = StepTracer(own(tmp_path, shared, "tied")).trace(2, TRAINING)
    assert traced.weights_mib * MIB == 4 * (64 + 8)
