"""Networks, loops and configurations that are objects of a Python session."""

import json
from importlib.resources import files

import jsonschema
import pytest

import advisor
from advisor.api.modules import network
from advisor.models.zoo.torchvision_operators import import_torchvision

torch = pytest.importorskip("torch")
SCHEMA = json.loads((files("advisor.sweeps.anchors.measure") / "anchor.schema.json").read_text())
ASKED = {"task": "inference", "model": "my_net", "target_throughput": 50}


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 8, 3)
        self.head = torch.nn.Linear(8, 4)

    def forward(self, images):
        return self.head(self.layer(images).mean((2, 3)))


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


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
        Small, (torch.zeros(2, 3, 16, 16), torch.zeros(2, dtype=torch.long)), task="training",
        minutes=0.05,
    )  # fmt: skip
    document = json.loads(file.read_text())
    jsonschema.validate(document, SCHEMA)
    assert file.name == "anchor-Small.json"
    assert {run["task"] for run in document["runs"]} == {"training"}


@pytest.mark.parametrize("wrong", [3, "a text that is a network's name only for `model`", None])
def test_what_is_no_network_is_refused(wrong):
    with pytest.raises(advisor.UsageError, match="is no network"):
        advisor.network(wrong)


@pytest.mark.slow
def test_a_configuration_of_transformers_is_a_language_model():
    pytest.importorskip("transformers")
    # A torchvision whose build is not torch's own lacks operators, and transformers imports it.
    import_torchvision()
    from transformers import LlamaConfig

    config = LlamaConfig(
        hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=128256, max_position_embeddings=131072, dtype="bfloat16",
    )  # fmt: skip
    own = advisor.memory(task="generation", model=config, gpu="L4", max_context=8192)
    named = advisor.memory(
        task="generation", model="meta-llama/Llama-3.1-8B", gpu="L4", max_context=8192
    )
    assert own.weights_gib == pytest.approx(named.weights_gib)
    assert own.kv_bytes_per_token == named.kv_bytes_per_token


@pytest.mark.slow
def test_an_encoder_of_transformers_is_a_network_that_is_built():
    """Its configuration alone is refused, and the way that is named answers."""
    pytest.importorskip("transformers")
    import_torchvision()
    from transformers import AutoModel, BertConfig

    config = BertConfig(hidden_size=128, num_hidden_layers=2, num_attention_heads=2)
    asked = {"task": "inference", "target_throughput": 50}
    with pytest.raises(advisor.UsageError, match="generation, finetuning; BertConfig") as error:
        advisor.recommend(model=config, **asked)
    assert error.value.field == "model"
    assert "AutoModel.from_config(config)" in str(error.value.hint)
    token_ids = torch.zeros(1, 64, dtype=torch.long)

    def bert():
        import_torchvision()
        return AutoModel.from_config(config)

    built = advisor.network(bert, token_ids)
    assert advisor.recommend(model=built, **asked).recommendation is not None


def _measured(**settings):
    """20 steps of a loop."""
    with advisor.measure("my_net", task="inference", **settings) as m:
        for _ in range(20):
            m.step(16)
    return m


def test_a_loop_leaves_an_anchor_as_measure_writes_it():
    m = _measured(precision="amp", input_shape=(3, 64, 64))
    document = json.loads(m.file.read_text())
    jsonschema.validate(document, SCHEMA)
    assert document == m.document
    run = document["runs"][0]
    assert (run["task"], run["precision"], run["batch_size"]) == ("inference", "amp", 16)
    assert document["what"]["name"] == "my_net"
    assert document["what"]["input_shape"] == [3, 64, 64]
    assert m.samples_per_second == run["samples_per_second"] > 0
    assert "waited for its data is not known" in " ".join(document["warnings"])


def test_the_loaders_batches_pass_through_a_measured_loop():
    batches = [(torch.zeros(8, 3), torch.zeros(8))] * 12
    with advisor.measure("my_net") as m:
        passed = list(m.steps(batches))
    assert passed == batches
    assert m.document["runs"][0]["batch_size"] == 8
    assert not [text for text in m.document["warnings"] if "waited" in text]


def test_a_loop_that_fails_keeps_its_error_and_leaves_no_anchor(tmp_path):
    with pytest.raises(ValueError, match="theirs"), advisor.measure("my_net"):
        raise ValueError("theirs")
    assert list(tmp_path.iterdir()) == []


def test_too_few_steps_are_no_anchor():
    with pytest.raises(advisor.MeasuringError, match="too few"), advisor.measure("my_net") as m:
        m.step(4)


@pytest.mark.parametrize(
    ("settings", "field"), [({"precision": "fp4"}, "precision"), ({"task": "sleeping"}, "task")]
)
def test_a_wrong_setting_is_refused_before_the_loop(settings, field):
    with pytest.raises(advisor.UsageError) as error:
        advisor.measure("my_net", **settings)
    assert error.value.field == field


def test_an_anchor_of_a_cpu_is_refused_for_gpus_with_the_reason():
    with pytest.raises(advisor.UsageError, match="measured on a CPU"):
        advisor.recommend(**ASKED, anchor=_measured().file)
