"""Bits of a weight, module by module, in the formats that engines serve and checkpoints declare."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from advisor.domain.words import KvPrecision, LlmEngine, LlmPrecision
from advisor.messages import Message
from advisor.models.language.config_values import ConfigValues, read_config
from advisor.models.language.language_model import LanguageModel, Weights

# Bits a weight with its scales. AWQ has a 16-bit scale and a 4-bit zero for 128 weights, NVFP4 an 8-bit scale
# for 16, MXFP4 (OCP Microscaling 1.0) one for 32; scales of fp8 are a tenth of a thousandth.
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

    In its own format the modules are as published. Otherwise as the makers of such checkpoints do: all
    matrices of the layers, but for MXFP4, which is of experts alone (gpt-oss), and for NVFP4 of models with
    latent attention, whose attention stays in 16 bits (NVIDIA's DeepSeek and Kimi). llama.cpp's 4-bit format
    is its Q4_K_M."""
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


# A scale of 16 bits for a group of weights; AWQ and GPTQ add a zero of 4.
_SCALE_BITS, _ZERO_BITS, _USUAL_GROUP = 16, 4, 128
# Keys of which one tells the weights' format.
_TELLING = ("quant_algo", "quant_method", "config_groups", "quantized_layers", "bits", "w_bit")
_LAYER = re.compile(r"\d+")


class _Format(NamedTuple):
    precision: LlmPrecision
    bits: float


_FP8 = _Format(LlmPrecision.FP8, BITS[LlmPrecision.FP8])

# DeepSeek-V4's experts have four bits and a scale of eight for 32 of them, all else has eight.
_OF_FP4_EXPERTS = {
    "experts": [_Format(LlmPrecision.MXFP4, BITS[LlmPrecision.MXFP4])],
    **{name: [_FP8] for name in ("attention", "dense", "shared")},
}


def in_own_format(
    model: LanguageModel, whole: ConfigValues, text: ConfigValues, folder: Path
) -> LanguageModel:
    """The model in its configuration's or file's format; `UsageError` if no engine serves it."""
    keys = ("quantization_config", "compression_config")
    quantization = whole.part(*keys) or text.part(*keys) or _beside(folder)
    kinds = (part.text(key) for part in (text, whole) for key in ("dtype", "torch_dtype"))
    written = next(filter(None, kinds), "")
    half = written.removeprefix("torch.") == "float16"
    plain = LlmPrecision.FP16 if half else LlmPrecision.BF16
    kv = _kv_precision(quantization) if quantization else None
    model = replace(model, own_precision=plain, own_bits=BITS[plain], own_kv_precision=kv)
    if quantization is None or (kv and not any(key in quantization for key in _TELLING)):
        return model
    if text.text("expert_dtype") == "fp4":
        return _in_mixed_formats(model, _OF_FP4_EXPERTS)
    if modules := _mixed(quantization):
        return _in_mixed_formats(model, modules)
    own = _format_of(quantization)
    ignored = [
        pattern
        for key in ("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules")
        for pattern in quantization.texts(key)
    ]
    return replace(
        model, own_precision=own.precision, own_bits=own.bits, sixteen_bit=_sixteen_bit(ignored, model.layers)
    )


def _kv_precision(quantization: ConfigValues) -> KvPrecision | None:
    """The format of keys and values that the checkpoint asks for."""
    scheme = quantization.part("kv_cache_scheme")
    is_fp8 = quantization.text("kv_cache_quant_algo").upper() == "FP8"
    return KvPrecision.FP8 if is_fp8 or (scheme and scheme.maybe_whole("num_bits") == 8) else None


def _beside(folder: Path) -> ConfigValues | None:
    """The format stated in a separate file: ModelOpt's before 2026, AutoGPTQ's and AutoAWQ's."""
    for name in ("hf_quant_config.json", "quantize_config.json", "quant_config.json"):
        if (folder / name).is_file():
            values = read_config(folder / name)
            return values.part("quantization") or values
    return None


def _mixed(config: ConfigValues) -> dict[str, list[_Format]]:
    """Module -> the formats that its layers have, where modules have different ones."""
    of_module: dict[str, list[_Format]] = {}
    listed = config.part("quantized_layers")
    formats = [(name, _format_of(part)) for name, part in (listed.parts() if listed else {}).items()]
    groups = config.part("config_groups")
    for group in groups.parts().values() if groups and not listed else ():
        if weights := group.part("weights"):
            own = _of_group(weights, config)
            formats += [(target, own) for target in group.texts("targets")]
    for name, own in formats:
        if module := _module(name.lower()):
            of_module.setdefault(module, []).append(own)
    return of_module if len({own for _, own in formats}) > 1 else {}


