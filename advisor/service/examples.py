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
from advisor.questions.reading import from_link, from_values

# A list of an example shows so many of its things: an answer may name hundreds.
_SHOWN = 2
_Document = Mapping[str, Any]
Q = TypeVar("Q", bound=Question)
TYPE_SHOWN = "g4dn.xlarge"
EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "recommend": {"task": "inference", "model": "googlenet", "target_throughput": 500},
    "predict": {
        "task": "inference", "model": "googlenet", "instance": TYPE_SHOWN, "disk": "gp3:500GiB",
        "vcpus": 8, "curve": {"vcpus": [2, 4]},
    },
    "compare": {"task": "training", "model": "resnet50", "instance": [TYPE_SHOWN, "g5.xlarge"]},
    "memory": {"model": "resnet50", "batch_size": 64, "gpu": "T4,L4"},
}  # fmt: skip


def _recommendation(ground: Ground) -> _Document:
    return settled(ground, _question(Recommend, "recommend")).document()


def _prediction(ground: Ground) -> _Document:
    return predicted(ground, _question(Predict, "predict")).document()


def _comparison(ground: Ground) -> _Document:
    return compared(ground, _question(Compare, "compare")).document()


def _memory(ground: Ground) -> _Document:
    return memory_document_of(ground.catalog, _question(MemoryQuestion, "memory"))


def _catalog(ground: Ground) -> _Document:
    query = query_of(from_link(Offers, b"cloud=aws&gpu=T4"))
    return page_of(ground.catalog, query, 0, _SHOWN).document(ground.catalog)


def _catalog_type(ground: Ground) -> _Document:
    question = from_link(InstanceDetails, b"region=us-east-1")
    return shown_type(ground.catalog, TYPE_SHOWN, question)


def _networks(ground: Ground) -> _Document:
    return networks_document(ground.model, listed_networks(ground.model, "resnet"))


def _gpus(ground: Ground) -> _Document:
    return gpus_document_of(ground.catalog, from_link(Gpus, b"gpu=T4,L4"))


_ANSWERS: Mapping[str, Callable[[Ground], _Document]] = {
    "recommend": _recommendation,
    "predict": _prediction,
    "compare": _comparison,
    "memory": _memory,
    "catalog": _catalog,
    "catalog_type": _catalog_type,
    "networks": _networks,
    "gpus": _gpus,
}


def example_of(name: str, ground: Ground) -> Any:
    """The answer called `name`, its lists cut short."""
    return _short(_ANSWERS[name](ground))


def _question(kind: type[Q], name: str) -> Q:
    return from_values(kind, EXAMPLES[name])


def _short(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _short(item) for key, item in value.items()}
    return [_short(item) for item in value[:_SHOWN]] if isinstance(value, list | tuple) else value
