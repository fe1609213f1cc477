"""The versioned JSON document of a recommendation; every other format derives from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from advisor.domain import Recommendation
from advisor.domain.decision import RELAXING_STOPPED, Request
from advisor.domain.generation import LanguageTask
from advisor.domain.machines import ANY, Range
from advisor.domain.money import DiskChoice
from advisor.domain.spec_request import SpecRequest
from advisor.domain.words import ANY_MARKET, Market, MemoryFormat, Precision, Stack, Task, Tf32
from advisor.domain.workload import DatasetProfile
from advisor.messages import Message
from advisor.naming import asked_of, others_text
from advisor.render.blocks import (
    NEAREST_REJECTED,
    candidate_block,
    live_block,
    other_setting_blocks,
    pareto_block,
    rejected_block,
    relaxation_block,
)
from advisor.render.borderline import borderline_blocks
from advisor.render.price_doubt import price_doubt_block

SCHEMA = "advisor.recommendation/1"


class Sources(Struct, frozen=True, kw_only=True):
    """What an answer stands on: the performance model and the catalogue. `error_percent` is None
    where one number says nothing (docs/internals/language.md); `anchors` counts the user's own
    measurements of endpoints."""

    model_id: str
    trained_on: str
    error_percent: float | None
    catalog_as_of: str
    catalog_sources: tuple[str, ...]
    anchors: int = 0

    def performance_model(self) -> dict[str, Any]:
        """The document's `performance_model` block."""
        return {"id": self.model_id, "trained_on": self.trained_on, "error_percent": self.error_percent}

    def catalog(self) -> dict[str, Any]:
        """The document's `catalog` block."""
        return {"as_of": self.catalog_as_of, "sources": list(self.catalog_sources)}


def recommendation_document(
    answer: Recommendation,
    sources: Sources,
    explanation: Mapping[str, Any] | None = None,
    *,
    every_rejected: bool = False,
) -> dict[str, Any]:
    """The whole answer; see `plain` for what JSON can hold.

    `explanation` is of the recommended spec, or of the nearest where nothing meets the target.
    `rejected` names the nearest types (`Recommendation.nearest_rejected`), or every one.
    """
    most = None if every_rejected else NEAREST_REJECTED
    candidates = [candidate_block(candidate) for candidate in answer.ranked]
    return {
        "schema": SCHEMA,
        "as_of": answer.today.isoformat(),
        "asked": asked_of(answer.request),
        "request": request_document(answer.request),
        "performance_model": sources.performance_model(),
        "catalog": {
            **sources.catalog(),
            "offers_considered": answer.offers_considered,
            "offers_rejected": len(answer.rejected),
            "rejected_by_reason": answer.rejected_by_reason,
        },
        "recommendation": candidates[0] if candidates else None,
        "nearest": candidate_block(answer.nearest) if answer.nearest else None,
        "alternatives": candidates[1:],
        "others": others_text(answer.request, len(answer.ranked)),
        "rejected": [rejected_block(rejected) for rejected in answer.nearest_rejected(most)],
        "rejected_counts": answer.rejected_by_reason,
        "close_calls": borderline_blocks(answer),
        "price_call": price_doubt_block(answer),
        "live": live_block(answer.live),
        "relax": [relaxation_block(relaxation) for relaxation in answer.relaxations],
        "relax_stopped": relax_stopped(answer.warnings),
        "pareto": [pareto_block(candidate) for candidate in answer.pareto],
        "other_settings": other_setting_blocks(answer.other_settings),
        "assumptions": list(answer.assumptions),
        "warnings": list(answer.warnings),
        "explanation": explanation,
    }


def relax_stopped(warnings: Iterable[Any]) -> str | None:
    """The code of the warning that what to relax was not searched to its end; None without it."""
    codes = (getattr(warning, "code", None) for warning in warnings)
    return next((code for code in codes if code == RELAXING_STOPPED), None)


def is_language(document: Mapping[str, Any]) -> bool:
    """Whether a recommendation's document is about a language model."""
    return document["schema"] == SCHEMA and document["request"]["task"] in set(LanguageTask)


