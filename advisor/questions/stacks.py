"""How PyTorch runs what is asked about, and on what input: options that must have a meaning."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from advisor.domain import DataKind, MemoryFormat, Precision, Stack, Task, Tf32
from advisor.errors import UsageError
from models.performance.networks import NetworkFacts

_TOKENS = re.compile(r"(?:seq|tokens?)?[ :]*([0-9]{1,7})")
_SHAPE = re.compile(r"[0-9]{1,7}(?:x[0-9]{1,7})*")
_MOST_VALUES = 10**9


def stack_answers(answers: Mapping[str, Any], facts: NetworkFacts) -> dict[str, Any]:
    """The fields `stack`, `memory_format` and `tf32` of a `Request`.

    Raises `UsageError` for one that changes nothing of what is asked.
    """
    told = {name: answers.get(name) for name in ("stack", "memory_format", "tf32")}
    if answers["task"] == Task.PREPROCESSING:
        for name, value in told.items():
            if value is not None:
                raise UsageError(
                    f"{_option(name)} is of networks, and preprocessing runs none; leave it out"
                )
    if told["tf32"] is not None and answers["precision"] != Precision.FP32:
        raise UsageError(
            f"--tf32 is of fp32 arithmetic, and {answers['precision']} has little of it; leave it "
            "out, or ask for --precision fp32"
        )
    if told["memory_format"] == MemoryFormat.CHANNELS_LAST and not facts.has_channels:
        raise UsageError(
            f"--memory-format is of images and feature maps, and {facts.name} takes {facts.input}; "
            "leave it out"
        )
    return {
        "stack": Stack(told["stack"] or Stack.EAGER),
        "memory_format": MemoryFormat(told["memory_format"] or MemoryFormat.CONTIGUOUS),
        "tf32": Tf32(told["tf32"] or Tf32.CONVOLUTIONS),
    }


def parsed_input(text: str, facts: NetworkFacts) -> str:
    """'384' -> '3x384x384' or 'seq:384', as the network takes; '3x384x384' stays as it is.

    Raises `UsageError` for what the network cannot take.
    """
    asked = text.strip().lower().removesuffix("px")
    if facts.data is DataKind.TOKENS:
        found = _TOKENS.fullmatch(asked)
        if not found or not int(found.group(1)):
            raise UsageError(f"{facts.name} takes tokens: --input seq:384, not '{text}'")
        return f"seq:{int(found.group(1))}"
    sizes = [int(one) for one in asked.split("x")] if _SHAPE.fullmatch(asked) else []
    if not sizes or min(sizes) < 1:
        raise UsageError(
            f"'{text}' is no input of {facts.name}; write it like its own, {facts.input}"
        )
    own = facts.input_shape
    if facts.data is DataKind.IMAGE and len(sizes) < len(own):  # square, or height x width
        sizes = [own[0], *(2 * sizes if len(sizes) == 1 else sizes)]
    if len(sizes) != len(own) or (len(own) > 1 and sizes[0] != own[0]):
        raise UsageError(
            f"{facts.name} takes {facts.input}; --input {text} has another number of sizes, or of "
            "channels"
        )
    return _within("x".join(map(str, sizes)), sizes)


def _within(text: str, sizes: list[int]) -> str:
    values = 1
    for one in sizes:
        values *= one
    if values > _MOST_VALUES:
        raise UsageError(f"--input {text} is more than a GPU can hold; ask for less")
    return text


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
