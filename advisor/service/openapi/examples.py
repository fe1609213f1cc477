"""Examples of the answers: real ones, of the very catalogue and model that answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from advisor.answers.comparing import compared
from advisor.answers.gpus import gpus_document_of
from advisor.answers.ground import Ground
from advisor.answers.listing import page_of, query_of, shown_type
from advisor.answers.memory import memory_document_of
from advisor.answers.networks import listed_networks, networks_document
from advisor.answers.predicting import predicted
from advisor.answers.recommending import settled
from advisor.questions.models import (
    Compare,
    Gpus,
    InstanceDetails,
    MemoryQuestion,
    Offers,
    Predict,
    Question,
    Recommend,
)
from advisor.questions.reading import from_values

# A list of an example shows so many of its things: an answer may name hundreds.
_SHOWN = 2
_Document = Mapping[str, Any]
Q = TypeVar("Q", bound=Question)
TYPE_SHOWN = "g4dn.xlarge"
QUESTIONS: Mapping[str, Mapping[str, Any]] = {
    "recommend": {"task": "inference", "model": "googlenet", "target_throughput": 500},
    "predict": {
        "task": "inference", "model": "googlenet", "instance": TYPE_SHOWN, "disk": "gp3:500GiB",
        "vcpus": 8, "curve": {"vcpus": [2, 4]},
    },
    "compare": {"task": "training", "model": "resnet50", "instance": [TYPE_SHOWN, "g5.xlarge"]},
    "memory": {"model": "resnet50", "batch_size": 64, "gpu": "T4,L4"},
}  # fmt: skip
_ANSWERS: Mapping[str, Callable[[Ground], _Document]] = {
    "recommend": lambda at: settled(at, _example(Recommend, "recommend")).document(),
    "predict": lambda at: predicted(at, _example(Predict, "predict")).document(),
    "compare": lambda at: compared(at, _example(Compare, "compare")).document(),
    "memory": lambda at: memory_document_of(at.catalog, _example(MemoryQuestion, "memory")),
    "catalog": lambda at: page_of(
        at.catalog, query_of(from_values(Offers, {"cloud": "aws", "gpu": "T4"})), 0, _SHOWN
    ).document(at.catalog),
    "catalog_type": lambda at: shown_type(
        at.catalog, TYPE_SHOWN, from_values(InstanceDetails, {"region": "us-east-1"})
    ),
    "networks": lambda at: networks_document(at.model, listed_networks(at.model, "resnet")),
    "gpus": lambda at: gpus_document_of(at.catalog, from_values(Gpus, {"gpu": "T4,L4"})),
}


def example_of(name: str, ground: Ground) -> Any:
    """The answer called `name`, its lists cut short."""
    return _short(_ANSWERS[name](ground))


def names() -> tuple[str, ...]:
    """The answers there are."""
    return tuple(_ANSWERS)


def _example(kind: type[Q], name: str) -> Q:
    return from_values(kind, QUESTIONS[name])


def _short(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _short(one) for key, one in value.items()}
    return [_short(one) for one in value[:_SHOWN]] if isinstance(value, list | tuple) else value
