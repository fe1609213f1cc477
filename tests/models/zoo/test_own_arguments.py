"""Own networks as people write them: several arguments, lazy layers, losses that they return."""

from functools import partial

import pytest

from advisor.domain import Precision, Task
from advisor.errors import UsageError
from advisor.models.zoo.own import load_own
from advisor.models.zoo.step_facts import network_facts
from advisor.models.zoo.torchvision_operators import import_torchvision
from advisor.models.zoo.tracing import STEPS, network_memory
from tests.rows import table

torch = pytest.importorskip("torch")
TABLES = table("own_networks")

HEAD = """
import torch
from torch import nn
from torch.nn import functional as F
def classes(n):
    return torch.zeros(n, dtype=torch.long)
def words(n, length=8):
    return torch.zeros(n, length, dtype=torch.long)
"""


def net(layers, forward, batch, more=""):
    """A file whose `Net` has such layers, arguments and body of forward(), and such a batch."""
    arguments, _, body = forward.partition(": ")
    lines = [f"        {line}" for line in body.split("; ")]
    forward = "\n".join([f"    def forward(self, {arguments}):", *lines])
    made = f"    def __init__(self):\n        super().__init__()\n        {layers}"
    example = f"def example_batch(n):\n    return {batch}" if batch else ""
    return "\n".join(["class Net(nn.Module):", made, forward, example, more])


LAYER = "self.layer = nn.Linear(16, 4)"
PLACES = "torch.rand(n, 16), torch.rand(n, 16)"
PAIR = (LAYER, "left, right: return self.layer(left) - self.layer(right)")
KINDS = {
    kind: written if isinstance(written, str) else net(*written) for kind, written in TABLES["kinds"].items()
}
BERT = """
from advisor.models.zoo.torchvision_operators import import_torchvision
import_torchvision()
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel
def bert():
    return BertForSequenceClassification(BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64,
    ))
def gpt2():
    return GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=32, n_layer=1, n_head=2))
"""
OF_TRANSFORMERS = TABLES["of_transformers"]


@pytest.fixture
def own(tmp_path):
    """Load a file of this text, whose `Net` makes the network."""

    def load(text, build="def build():\n    return Net()\n"):
        (tmp_path / "net.py").write_text(HEAD + text + "\n" + build)
        return load_own(f"{tmp_path}/net.py:build", root=tmp_path)

    return load


def _computes(network):
    """It is tried, followed without computing, traced, trained and asked."""
    from advisor.sweeps.worker.engine import TorchEngine

    network.check()
    facts = network_facts(network, training=True)
    assert facts.inference
    assert facts.training
    memory = network_memory(network)
    assert set(memory["steps"]) == set(STEPS)
    assert memory["traced"] == "fake"
    engine = partial(TorchEngine, network, device="cpu", precision=Precision.FP32)
    for task in (Task.TRAINING, Task.INFERENCE):
        stepping = engine(task=task)
        stepping.launch(*network.synthetic_batch(4))
        stepping.require_finite_loss()


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_reaches_forward_as_it_is_written(own, kind):
    _computes(own(KINDS[kind]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", OF_TRANSFORMERS)
def test_networks_of_transformers_take_dictionaries(own, kind):
    pytest.importorskip("transformers")
    import_torchvision()
    _computes(own(BERT + OF_TRANSFORMERS[kind]))


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """A process group of this process."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.slow
@pytest.mark.usefixtures("alone")
def test_what_is_put_around_a_network_does_not_hide_its_arguments(own):
    """Neither torch.compile nor several GPUs say what the network inside takes."""
    network = own(KINDS["one dictionary"])
    inputs, _ = network.synthetic_batch(2)
    for around in (
        partial(torch.compile, backend="eager"),
        torch.nn.parallel.DistributedDataParallel,
        lambda inside: torch.nn.parallel.DistributedDataParallel(torch.compile(inside, backend="eager")),
    ):
        assert network.forward(around(network.build()), inputs).shape == (2, 4)


def test_too_few_arguments_are_told_with_what_is_missing(own):
    with pytest.raises(UsageError, match=r"missing 1 required.*'right'.*example_batch"):
        own(net(*PAIR, "torch.rand(n, 16), classes(n)")).check()


NOT_LAZY_ENOUGH = TABLES["not_lazy_enough"]


@pytest.mark.parametrize("kind", NOT_LAZY_ENOUGH)
def test_lazy_layers_without_a_size_are_told_with_the_way_out(own, kind):
    text, expected = NOT_LAZY_ENOUGH[kind]
    network = own(text)
    for build in (network.build, network.check, partial(network_memory, network)):
        with pytest.raises(UsageError, match=expected):
            build()
