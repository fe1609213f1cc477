"""Own networks as people write them: several arguments, lazy layers, losses that they return."""

from functools import partial

import pytest

from advisor.domain import Precision, Task
from advisor.errors import UsageError
from advisor.models.zoo.own import load_own
from advisor.models.zoo.step_facts import network_facts
from advisor.models.zoo.torchvision_operators import import_torchvision
from advisor.models.zoo.tracing import STEPS, network_memory

torch = pytest.importorskip("torch")

HEAD = """
import torch
from torch import nn
from torch.nn import functional as F
def classes(n):
    return torch.zeros(n, dtype=torch.long)
def words(n, length=8):
    return torch.zeros(n, length, dtype=torch.long)
"""


def net(layers: str, forward: str, batch: str | None, more: str = "") -> str:
    """A file whose `Net` has such layers, arguments and body of forward(), and such a batch."""
    arguments, _, body = forward.partition(": ")
    lines = [f"        {line}" for line in body.split("; ")]
    forward = "\n".join([f"    def forward(self, {arguments}):", *lines])
    made = f"    def __init__(self):\n        super().__init__()\n        {layers}"
    example = f"def example_batch(n):\n    return {batch}" if batch else ""
    return "\n".join(["class Net(nn.Module):", made, forward, example, more])


LAYER = "self.layer = nn.Linear(16, 4)"
WORDS = "self.words, self.head = nn.Embedding(50, 16), nn.Linear(16, 50)"
PLACES = "torch.rand(n, 16), torch.rand(n, 16)"
TUPLE = f"({PLACES}), classes(n)"
DICTIONARY = "{'right': torch.rand(n, 16), 'left': torch.rand(n, 16)}, classes(n)"
PAIR = (LAYER, "left, right: return self.layer(left) - self.layer(right)")
KINDS = {
    "a tuple": net(*PAIR, TUPLE),
    "a dictionary": net(*PAIR, DICTIONARY),
    "words and targets, as nanoGPT": net(
        WORDS,
        "idx, targets=None: logits = self.head(self.words(idx)); loss = None; "
        "if targets is not None: loss = F.cross_entropy(logits.view(-1, 50), targets.view(-1)); "
        "return logits, loss",
        "(words(n), words(n)), None",
    ),
    "words and a state, as word_language_model": net(
        f"{WORDS}\n        self.layer = nn.LSTM(16, 16, 2, batch_first=True)",
        "x, hidden: out, hidden = self.layer(self.words(x), hidden); return self.head(out), hidden",
        "(words(n), (torch.zeros(2, n, 16), torch.zeros(2, n, 16))), words(n)",
    ),
    "a graph, as GCN": net(
        "self.one, self.two = nn.Linear(16, 32), nn.Linear(32, 7)",
        "x, adjacency: return self.two(adjacency @ F.relu(self.one(adjacency @ x)))",
        "(torch.rand(n, 16), torch.rand(n, n)), classes(n)",
    ),
    "numbers and lists of places, as DLRM": net(
        "self.bottom, self.top = nn.Linear(13, 8), nn.Linear(24, 2)\n"
        "        self.tables = nn.ModuleList(nn.Embedding(100, 8) for _ in range(2))",
        "dense, sparse: rows = [table(index) for table, index in zip(self.tables, sparse)]; "
        "return self.top(torch.cat([self.bottom(dense), *rows], 1))",
        "(torch.rand(n, 13), [classes(n), classes(n)]), classes(n)",
    ),
    "a user and an item": net(
        "self.users, self.items = nn.Embedding(100, 8), nn.Embedding(100, 8)",
        "user, item: return (self.users(user) * self.items(item)).sum(1)",
        "(classes(n), classes(n)), torch.zeros(n)",
        "loss = F.binary_cross_entropy_with_logits",
    ),
    "images, a step and a text, as a denoiser": net(
        "self.conv, self.text = nn.Conv2d(4, 4, 3, padding=1), nn.Linear(16, 4)",
        "sample, timestep, text, guidance=None: text = self.text(text)[..., None, None]; "
        "return self.conv(sample) + text * timestep[:, None, None, None]",
        "(torch.rand(n, 4, 8, 8), torch.rand(n), torch.rand(n, 16)), torch.rand(n, 4, 8, 8)",
        "loss = F.mse_loss",
    ),
    "keywords alone": net(
        "self.image, self.text = nn.Conv2d(3, 4, 3), nn.Embedding(50, 4)",
        "*, image, text: return self.image(image).mean((2, 3)) + self.text(text).mean(1)",
        "{'image': torch.rand(n, 3, 8, 8), 'text': words(n)}, classes(n)",
    ),
    "any number of places": net(
        LAYER, "*parts: return sum(map(self.layer, parts))", "(torch.rand(n, 16),) * 3, classes(n)"
    ),
    "source and target words": net(
        f"{WORDS}\n        self.layer = nn.Transformer(16, 2, 1, 1, 32, batch_first=True)",
        "src, tgt, src_mask=None: return self.head(self.layer(self.words(src), self.words(tgt)))",
        "(words(n), words(n, 6)), words(n, 6)",
    ),
    "one dictionary": net(
        LAYER, "batch, scale=1.0: return scale * self.layer(batch['left'] - batch['right'])", DICTIONARY
    ),
    "one tuple": net(LAYER, "pair: left, right = pair; return self.layer(left - right)", TUPLE),
    "one tuple beside an option": net(
        LAYER,
        "pair, scale=1.0: left, right = pair; return scale * self.layer(left - right)",
        f"(({PLACES}),), classes(n)",
    ),
    "lazy layers": "INPUT_SHAPE = (3, 16, 16)\ndef Net():\n    return nn.Sequential("
    "nn.LazyConv2d(8, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(10))",
    "lazy layers of two arguments": net("self.layer = nn.LazyLinear(4)", PAIR[1], TUPLE),
    "a lazy head that only training reaches": net(
        "self.layer, self.other = nn.LazyLinear(4), nn.LazyLinear(4)",
        "x: return self.layer(x) + (self.other(x) if self.training else 0)",
        None,
        "INPUT_SHAPE = (16,)",
    ),
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
OF_TRANSFORMERS = {
    "their labels": "Net = bert\ndef example_batch(n):\n"
    "    return {'input_ids': words(n), 'labels': classes(n)}, None",
    "our labels": "Net = bert\ndef example_batch(n):\n"
    "    return {'input_ids': words(n), 'attention_mask': words(n) + 1}, classes(n)",
    "the words of a language model": "Net = gpt2\ndef example_batch(n):\n"
    "    return {'input_ids': words(n)}, words(n)",
    "what a tokenizer returns": "from transformers import BatchEncoding\nNet = bert\n"
    "def example_batch(n):\n"
    "    return BatchEncoding({'input_ids': words(n), 'attention_mask': words(n) + 1}), classes(n)",
}


@pytest.fixture
def own(tmp_path):
    """Load a file of this text, whose `Net` makes the network."""

    def load(text, build="def build():\n    return Net()\n"):
        (tmp_path / "net.py").write_text(HEAD + text + "\n" + build)
        return load_own(f"{tmp_path}/net.py:build", root=tmp_path)

    return load


def _computes(network):
    """It is tried, followed without computing, traced, trained and asked."""
    from advisor.sweeps.worker.torch_engine import TorchEngine

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
    """A tuple is its arguments, a dictionary its keywords, where it takes several."""
    _computes(own(KINDS[kind]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", OF_TRANSFORMERS)
def test_networks_of_transformers_take_dictionaries(own, kind):
    """By keywords, with the loss that they return, or cross entropy of their logits."""
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
    """The way out is to say what a batch is."""
    with pytest.raises(UsageError, match=r"missing 1 required.*'right'.*example_batch"):
        own(net(*PAIR, "torch.rand(n, 16), classes(n)")).check()


UNREACHED = "a lazy layer that forward() does not reach"
NOT_LAZY_ENOUGH = {
    UNREACHED: (
        "class Net(nn.Sequential):\n    def __init__(self):\n        super().__init__("
        "nn.Linear(16, 4))\n        self.other = [nn.LazyLinear(3)]\n"
        "        self.register_module('lost', self.other[0])\n"
        "    def forward(self, x):\n        return self[0](x)\nINPUT_SHAPE = (16,)",
        "does not reach; call it once on a batch in build",
    ),
    "a batch that does not fit": (
        "INPUT_SHAPE = (9,)\ndef Net():\n    return nn.Sequential(nn.Linear(16, 8), nn.LazyLinear(4))",
        r"get no size from a batch .RuntimeError.*; call it once on a batch in build",
    ),
}


@pytest.mark.parametrize("kind", NOT_LAZY_ENOUGH)
def test_lazy_layers_without_a_size_are_told_with_the_way_out(own, kind):
    """Wherever the network is built first."""
    text, told = NOT_LAZY_ENOUGH[kind]
    network = own(text)
    for build in (network.build, network.check, partial(network_memory, network)):
        with pytest.raises(UsageError, match=told):
            build()
