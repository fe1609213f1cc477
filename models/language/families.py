"""Architectures by the `model_type` of their configuration: what it leaves unsaid, and those whose
layers are of another kind than keys and values of every token."""

from __future__ import annotations

from typing import NamedTuple


class Family(NamedTuple):
    """What a configuration of this architecture means where it is silent.

    `gated` feed-forward networks have three matrices. `tied` is whether the output is the
    embedding. `positions` are learned positions, beyond the longest context by so many (None: not
    learned). `window_pattern`: every so-manyth layer sees all tokens, the others a window; 0: all
    layers see the window, if there is one. `head_dim` where it is not hidden / heads.
    """

    gated: bool = True
    tied: bool = False
    positions: int | None = None
    window_pattern: int = 0
    head_dim: int | None = None


_LLAMA = Family()
_TIED = Family(tied=True)
_PLAIN = Family(gated=False)
_PLAIN_TIED = Family(gated=False, tied=True)
_LEARNED = Family(gated=False, tied=True, positions=0)
# The defaults are those of the classes of Hugging Face transformers 5.23 (Apache-2.0); a test
# compares the sizes that follow with those of its networks.
FAMILIES = {
    **dict.fromkeys(
        (
            "llama", "mistral", "ministral", "ministral3", "mixtral", "qwen2", "qwen2_moe",
            "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen3", "qwen3_moe",
            "qwen3_vl_text", "qwen3_vl_moe_text", "phi3", "phimoe", "deepseek_v2", "deepseek_v3",
            "deepseek_v32", "kimi_k2", "glm", "glm4", "glm4_moe", "glm_moe_dsa", "granite",
            "granitemoe", "olmo", "olmo2", "olmoe", "stablelm", "internlm2", "internlm3",
            "baichuan", "minimax_m2", "seed_oss", "smollm3", "olmo3", "granitemoeshared",
            "helium", "flex_olmo", "dbrx", "ernie4_5", "ernie4_5_moe", "exaone4", "mimo",
            "aquila", "orion", "yi", "deepseek", "chatglm",
        ),
        _LLAMA,
    ),
    "gemma": Family(tied=True, head_dim=256),
    "gemma2": Family(tied=True, head_dim=256, window_pattern=2),
    "gemma3_text": Family(tied=True, head_dim=256, window_pattern=6),
    "gpt_oss": Family(window_pattern=2, head_dim=64),
    "llama4_text": Family(window_pattern=4),
    "cohere": _TIED,
    "cohere2": Family(tied=True, window_pattern=4),
    "minicpm": _TIED,
    "gpt2": _LEARNED,
    "gpt_bigcode": _LEARNED,
    "opt": Family(gated=False, tied=True, positions=2),
    "bloom": _PLAIN_TIED,
    "falcon": _PLAIN_TIED,
    "mpt": _PLAIN_TIED,
    "starcoder2": _PLAIN_TIED,
    "gpt_neox": _PLAIN,
    "gptj": _PLAIN,
    "phi": _PLAIN,
    "nemotron": _PLAIN,
    "arcee": _PLAIN,
    "apertus": _PLAIN,
}  # fmt: skip
# Architectures that are known, and whose memory does not grow as keys and values of every token.
UNCOVERED = {
    **dict.fromkeys(
        ("qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next", "kimi_linear",
         "minimax", "minimax_text_01", "rwkv", "rwkv5", "rwkv6", "rwkv7", "olmo_hybrid"),
        "linear",
    ),
    **dict.fromkeys(
        ("nemotron_h", "jamba", "zamba", "zamba2", "bamba", "mamba", "mamba2", "falcon_mamba",
         "falcon_h1", "granitemoehybrid", "plamo2", "recurrent_gemma", "lfm2", "lfm2_moe",
         "phi4flash", "hymba"),
        "hybrid",
    ),
    **dict.fromkeys(
        ("deepseek_v4", "deepseek_ref", "minimax_m3", "minimax_m3_vl", "step3p7"), "sparse"
    ),
    **dict.fromkeys(
        ("gemma4", "gemma4_text", "gemma3n", "gemma3n_text", "mimo_v2_flash", "nemotron-nas",
         "openelm", "deci"),
        "uneven",
    ),
    **dict.fromkeys(("mllama", "mllama_text_model"), "crossed"),
    **dict.fromkeys(
        ("bert", "roberta", "distilbert", "deberta-v2", "electra", "xlm-roberta", "modernbert",
         "vit", "dinov2", "whisper", "t5", "wav2vec2", "clip_text_model", "clip_vision_model",
         "siglip_vision_model"),
        "no_decoder",
    ),
}  # fmt: skip
