"""A settled question as a part of an answer's document, and back: JSON-ready values, defaults filled
in."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec

from advisor.domain import ANY, DiskChoice, Range
from advisor.domain.words import ANY_MARKET
from advisor.domain.workload import DatasetProfile
from advisor.questions.language import ServingQuestion, TuningQuestion
from advisor.questions.network import AUTO, NetworkQuestion
from advisor.questions.spec import SpecQuestion

_OF_THE_DECISION = ("listed_on", "fresh_on", "price_spread")
_OF_DATASETS = ("name", "samples", "bytes_per_sample", "storage_format", "kind", "sample", "width", "height")
# What a document says of a field that is left open.
_LEFT_OPEN = {"market": ANY_MARKET, "precision": AUTO, "memory_format": AUTO}
_RANGES = ("compute_capability", "vcpus", "memory_mib")


def question_document(question: SpecQuestion) -> dict[str, Any]:
    """The document of a settled question: its own attributes first, then those of every spec."""
    words = _LEFT_OPEN if isinstance(question, NetworkQuestion) else {"market": ANY_MARKET}
    values = {name: getattr(question, name) for name in document_names(type(question))}
    return {
        "model" if name == "network" else name: words.get(name) if value is None else _plain(name, value)
        for name, value in values.items()
    }


def question_from(document: Mapping[str, Any]) -> NetworkQuestion:
    """The question of a document about a network; `ValueError` or `KeyError` for what is none."""
    values = dict(document, network=document["model"])
    for name in _RANGES:
        values[name] = values.get(name) or ANY
    values |= {name: None for name, word in _LEFT_OPEN.items() if values.get(name) == word}
    values["vcpu_quota"] = tuple(dict(values.get("vcpu_quota", {})).items())
    values["disk"] = DiskChoice.from_text(values["disk"]) if values.get("disk") else None
    try:
        return msgspec.convert(values, NetworkQuestion, from_attributes=True)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def document_names(question: type[SpecQuestion]) -> list[str]:
    """The attributes that a question's document has, its own before those of every spec."""
    kinds = (NetworkQuestion, ServingQuestion, TuningQuestion)
    kind = next(kind for kind in kinds if issubclass(question, kind))
    names = [
        name
        for name in kind.__struct_fields__
        if name not in _OF_THE_DECISION and (name not in kind.declared or kind.declared[name].in_document)
    ]
    return sorted(names, key=SpecQuestion.__struct_fields__.__contains__)


def range_document(limits: Range) -> dict[str, float | None] | None:
    """The ends of a range, null where one is open; null for a range that leaves out nothing."""
    return {"least": limits.least, "most": limits.most} if limits.limits else None


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, Range):
        return range_document(value)
    if isinstance(value, DatasetProfile):
        names = (*_OF_DATASETS, "steps", "guidance") if value.steps else _OF_DATASETS
        return {part: str(value.kind) if part == "kind" else getattr(value, part) for part in names}
    if name == "vcpu_quota":
        return dict(value)
    if isinstance(value, Enum | DiskChoice):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
