"""Sizes that are read of a configuration, against the networks that transformers builds of it."""

import json

import pytest

from advisor.models.language.config_files import language_model_of_config
from advisor.models.zoo.torchvision_operators import import_torchvision
from tests.rows import table

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
    built = sum(one.numel() for one in network.parameters())
    model = language_model_of_config(path)
    assert model.parameters == pytest.approx(built, rel=apart), name


@pytest.mark.slow
@pytest.mark.parametrize(("name", "changes"), ARCHITECTURES, ids=lambda one: str(one)[:12])
def test_weights_are_those_of_the_network(name, changes, tmp_path):
    """Biases are left out, so that 0.4 % may be missing."""
    check_architecture(name, changes, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS["seeing"])
def test_weights_are_those_of_the_network_with_its_tower(name, tmp_path):
    """Of models that see, whose towers and projections count; with all their layers, as towers'
    positions and norms are left out; to half a percent."""
    changes = {"text_config": {"moe_layers": None}} if name == "Llama4" else {}
    check_architecture(name, changes, tmp_path, "AutoModelForImageTextToText", 0.005)
