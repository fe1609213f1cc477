"""Sizes that are read of a configuration, against the networks that transformers builds of it."""

import json

import pytest

from advisor.models.language.config_files import language_model_of_config
from advisor.models.zoo.torchvision_operators import import_torchvision

# Class of the configuration, and what is made smaller so that it builds in a moment.
FEW = {"num_hidden_layers": 4}
WITH_FEW_LAYERS = (
    "Llama",
    "Mistral",
    "Mixtral",
    "Qwen2",
    "Qwen2Moe",
    "Qwen3",
    "Qwen3Moe",
    "Gemma",
    "Gemma2",
    "Phi",
    "Phi3",
    "Phimoe",
    "DeepseekV3",
    "GptOss",
    "Falcon",
    "OPT",
    "GPTNeoX",
    "Starcoder2",
    "Cohere",
    "Cohere2",
    "StableLm",
    "Olmo",
    "Olmo2",
    "Olmoe",
    "Glm",
    "Glm4",
    "Glm4Moe",
    "Granite",
    "SmolLM3",
    "Ernie4_5",
    "Ernie4_5_Moe",
    "GlmMoeDsa",
    "GraniteMoe",
    "GraniteMoeShared",
    "Exaone4",
    "SeedOss",
    "Arcee",
    "Apertus",
    "Olmo3",
    "FlexOlmo",
    "Helium",
    "MiniMaxM2",
    "Llama4Text",
    "Gemma3Text",
    "Ministral3",
)
ARCHITECTURES = (
    *((name, FEW) for name in WITH_FEW_LAYERS),
    ("DeepseekV2", FEW | {"num_experts_per_tok": 6}),
    ("Nemotron", FEW | {"num_key_value_heads": 8, "head_dim": 128}),
    ("Bloom", {"n_layer": 4, "hidden_size": 1024, "n_head": 16}),
    ("GPT2", {"n_layer": 4}),
    ("GPTBigCode", {"n_layer": 4}),
    ("GPTJ", {"n_layer": 4}),
    ("Mpt", {"n_layers": 4}),
)


# Models that see, whose towers and projections count; with all their layers, as towers' positions
# and norms are left out.
SEEING = (
    "Gemma3",
    "Qwen2VL",
    "Qwen2_5_VL",
    "Qwen3VL",
    "Qwen3VLMoe",
    "Mistral3",
    "Llava",
    "LlavaNext",
    "Idefics3",
    "SmolVLM",
    "InternVL",
    "PaliGemma",
    "Llama4",
)


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
@pytest.mark.parametrize("name", SEEING)
def test_weights_are_those_of_the_network_with_its_tower(name, tmp_path):
    """To half a percent."""
    changes = {"text_config": {"moe_layers": None}} if name == "Llama4" else {}
    check_architecture(name, changes, tmp_path, "AutoModelForImageTextToText", 0.005)
