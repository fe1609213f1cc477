"""The words of an address -> the answers that questions are made of.

The same readers as the command line's and the API's: what they refuse is refused here, in their
words. Which field was wrong is told with it, so that the page can point at it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from advisor.domain import Market, Precision, Task
from advisor.errors import UsageError
from advisor.operations.questions.hardware import wanted_gpus, wanted_memory, wanted_vcpus
from advisor.operations.questions.requests import LARGEST_BATCH
from advisor.operations.questions.words import one_of, positive, probability, shown_text
from advisor.recommend import MOST_INSTANCES

Read = Callable[[str], Any]


class WrongWord(UsageError):
    """A word that cannot be read; `field` is its parameter."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def _number(name: str, *, whole: bool = False, most: float = float("inf")) -> Read:
    option = "--" + name.replace("_", "-")
    return lambda text: positive(text, option, whole=whole, most=most)


def _text(name: str) -> Read:
    option = "--" + name.replace("_", "-")
    return lambda text: shown_text(text, option)


def _yes(text: str) -> bool:
    return text.lower() in ("true", "on", "1", "yes")


WORKLOAD: dict[str, Read] = {
    "task": lambda text: one_of(text, "task", tuple(Task)),
    "model": _text("model"),
    "target_throughput": _number("target_throughput"),
    "confidence": probability,
    "batch_size": _number("batch_size", whole=True, most=LARGEST_BATCH),
    "precision": lambda text: one_of(text, "precision", tuple(Precision)),
    "max_gpus": _number("max_gpus", whole=True),
}
PLACE: dict[str, Read] = {
    "cloud": _text("cloud"),
    "region": _text("region"),
    "market": lambda text: one_of(text, "market", tuple(Market)),
    "disk": _text("disk"),
}
LIMITS: dict[str, Read] = {
    "gpu": wanted_gpus,
    "vcpus": wanted_vcpus,
    "memory": wanted_memory,
    "max_price": _number("max_price"),
    "max_latency_ms": _number("max_latency_ms"),
    "epochs": _number("epochs"),
    "samples": _number("samples", whole=True),
    "max_hours": _number("max_hours"),
    "max_cost": _number("max_cost"),
    "max_count": _number("max_count", whole=True, most=MOST_INSTANCES),
    "max_results": _number("max_results", whole=True, most=100),
    "quota": _text("quota"),
    "accelerated_only": _yes,
    "allow_extrapolation": _yes,
}
# What is compared: instances, or GPUs.
NAMES: dict[str, Read] = {
    "instance": lambda text: [one.strip() for one in text.split(",") if one.strip()],
    "gpu": wanted_gpus,
    "baseline": _text("baseline"),
}
RECOMMEND = WORKLOAD | PLACE | LIMITS
DEFAULTS: dict[str, Any] = {
    "confidence": 0.9,
    "batch_size": None,
    "precision": "fp32",
    "dataset": "imagenet",
    "cloud": "aws",
    "region": None,
    "market": "on-demand",
    "disk": None,
}


def read_words(asked: Mapping[str, str], readers: Mapping[str, Read]) -> dict[str, Any]:
    """Answers as a `Request` is made of them; `WrongWord` for the first that cannot be read."""
    answers = dict(DEFAULTS)
    for name, text in asked.items():
        if name in readers:
            answers[name] = _read(name, text, readers[name])
    for name in ("task", "model"):
        if name not in answers:
            raise WrongWord(name, f"--{name} is missing")
    return answers | {"network": answers["model"]}


def _read(name: str, text: str, reader: Read) -> Any:
    try:
        return reader(text)
    except UsageError as error:
        raise WrongWord(name, str(error)) from None


# What messages call a word that no option's name is part of.
_TOLD_AS = {
    "unknown network": "model",
    "no rates of": "model",
    "unknown disk": "disk",
    "unknown GPU": "gpu",
    "unknown region": "region",
    "unknown cloud": "cloud",
    "unknown market": "market",
    "unknown instance": "instance",
}


def field_of(error: Exception, asked: Mapping[str, str]) -> str | None:
    """Which field a message is about; None where it is about the question as a whole."""
    if isinstance(error, WrongWord):
        return error.field
    message = str(error)
    for start, name in _TOLD_AS.items():
        if start in message:
            return name
    named = [name for name in asked if f"--{name.replace('_', '-')}" in message]
    return named[0] if named else None
