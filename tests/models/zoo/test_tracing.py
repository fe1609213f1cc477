"""A replayed step takes the memory of the step itself, and costs none."""

import pytest

from advisor.errors import UsageError
from advisor.infra.build.networks.memory import FACTS
from advisor.models.performance.memory.steps import BATCHES, profile_from
from advisor.models.zoo.kernels import PRIME_BATCH
from advisor.models.zoo.live_memory import FACT_BATCHES, CachingAllocator
from advisor.models.zoo.opening import open_network
from advisor.models.zoo.own import load_own
from advisor.models.zoo.tracing import RUNS, STEPS, make_fake, network_memory, step_facts

pytestmark = pytest.mark.slow  # loads torch
MIB = 2**20
TRAINING = "training/fp32"

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
    "def build():",
    "class Net(torch.nn.Module):\n"
    "    def __init__(self):\n        super().__init__()\n"
    "        self.inner = torch.nn.Linear(8, 8)\n"
    "    def forward(self, x):\n"
    "        times = int(x.sum().item() > -1)\n"
    "        for _ in range(times):\n            x = self.inner(x)\n"
    "        return x\n"
    "def values():\n    return Net()\n"
    "def build():",
)


def own(tmp_path, text, name="build"):
    path = tmp_path / "net.py"
    path.write_text(text)
    return load_own(f"{path}:{name}", tmp_path)


def traced(network, *steps):
    return profile_from("own", network_memory(network, steps or STEPS))


def test_what_lives_after_the_forward_pass_is_what_autograd_saved(tmp_path):
    import torch

    network = own(tmp_path, SMALL)
    profile = traced(network, TRAINING)
    real, (inputs, targets) = network.build(), network.synthetic_batch(8)
    known = {parameter.untyped_storage().data_ptr() for parameter in [*real.parameters(), targets]}
    saved: dict[int, int] = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = network.training_loss(real, inputs, targets)
    assert loss.ndim == 0
    assert profile.traced == "fake"
    assert profile.at(TRAINING, 8).forward * MIB == pytest.approx(sum(saved.values()), rel=0.03)


def test_replayed_and_real_steps_take_the_same(tmp_path):
    from advisor.models.zoo import tracing

    network = own(tmp_path, SMALL)
    fake = traced(network, TRAINING)
    real = profile_from("own", tracing._computed(network, [TRAINING], None))
    assert (fake.traced, real.traced) == ("fake", "run")
    assert fake.at(TRAINING, 2).peak == pytest.approx(real.at(TRAINING, 2).peak, rel=0.1)
    assert fake.weights_mib == real.weights_mib


def test_an_own_network_is_traced_or_run_for_real_and_one_that_cannot_run_is_a_usage_error(tmp_path):
    profile = traced(own(tmp_path, SMALL))
    assert set(profile.steps) == set(STEPS)
    large, small = profile.at(TRAINING, 64), profile.at(TRAINING, 8)
    assert large.forward == pytest.approx(8 * small.forward, rel=0.05)
    assert profile.at("training/16bit", 64).forward < 0.8 * large.forward
    assert profile.at("inference/fp32", 64).peak < profile.at("inference/fp32/gradients", 64).peak
    text = READS_VALUES + "\ndef loss(outputs, targets):\n    return outputs.mean()\n"
    network = own(tmp_path, text.replace("(3, 16, 16)", "(8,)"), "values")
    profile = network_memory(network, [TRAINING])
    assert profile["traced"] == "run"
    assert [batch for batch, *_ in profile["steps"][TRAINING]] == [1, 2]
    assert not profile["takes_images"]
    broken = own(tmp_path, SMALL.replace("8 * 12 * 12", "7"))
    with pytest.raises(UsageError, match=r"cannot follow .*net.py:build"):
        network_memory(broken, [TRAINING])


def test_checkpointing_keeps_less_even_where_layers_work_in_place():
    profile = traced(open_network("alexnet"), TRAINING, "training/fp32/checkpointing")
    less = profile.at("training/fp32/checkpointing", 32)
    assert less.forward < 0.6 * profile.at(TRAINING, 32).forward


def test_shared_weights_are_counted_once(tmp_path):
    shared = SMALL.replace(
        "def build():",
        "def tied():\n"
        "    one = torch.nn.Linear(99, 99)\n    return torch.nn.Sequential(one, one)\n"
        "def build():",
    ).replace("(3, 16, 16)", "(99,)")
    profile = traced(own(tmp_path, shared, "tied"), TRAINING)
    assert profile.weights_mib * MIB == pytest.approx(4 * (99 * 99 + 99), rel=0.02)


def test_facts_have_the_names_that_the_table_keeps(tmp_path):
    from torch._subclasses.fake_tensor import FakeTensorMode

    network = own(tmp_path, SMALL)
    module, mode = network.build(), FakeTensorMode(allow_non_fake_inputs=True)
    make_fake(module, mode)
    with mode:
        batch = network.synthetic_batch(PRIME_BATCH)
        facts = step_facts(module, network, batch, RUNS["training/{}"])
    assert set(facts) == {f"{p}_{fact}" for p in ("fp32", "amp") for fact in FACTS}
    assert FACT_BATCHES == BATCHES


def test_the_allocator_reserves_in_segments_and_uses_free_blocks_again():
    """Sizes and thresholds as torch's notes on CUDA memory management have them."""
    allocator = CachingAllocator()
    small = [allocator.allocate(500) for _ in range(4)]
    assert allocator.reserved_bytes == 2 * MIB
    large = allocator.allocate(3 * MIB)
    assert allocator.reserved_bytes == 22 * MIB
    huge = allocator.allocate(30.5 * MIB)
    assert allocator.reserved_bytes == 54 * MIB
    for number in (*small, large, huge):
        allocator.free(number)
    allocator.allocate(31.5 * MIB)  # what was rounded up serves a little more
    allocator.allocate(17 * MIB)  # the blocks of a free segment have become one again
    allocator.allocate(MIB)
    assert allocator.reserved_bytes == 54 * MIB
