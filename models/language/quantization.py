"""In which format a checkpoint's weights are, module by module, as its configuration tells."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from advisor.domain.generation import LlmPrecision
from advisor.messages import Message
from advisor.models.language.config_values import ConfigValues
from advisor.models.language.formats import BITS

# A scale of 16 bits for a group of weights; AWQ and GPTQ add a zero of 4.
_SCALE_BITS, _ZERO_BITS, _USUAL_GROUP = 16, 4, 128
_LAYER = re.compile(r"\d+")


class OwnFormat(NamedTuple):
    """The format, its bits a weight with scales, and the modules that have 16 bits instead."""

    precision: LlmPrecision
    bits: float
    sixteen_bit: tuple[str, ...]


def own_format(config: ConfigValues, layers: int) -> OwnFormat:
    """The format of the weights beside this configuration; `UsageError` for one that no engine
    here serves."""
    quantization = config.part("quantization_config", "compression_config")
    if quantization is None:
        written = config.text("dtype") or config.text("torch_dtype")
        half = written.removeprefix("torch.") == "float16"
        precision = LlmPrecision.FP16 if half else LlmPrecision.BF16
        return OwnFormat(precision, BITS[precision], ())
    precision, bits = _format_and_bits(quantization)
    ignored = [
        pattern
        for key in ("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules")
        for pattern in quantization.texts(key)
    ]
    return OwnFormat(precision, bits, _sixteen_bit(ignored, layers))


def _format_and_bits(config: ConfigValues) -> tuple[LlmPrecision, float]:
    method = config.text("quant_method").lower()
    algorithm = config.text("quant_algo").upper()
    if method in ("fp8", "fbgemm_fp8") or algorithm == "FP8":
        return LlmPrecision.FP8, BITS[LlmPrecision.FP8]
    if method == "mxfp4":
        return LlmPrecision.MXFP4, BITS[LlmPrecision.MXFP4]
    if algorithm == "NVFP4":
        return LlmPrecision.NVFP4, BITS[LlmPrecision.NVFP4]
    if method in ("awq", "gptq") and config.whole("bits", "w_bit", default=4) == 4:
        group = config.maybe_whole("group_size", "q_group_size", least=-1) or _USUAL_GROUP
        scale = (_SCALE_BITS + _ZERO_BITS) / group if group > 0 else 0.0
        return LlmPrecision.INT4_AWQ, 4 + scale
    if method in ("compressed-tensors", "modelopt"):
        return _of_groups(config)
    reason = Message(
        "its weights are quantised by '{method}', which is not covered",
        method=method or algorithm or "?",
    )  # fmt: skip
    raise config.error(reason)


def _of_groups(config: ConfigValues) -> tuple[LlmPrecision, float]:
    """The format of compressed-tensors: of the group with most bits, where they differ."""
    groups = config.part("config_groups")
    found = [part for one in groups.parts() if (part := one.part("weights"))] if groups else []
    formats = [_of_group(part, config) for part in found]
    if not formats:
        raise config.error(Message("it is quantised, and its configuration does not say how"))
    return max(formats, key=lambda one: one[1])


def _of_group(weights: ConfigValues, config: ConfigValues) -> tuple[LlmPrecision, float]:
    bits, kind = weights.whole("num_bits"), weights.text("type", "int")
    group = weights.maybe_whole("group_size", least=-1) or 0
    if (bits, kind) == (8, "float"):
        return LlmPrecision.FP8, BITS[LlmPrecision.FP8]
    if (bits, kind) == (4, "float"):
        precision = LlmPrecision.MXFP4 if group == 32 else LlmPrecision.NVFP4
        return precision, BITS[precision]
    if (bits, kind) == (4, "int"):
        return LlmPrecision.INT4_AWQ, 4 + (_SCALE_BITS / group if group > 0 else 0.0)
    reason = Message(
        "its weights have {bits} bits ({kind}), which is not covered", bits=bits, kind=kind
    )
    raise config.error(reason)


def _sixteen_bit(patterns: Iterable[str], layers: int) -> tuple[str, ...]:
    """Modules that most layers leave in 16 bits, of patterns such as `re:.*self_attn.*` and names
    such as `model.layers.3.mlp.down_proj`."""
    named: dict[str, set[str]] = {}
    for pattern in patterns:
        if module := _module(pattern.lower()):
            layer = _LAYER.search(pattern)
            named.setdefault(module, set()).add(layer[0] if layer else "all")
    return tuple(
        module for module, found in named.items() if "all" in found or 2 * len(found) >= layers
    )


def _module(pattern: str) -> str | None:
    """The module that a pattern is about, None for one part of it and for what always has 16."""
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