def _in_mixed_formats(model: LanguageModel, modules: Mapping[str, list[_Format]]) -> LanguageModel:
    """The model in the format of most of its weights, with the mean of their bits."""
    weights = model.weights._asdict()
    bits = {name: sum(own.bits for own in owns) / len(owns) for name, owns in modules.items()}
    most = max(modules, key=lambda name: weights[name])
    total = sum(weights[name] for name in modules)
    return replace(
        model,
        own_precision=Counter(own.precision for own in modules[most]).most_common(1)[0][0],
        own_bits=sum(weights[name] * bits[name] for name in modules) / total if total else 16.0,
        sixteen_bit=tuple(
            name for name in ("attention", "dense", "experts", "shared") if name not in modules
        ),
    )


def _format_of(config: ConfigValues) -> _Format:
    """The format of one description, of all the weights or of one layer's."""
    method = config.text("quant_method").lower()
    algorithm = config.text("quant_algo").upper()
    bits = config.whole("bits", "w_bit", default=4)
    if method in ("fp8", "fbgemm_fp8") or algorithm.startswith("FP8"):
        return _FP8
    for name, precision in (("NVFP4", LlmPrecision.NVFP4), ("MXFP4", LlmPrecision.MXFP4)):
        if name in algorithm or name == method.upper():
            return _Format(precision, BITS[precision])
    old = "w_bit" in config or "bits" in config
    if bits == 4 and (method in ("awq", "gptq") or algorithm.endswith("AWQ") or old):
        group = config.maybe_whole("group_size", "q_group_size", least=-1) or _USUAL_GROUP
        scale = (_SCALE_BITS + _ZERO_BITS) / group if group > 0 else 0.0
        return _Format(LlmPrecision.INT4_AWQ, 4 + scale)
    if not algorithm and method in ("compressed-tensors", "modelopt"):
        return _of_groups(config)
    name = method or algorithm or "?"
    reason = Message(
        "its weights are quantised by '{method}', which is not covered",
        method=f"{name}, {bits} bits" if old else name,
    )
    raise config.error(reason)


def _of_groups(config: ConfigValues) -> _Format:
    """The format of compressed-tensors: of the group with most bits, where they differ."""
    groups = config.part("config_groups")
    weights = [entry.part("weights") for entry in groups.parts().values()] if groups else []
    if not any(weights):
        raise config.error(Message("it is quantised, and its configuration does not say how"))
    return max((_of_group(part, config) for part in weights if part), key=lambda own: own.bits)


def _of_group(weights: ConfigValues, config: ConfigValues) -> _Format:
    bits, kind = weights.whole("num_bits"), weights.text("type", "int")
    group = weights.maybe_whole("group_size", least=-1) or 0
    if (bits, kind) == (8, "float"):
        return _FP8
    if (bits, kind) == (4, "float"):
        precision = LlmPrecision.MXFP4 if group == 32 else LlmPrecision.NVFP4
        return _Format(precision, BITS[precision])
    if (bits, kind) == (4, "int"):
        return _Format(LlmPrecision.INT4_AWQ, 4 + (_SCALE_BITS / group if group > 0 else 0.0))
    reason = Message("its weights have {bits} bits ({kind}), which is not covered", bits=bits, kind=kind)
    raise config.error(reason)


def _sixteen_bit(patterns: Iterable[str], layers: int) -> tuple[str, ...]:
    """Modules left in 16 bits by most layers, from patterns (`re:.*self_attn.*`) and names."""
    named: dict[str, set[str]] = {}
    for pattern in patterns:
        if module := _module(pattern.lower()):
            layer = _LAYER.search(pattern)
            named.setdefault(module, set()).add(layer[0] if layer else "all")
    return tuple(
        module for module, formats in named.items() if "all" in formats or 2 * len(formats) >= layers
    )


def _module(pattern: str) -> str | None:
    """The module that a pattern names; None for a part of a module, or for one that always has 16 bits."""
    if "attn" in pattern or "attention" in pattern:
        parts = ("kv_a", "kv_b", "q_a", "q_b", "norm", "indexer", "sink")
        return None if any(part in pattern for part in parts) else "attention"
    if "shared_expert" in pattern:
        return None if "gate" in pattern.rpartition("shared_expert")[2] else "shared"
    if "experts" in pattern:
        return "experts"
    if "mlp" in pattern or "feed_forward" in pattern:
        return None if "router" in pattern or re.search(r"\.gate($|[^_])", pattern) else "dense"
    return None
