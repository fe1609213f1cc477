"""Architectures by `model_type`: what their configurations leave unsaid, and which are not covered."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

_V = TypeVar("_V")


class Family(NamedTuple):
    """The facts of an architecture that no configuration states.

    `gated` feed-forward networks have three matrices. `tied` is whether the output is the embedding, where no
    class of transformers says so. `positions` are learned positions, beyond the longest context by so many
    (None: not learned)."""

    gated: bool = True
    tied: bool = False
    positions: int | None = None


def _each(names: str, value: _V) -> dict[str, _V]:
    """One value for each of several model types."""
    return dict.fromkeys(names.split(), value)


# A test compares the sizes that follow with those of transformers' networks.
FAMILIES = {
    **_each(
        "llama mistral ministral ministral3 mixtral qwen2 qwen2_moe qwen2_vl qwen2_vl_text qwen2_5_vl "
        "qwen2_5_vl_text qwen3 qwen3_moe qwen3_vl_text qwen3_vl_moe_text phi3 phimoe deepseek_v2 deepseek_v3 "
        "deepseek_v32 kimi_k2 glm glm4 glm4_moe glm_moe_dsa granite granitemoe olmo olmo2 olmoe stablelm "
        "internlm2 internlm3 baichuan minimax_m2 seed_oss smollm3 olmo3 granitemoeshared helium flex_olmo "
        "dbrx ernie4_5 ernie4_5_moe exaone4 mimo aquila orion yi deepseek chatglm gemma gemma2 gemma3_text "
        "gpt_oss llama4_text cohere cohere2 hunyuan_v1_dense hunyuan_v1_moe qwen3_next qwen3_5_text "
        "qwen3_5_moe_text kimi_linear minimax minimax_text_01 minimax_m3_vl_text deepseek_v4 mimo_v2_flash "
        "step3p5 step3p7 gemma4_text nemotron-nas granitemoehybrid jamba bamba falcon_h1 mamba mamba2 "
        "falcon_mamba lfm2 lfm2_moe",
        Family(),
    ),
    **_each(
        "bloom falcon mpt starcoder2 gpt_neox gptj phi nemotron nemotron_h arcee apertus", Family(gated=False)
    ),
    **_each("gpt2 gpt_bigcode", Family(gated=False, positions=0)),
    "opt": Family(gated=False, positions=2),
    "minicpm": Family(tied=True),
}
# Names that publishers use for the text's part of an architecture, or for all of it.
ALIASES = {
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "gemma4": "gemma4_text",
    "minimax_m3": "minimax_m3_vl_text",
    "minimax_m3_vl": "minimax_m3_vl_text",
    "deepseek_ref": "deepseek_v4",
    "deci": "nemotron-nas",
}
# Architectures that are known, and of whose layers no formula here tells what they keep.
UNCOVERED = {
    **_each(
        "rwkv rwkv5 rwkv6 rwkv7 olmo_hybrid zamba zamba2 plamo2 recurrent_gemma phi4flash hymba gemma3n "
        "gemma3n_text openelm mllama mllama_text_model",
        "layers",
    ),
    **_each(
        "bert roberta distilbert deberta-v2 electra xlm-roberta modernbert vit dinov2 whisper t5 wav2vec2 "
        "clip_text_model clip_vision_model siglip_vision_model",
        "no_decoder",
    ),
}
