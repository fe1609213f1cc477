"""Examples of the answers: real ones, of the very catalogue and model that answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from advisor.answers.comparing import compared
from advisor.answers.context import Context
from advisor.answers.gpus import gpus_document_of
from advisor.answers.listing import page_of, query_of, shown_type
from advisor.answers.memory import memory_document_of
from advisor.answers.networks import listed_networks, networks_document
from advisor.answers.predicting import predicted
from advisor.answers.recommending import recommended
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


def _recommendation(context: Context) -> _Document:
    return recommended(context, _question(Recommend, "recommend")).document()


def _prediction(context: Context) -> _Document:
    return predicted(context, _question(Predict, "predict")).document()


def _comparison(context: Context) -> _Document:
    return compared(context, _question(Compare, "compare")).document()


def _memory(context: Context) -> _Document:
    return memory_document_of(context.catalog, _question(MemoryQuestion, "memory"))


def _catalog(context: Context) -> _Document:
    query = query_of(from_link(Offers, b"cloud=aws&gpu=T4"))
    return page_of(context.catalog, query, 0, _SHOWN).document(context.catalog)


def _catalog_type(context: Context) -> _Document:
    question = from_link(InstanceDetails, b"region=us-east-1")
    return shown_type(context.catalog, TYPE_SHOWN, question)


def _networks(context: Context) -> _Document:
    return networks_document(context.model, listed_networks(context.model, "resnet"))


def _gpus(context: Context) -> _Document:
    return gpus_document_of(context.catalog, from_link(Gpus, b"gpu=T4,L4"))


_ANSWERS: Mapping[str, Callable[[Context], _Document]] = {
    "recommend": _recommendation,
    "predict": _prediction,
    "compare": _comparison,
    "memory": _memory,
    "catalog": _catalog,
    "catalog_type": _catalog_type,
    "networks": _networks,
    "gpus": _gpus,
}


def example_of(name: str, context: Context) -> Any:
    """The answer called `name`, its lists cut short."""
    return _short(_ANSWERS[name](context))


def _question(kind: type[Q], name: str) -> Q:
    return from_values(kind, EXAMPLES[name])


def _short(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _short(item) for key, item in value.items()}
    return [_short(item) for item in value[:_SHOWN]] if isinstance(value, list | tuple) else value
