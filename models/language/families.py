"""Architectures by the `model_type` of their configuration: what it leaves unsaid, and those whose
layers are of another kind than keys and values of every token."""

from __future__ import annotations

from typing import NamedTuple


class Family(NamedTuple):
    """The facts of an architecture that no configuration states.

    `gated` feed-forward networks have three matrices. `tied` is whether the output is the
    embedding, where no class of transformers says so. `positions` are learned positions, beyond
    the longest context by so many (None: not learned).
    """

    gated: bool = True
    tied: bool = False
    positions: int | None = None


_LLAMA = Family()
_PLAIN = Family(gated=False)
_LEARNED = Family(gated=False, positions=0)
# A test compares the sizes that follow with those of transformers' networks.
FAMILIES = {
    **dict.fromkeys(
        (
            "llama",
            "mistral",
            "ministral",
            "ministral3",
            "mixtral",
            "qwen2",
            "qwen2_moe",
            "qwen2_vl",
            "qwen2_vl_text",
            "qwen2_5_vl",
            "qwen2_5_vl_text",
            "qwen3",
            "qwen3_moe",
            "qwen3_vl_text",
            "qwen3_vl_moe_text",
            "phi3",
            "phimoe",
            "deepseek_v2",
            "deepseek_v3",
            "deepseek_v32",
            "kimi_k2",
            "glm",
            "glm4",
            "glm4_moe",
            "glm_moe_dsa",
            "granite",
            "granitemoe",
            "olmo",
            "olmo2",
            "olmoe",
            "stablelm",
            "internlm2",
            "internlm3",
            "baichuan",
            "minimax_m2",
            "seed_oss",
            "smollm3",
            "olmo3",
            "granitemoeshared",
            "helium",
            "flex_olmo",
            "dbrx",
            "ernie4_5",
            "ernie4_5_moe",
            "exaone4",
            "mimo",
            "aquila",
            "orion",
            "yi",
            "deepseek",
            "chatglm",
            "gemma",
            "gemma2",
            "gemma3_text",
            "gpt_oss",
            "llama4_text",
            "cohere",
            "cohere2",
        ),
        _LLAMA,
    ),
    **dict.fromkeys(
        ("bloom", "falcon", "mpt", "starcoder2", "gpt_neox", "gptj", "phi", "nemotron", "arcee", "apertus"),
        _PLAIN,
    ),
    "minicpm": Family(tied=True),
    "gpt2": _LEARNED,
    "gpt_bigcode": _LEARNED,
    "opt": Family(gated=False, positions=2),
    "granitemoehybrid": _LLAMA,  # where its configuration says that all layers have attention
}
# Architectures that are known, and whose memory does not grow as keys and values of every token.
UNCOVERED = {
    **dict.fromkeys(
        (
            "qwen3_5",
            "qwen3_5_text",
            "qwen3_5_moe",
            "qwen3_5_moe_text",
            "qwen3_next",
            "kimi_linear",
            "minimax",
            "minimax_text_01",
            "rwkv",
            "rwkv5",
            "rwkv6",
            "rwkv7",
            "olmo_hybrid",
        ),
        "linear",
    ),
    **dict.fromkeys(
        (
            "nemotron_h",
            "jamba",
            "zamba",
            "zamba2",
            "bamba",
            "mamba",
            "mamba2",
            "falcon_mamba",
            "falcon_h1",
            "granitemoehybrid",
            "plamo2",
            "recurrent_gemma",
            "lfm2",
            "lfm2_moe",
            "phi4flash",
            "hymba",
        ),
        "hybrid",
    ),
    **dict.fromkeys(("deepseek_v4", "deepseek_ref", "minimax_m3", "minimax_m3_vl", "step3p7"), "sparse"),
    **dict.fromkeys(
        (
            "gemma4",
            "gemma4_text",
            "gemma3n",
            "gemma3n_text",
            "mimo_v2_flash",
            "nemotron-nas",
            "openelm",
            "deci",
        ),
        "uneven",
    ),
    **dict.fromkeys(("mllama", "mllama_text_model"), "crossed"),
    **dict.fromkeys(
        (
            "bert",
            "roberta",
            "distilbert",
            "deberta-v2",
            "electra",
            "xlm-roberta",
            "modernbert",
            "vit",
            "dinov2",
            "whisper",
            "t5",
            "wav2vec2",
            "clip_text_model",
            "clip_vision_model",
            "siglip_vision_model",
        ),
        "no_decoder",
    ),
}