def plain_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with every `Message` as its English text: what JSON and YAML can hold."""
    return {name: plain(part) for name, part in document.items()}


def plain(value: Any) -> Any:
    """The same of any part of a document."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return plain_leaf(value) if isinstance(value, (Message, np.generic)) else value


def plain_leaf(value: object) -> Any:
    """A `Message` in English, a number of NumPy as Python's own; `NotImplementedError` for what no
    document may hold."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Message):
        return str(value)
    raise NotImplementedError(f"no document holds a {type(value).__name__}")


def document_yaml(document: Mapping[str, Any]) -> str:
    """The same document as YAML, keys in the same order."""
    import yaml  # nobody else waits for it

    return str(yaml.safe_dump(plain(document), sort_keys=False, allow_unicode=True))


class _Codec(Struct, frozen=True):
    """How a value is written as JSON, and read back."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


_OF_THE_DECISION = ("listed_on", "fresh_on", "price_spread")


def request_fields(kind: type[Any]) -> list[str]:
    """The names of a request's fields: what is asked for first, then what the spec must be, without
    what the decision asks itself."""
    names = [name for name in kind.__struct_fields__ if name not in _OF_THE_DECISION]
    return sorted(names, key=SpecRequest.__struct_fields__.__contains__)


def request_document(request: Request) -> dict[str, Any]:
    """JSON-ready values of all fields, defaults filled in."""
    document = {}
    for name in request_fields(Request):
        value = getattr(request, name)
        codec = _CODECS.get(name)
        document[_KEYS.get(name, name)] = codec.write(value) if codec else value
    return document


def request_from(document: Mapping[str, Any]) -> Request:
    """The request of a document; `ValueError`, `KeyError` or `TypeError` for what is none."""
    values = {}
    for name in request_fields(Request):
        key = _KEYS.get(name, name)
        if key in document:
            codec = _CODECS.get(name)
            values[name] = codec.read(document[key]) if codec else document[key]
    return Request(**values)


def market_document(market: Market | None) -> str:
    """The market that was asked for, or "any"."""
    return ANY_MARKET if market is None else str(market)


def _market_from(text: str) -> Market | None:
    return None if text == ANY_MARKET else Market(text)


def range_document(limits: Range) -> dict[str, float | None] | None:
    """Both ends, null where one is open; null for a range that leaves out nothing."""
    return {"least": limits.least, "most": limits.most} if limits.limits else None


def _range_from(document: Mapping[str, float | None] | None) -> Range:
    return Range(document["least"], document["most"]) if document else ANY


def _dataset_document(dataset: DatasetProfile) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "samples": dataset.samples,
        "bytes_per_sample": dataset.bytes_per_sample,
        "storage_format": dataset.storage_format,
        "kind": str(dataset.kind),
        "sample": dataset.sample,
        "width": dataset.width,
        "height": dataset.height,
        **({"steps": dataset.steps, "guidance": dataset.guidance} if dataset.steps else {}),
    }


def _dataset_from(document: Mapping[str, Any]) -> DatasetProfile:
    names = DatasetProfile.__struct_fields__
    return DatasetProfile(**{name: document[name] for name in names if name in document})


def _disk_from(text: str | None) -> DiskChoice | None:
    return DiskChoice.from_text(text) if text else None


def _maybe_text(value: object) -> str | None:
    return None if value is None else str(value)


_KEYS = {"network": "model"}
_RANGE = _Codec(range_document, _range_from)
_CODECS: Mapping[str, _Codec] = {
    "task": _Codec(str, Task),
    "precision": _Codec(str, Precision),
    "stack": _Codec(str, Stack),
    "memory_format": _Codec(str, MemoryFormat),
    "tf32": _Codec(str, Tf32),
    "market": _Codec(market_document, _market_from),
    "price_kinds": _Codec(list, tuple),
    "dataset": _Codec(_dataset_document, _dataset_from),
    "gpus": _Codec(list, tuple),
    "disk_types": _Codec(list, tuple),
    "compute_capability": _RANGE,
    "vcpus": _RANGE,
    "memory_mib": _RANGE,
    "vcpu_quota": _Codec(dict, lambda document: tuple(document.items())),
    "disk": _Codec(_maybe_text, _disk_from),
}
