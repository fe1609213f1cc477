"""Networks, loops and configurations that are objects of a Python session."""

import json

import pytest

import advisor
from advisor.api.modules import network
from advisor.models.zoo.torchvision_operators import import_torchvision
from tests.sweeps.measure.test_network import validate

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("own_folder")
ASKED = {"task": "inference", "model": "my_net", "target_throughput": 50}


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 8, 3)
        self.head = torch.nn.Linear(8, 4)

    def forward(self, images):
        return self.head(self.layer(images).mean((2, 3)))


@pytest.mark.slow
def test_a_module_is_answered_as_the_file_that_builds_it():
    named = network(Small(), torch.zeros(2, 3, 64, 64))
    fields = {"task": "training", "batch_size": 8, "target_throughput": 100}
    answer = advisor.recommend(model=named, **fields)
    assert named.endswith("Small.py:build")
    assert answer.recommendation.batch_size == 8
    assert answer.request.model == named
    assert advisor.recommend(model=Small(), **fields).recommendation is not None


@pytest.mark.slow
def test_a_modules_anchor_is_measured_in_processes_of_its_own():
    file = advisor.anchor(
        Small, (torch.zeros(2, 3, 16, 16), torch.zeros(2, dtype=torch.long)), task="training", minutes=0.05
    )
    document = json.loads(file.read_text())
    validate(document)
    assert file.name == "anchor-Small.json"
    assert {run["task"] for run in document["runs"]} == {"training"}


@pytest.mark.slow
def test_a_configuration_of_transformers_is_a_language_model():
    pytest.importorskip("transformers")
    # A torchvision whose build is not torch's own lacks operators, and transformers imports it.
    import_torchvision()
    from transformers import LlamaConfig

    config = LlamaConfig(
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=128256,
        max_position_embeddings=131072,
        dtype="bfloat16",
    )
    own = advisor.memory(task="generation", model=config, gpu="L4", max_context=8192)
    named = advisor.memory(task="generation", model="meta-llama/Llama-3.1-8B", gpu="L4", max_context=8192)
    assert own.weights_gib == pytest.approx(named.weights_gib)
    assert own.kv_bytes_per_token == named.kv_bytes_per_token


def _measured(**settings):
    """20 steps of a loop."""
    with advisor.measure("my_net", task="inference", **settings) as m:
        for _ in range(20):
            m.step(16)
    return m


def test_a_loop_leaves_an_anchor_as_measure_writes_it_unless_it_fails(tmp_path):
    with pytest.raises(ValueError, match="theirs"), advisor.measure("my_net"):
        raise ValueError("theirs")
    assert list(tmp_path.iterdir()) == []
    m = _measured(precision="amp", input_shape=(3, 64, 64))
    document = json.loads(m.file.read_text())
    validate(document)
    assert document == m.document
    run = document["runs"][0]
    assert (run["task"], run["precision"], run["batch_size"]) == ("inference", "amp", 16)
    assert document["what"]["name"] == "my_net"
    assert document["what"]["input_shape"] == [3, 64, 64]
    assert m.samples_per_second == run["samples_per_second"] > 0
    assert "waited for its data is not known" in " ".join(document["warnings"])
    batches = [(torch.zeros(8, 3), torch.zeros(8))] * 12
    with advisor.measure("my_net") as m:
        passed = list(m.steps(batches))
    assert passed == batches
    assert m.document["runs"][0]["batch_size"] == 8
    assert not [text for text in m.document["warnings"] if "waited" in text]


def test_a_loop_with_too_few_steps_or_steps_outside_of_its_block_is_told_how():
    with pytest.raises(advisor.MeasuringError, match="too few"), advisor.measure("my_net") as m:
        m.step(4)
    text = pytest.raises(advisor.MeasuringError, match=r"m\.steps\(loader\)")
    with text, advisor.measure("my_net"):
        pass
    with pytest.raises(advisor.UsageError, match="outside of its block"):
        advisor.measure("my_net").step(4)
    with pytest.raises(advisor.UsageError, match="outside of its block"):
        _measured().step(4)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"precision": "fp4"}, "precision"),
        ({"task": "sleeping"}, "task"),
        ({"input_shape": "3x32x32"}, "input_shape"),
        ({"input_shape": (3, 0)}, "input_shape"),
        ({"input_shape": (3, None)}, "input_shape"),
        ({"input_shape": 224}, "input_shape"),
        ({"out": "/nonexistent/anchor.json"}, "out"),
    ],
)
def test_a_wrong_setting_is_refused_before_the_loop(settings, field):
    with pytest.raises(advisor.UsageError) as error:
        advisor.measure("my_net", **settings)
    assert error.value.field == field
    assert "--" not in str(error.value)


def test_an_anchor_of_a_cpu_is_refused_for_gpus_with_the_reason():
    with pytest.raises(advisor.UsageError, match=r"measured on a CPU.*NVIDIA GPU, or ask without"):
        advisor.recommend(**ASKED, anchor=_measured().file)


@pytest.fixture
def configurations():
    transformers = pytest.importorskip("transformers")
    import_torchvision()
    return transformers


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["BertConfig", "ViTConfig", "T5Config", "LlamaConfig"])
@pytest.mark.parametrize("task", [{"task": "inference"}, {}])
def test_a_configuration_without_a_task_of_language_names_both_ways(configurations, kind, task):
    with pytest.raises(advisor.UsageError, match="generation and finetuning alone") as error:
        advisor.recommend(model=getattr(configurations, kind)(), target_throughput=1, **task)
    assert error.value.field == "model"
    assert "advisor.network(" in str(error.value)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"task": "generation", "model": Small(), "users": 1}, "give model.config"),
        ({"task": "inference", "model": {"layer.weight": 3}}, "not dict"),
    ],
)
def test_an_object_that_is_no_answerable_network_names_the_way_out(fields, text):
    with pytest.raises(advisor.UsageError) as error:
        advisor.recommend(**fields)
    assert error.value.field == "model"
    assert text in str(error.value)
