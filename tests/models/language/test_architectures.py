"""Sizes that are read of a configuration, against the networks that transformers builds of it."""

import json

import pytest

from models.language.config_files import language_model_of_config

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

# Class of the configuration, and what is made smaller so that it builds in a moment.
FEW = {"num_hidden_layers": 4}
ARCHITECTURES = (
    ("Llama", FEW), ("Mistral", FEW), ("Mixtral", FEW), ("Qwen2", FEW), ("Qwen2Moe", FEW),
    ("Qwen3", FEW), ("Qwen3Moe", FEW), ("Gemma", FEW), ("Gemma2", FEW), ("Phi", FEW),
    ("Phi3", FEW), ("Phimoe", FEW), ("DeepseekV2", FEW), ("DeepseekV3", FEW), ("GptOss", FEW),
    ("Falcon", FEW), ("OPT", FEW), ("Bloom", {"n_layer": 4, "hidden_size": 1024, "n_head": 16}),
    ("GPT2", {"n_layer": 4}), ("GPTBigCode", {"n_layer": 4}), ("GPTNeoX", FEW),
    ("GPTJ", {"n_layer": 4}), ("Mpt", {"n_layers": 4}), ("Starcoder2", FEW), ("Cohere", FEW),
    ("Cohere2", FEW), ("StableLm", FEW), ("Olmo", FEW), ("Olmo2", FEW), ("Olmoe", FEW),
    ("Glm", FEW), ("Glm4", FEW), ("Glm4Moe", FEW), ("Granite", FEW), ("Nemotron", FEW),
    ("SmolLM3", FEW), ("Ernie4_5", FEW),
)  # fmt: skip


def check_architecture(name, changes, folder):
    config = getattr(transformers, f"{name}Config")(**changes)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(config.to_dict(), default=str))
    with torch.device("meta"):
        network = transformers.AutoModelForCausalLM.from_config(config)
    built = sum(one.numel() for one in network.parameters())
    model = language_model_of_config(path)
    assert model.parameters == pytest.approx(built, rel=0.004), name


@pytest.mark.slow
@pytest.mark.parametrize(("name", "changes"), ARCHITECTURES, ids=lambda one: str(one)[:12])
def test_weights_are_those_of_the_network(name, changes, tmp_path):
    """Biases are left out, so that 0.4 % may be missing."""
    check_architecture(name, changes, tmp_path)
