"""Configurations that leave out what their class takes by itself, as published ones do."""

import json
import subprocess
import sys

import pytest

from advisor.errors import UsageError
from advisor.models.language.config_files import language_model_of_config
from advisor.models.language.config_values import class_defaults
from advisor.models.language.families import FAMILIES, UNCOVERED
from advisor.models.zoo.torchvision_operators import import_torchvision
from tests.rows import assert_each, table

KINDS = tuple(class_defaults())
COVERED = tuple(
    kind
    for kind, values in class_defaults().items()
    if (kind in FAMILIES or "text_config" in values) and kind not in UNCOVERED
)
# None of them is a class's own, so that their short form keeps them.
SIZES = {"num_hidden_layers": 12, "hidden_size": 1536, "intermediate_size": 5120, "vocab_size": 77_824}
# transformers takes seconds to import, so that one process writes all configurations: the whole,
# and the short form without all that equals the class.
WRITER = """
import json, sys
from advisor.models.zoo.torchvision_operators import import_torchvision
import_torchvision()
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from advisor.infra.build.language_models.class_defaults import class_defaults

def plain(values):
    return json.loads(json.dumps(values, default=str))

def short(values, fields):
    kept = {}
    for key, value in values.items():
        if key in ("model_type", "tie_word_embeddings"):
            kept[key] = value
        elif isinstance(value, dict) and isinstance(fields.get(key), dict):
            kind = value.get("model_type")
            part = CONFIG_MAPPING[kind].default_config_fields() if kind else fields[key]
            kept[key] = short(value, plain(part))
        elif value != fields.get(key):
            kept[key] = value
    return kept

def bare(values):
    return {key: bare(value) if isinstance(value, dict) else value for key, value in values.items()
            if key not in ("layer_types", "mlp_layer_types", "indexer_types")}

found, sizes = {}, json.loads(sys.argv[1])
for kind in json.loads(sys.argv[2]):
    made = CONFIG_MAPPING[kind]
    extra = {"num_experts_per_tok": 6} if kind == "deepseek_v2" else {}  # the class has none
    configs = {"default": made(**extra)}
    fields = made.default_config_fields()
    changes = {key: value for key, value in sizes.items() if key in fields}
    if len(changes) == len(sizes):
        try:
            configs["changed"] = made(**changes, **extra)
        except Exception:
            pass
    for name, config in configs.items():
        whole, less = plain(config.to_dict()), plain(config.to_diff_dict())
        dropped = short(less, plain(fields))
        found[f"{kind} {name}"] = [whole, less, dropped | {"model_type": kind}, bare(dropped)]
json.dump({"table": class_defaults(), "configs": found}, sys.stdout)
"""


@pytest.fixture(scope="session")
def written():
    """The table of the installed transformers, and configurations of its classes in four forms."""
    pytest.importorskip("transformers")
    pytest.importorskip("torch")
    ran = subprocess.run(
        [sys.executable, "-c", WRITER, json.dumps(SIZES), json.dumps(COVERED)],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(ran.stdout)


@pytest.mark.slow
def test_the_table_is_what_the_classes_of_transformers_take(written):
    """Renewed by `python -m advisor.infra.build.language_models.class_defaults`."""
    assert written["table"] == class_defaults()


@pytest.mark.slow
def test_a_short_configuration_is_the_model_of_the_whole_one(written, tmp_path):
    """As transformers shortens it, without all that equals the class, and without the kinds of layers."""
    file = tmp_path / "config.json"

    def model(config):
        file.write_text(json.dumps(config))
        return language_model_of_config(file)

    def check(name):
        whole, *shorter = (model(config) for config in written["configs"][name])
        assert all(entry == whole for entry in shorter)

    assert len(written["configs"]) > len(COVERED)
    assert_each(check, written["configs"])


@pytest.mark.parametrize("kind", COVERED)
def test_a_configuration_that_says_nothing_is_its_class(kind, tmp_path):
    """Where transformers is not there either, none is refused for what its class takes."""
    extra = {"num_experts_per_tok": 6} if kind == "deepseek_v2" else {}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind, **extra}))
    assert language_model_of_config(tmp_path).layers > 0


@pytest.mark.parametrize(("config", "weights", "kv_heads", "context"), table("language_configs")["published"])
def test_published_configurations_are_read_as_they_are(config, weights, kv_heads, context, tmp_path):
    """Gemma 3 of 4B, LLaVA-1.5, Pixtral and BLOOM, with the weights of their checkpoints."""
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = language_model_of_config(tmp_path)
    assert model.parameters == pytest.approx(weights, rel=0.01)
    assert (model.kv_heads, model.max_context) == (kv_heads, context)


def test_what_no_class_says_names_the_way_out(tmp_path):
    """Orion has no class in transformers."""
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "orion", "hidden_size": 5120}))
    with pytest.raises(UsageError, match="has no num_hidden_layers") as caught:
        language_model_of_config(tmp_path)
    assert "save its whole configuration" in str(caught.value.hint)


# Sizes that are read of a configuration, against the networks that transformers builds of it.

CONFIGS = table("language_configs")
# Class of the configuration, and what is made smaller so that it builds in a moment.
FEW = {"num_hidden_layers": 4}
ARCHITECTURES = (*((name, FEW) for name in CONFIGS["few_layers"]), *CONFIGS["otherwise_small"])


# transformers takes seconds to import, which each process that only collects tests would spend.
def check_architecture(name, changes, folder, library="AutoModelForCausalLM", apart=0.004):
    torch = pytest.importorskip("torch")
    import_torchvision()  # transformers imports it, also where it lacks its compiled operators
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, f"{name}Config")(**changes)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(config.to_dict(), default=str))
    with torch.device("meta"):
        network = getattr(transformers, library).from_config(config)
    built = sum(parameter.numel() for parameter in network.parameters())
    model = language_model_of_config(path)
    assert model.parameters == pytest.approx(built, rel=apart), name


@pytest.mark.slow
@pytest.mark.parametrize(("name", "changes"), ARCHITECTURES, ids=lambda entry: str(entry)[:12])
def test_weights_are_those_of_the_network(name, changes, tmp_path):
    """Biases are left out, so that 0.4 % may be missing."""
    check_architecture(name, changes, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS["seeing"])
def test_weights_are_those_of_the_network_with_its_tower(name, tmp_path):
    """To half a percent, with all layers, as towers' positions and norms are left out."""
    changes = {"text_config": {"moe_layers": None}} if name == "Llama4" else {}
    check_architecture(name, changes, tmp_path, "AutoModelForImageTextToText", 0.005)
