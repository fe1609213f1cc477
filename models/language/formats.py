"""How many bits a weight takes, module by module, in the formats that engines serve."""

from __future__ import annotations

from advisor.domain.generation import LlmEngine, LlmPrecision
from advisor.models.language.language_model import LanguageModel, Weights

# Bits a weight with its scales. AWQ has a 16-bit scale and a 4-bit zero for 128 weights, NVFP4 an
# 8-bit scale for 16, MXFP4 (OCP Microscaling 1.0) one for 32; scales of fp8 are a tenth of a
# thousandth.
BITS = {
    LlmPrecision.BF16: 16.0,
    LlmPrecision.FP16: 16.0,
    LlmPrecision.FP8: 8.0,
    LlmPrecision.INT4_AWQ: 4 + 20 / 128,
    LlmPrecision.NVFP4: 4 + 8 / 16,
    LlmPrecision.MXFP4: 4 + 8 / 32,
}
# Embedding and output are not made smaller by any of them, nor the few weights that choose experts.
ALWAYS_SIXTEEN = ("router", "embedding", "head", "other")
# llama.cpp's Q4_K_M mixes 4.5 and 6.5625 bits (half of some matrices); its output has the latter.
_Q4_K_M, _Q4_K, _Q6_K = 4.8, 4.5, 6.5625


def engine_of_formats(name: str) -> LlmEngine:
    """The engine whose formats count; engines of measured rows that we do not serve as vLLM's."""
    return LlmEngine(name) if name in set(LlmEngine) else LlmEngine.VLLM


def bits_by_module(
    model: LanguageModel, precision: LlmPrecision, engine: LlmEngine = LlmEngine.VLLM
) -> Weights:
    """Bits a weight of each module when the model is served in this format.

    In its own format the modules are as published. Otherwise as the makers of such checkpoints do:
    all matrices of the layers, but for MXFP4, which is of experts alone (gpt-oss), and for NVFP4 of
    models with latent attention, whose attention stays in 16 bits (NVIDIA's DeepSeek and Kimi).
    llama.cpp's 4-bit format is its Q4_K_M.
    """
    if engine == LlmEngine.LLAMA_CPP and precision == LlmPrecision.INT4_AWQ:
        table = _Q6_K if model.tied else _Q4_K
        layers = dict.fromkeys(("attention", "dense", "experts", "shared"), _Q4_K_M)
        return Weights(**layers, router=16.0, embedding=table, head=_Q6_K, other=16.0)
    own = precision == model.own_precision
    bits = model.own_bits if own else BITS[precision]
    sixteen = model.sixteen_bit if own else _usual_sixteen_bit(model, precision)
    return Weights(*[16.0 if name in sixteen or name in ALWAYS_SIXTEEN else bits for name in Weights._fields])


def _usual_sixteen_bit(model: LanguageModel, precision: LlmPrecision) -> tuple[str, ...]:
    if precision == LlmPrecision.NVFP4 and model.latent:
        return ("attention",)
    if precision == LlmPrecision.MXFP4 and model.moe:
        return ("attention", "dense", "shared")
    return ()
