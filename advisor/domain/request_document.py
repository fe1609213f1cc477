"""A request as JSON, and the way back: a saved answer, asked again, is the same question.

The document has every field of `Request` that changes the answer, under the field's own name
(`network` is `model`). A document of an older version lacks some: they are as they would be if
nobody had asked for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from advisor.domain.decision import Request
from advisor.domain.money import DiskChoice
from advisor.domain.ranges import ANY, Range
from advisor.domain.words import Market, MemoryFormat, Precision, Stack, Task, Tf32
from advisor.domain.workload import DatasetProfile


class _Codec(NamedTuple):
    """How a value is written as JSON, and read back."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def request_document(request: Request) -> dict[str, Any]:
    """JSON-ready values of all fields, defaults filled in."""
    document = {}
    for name in Request.__slots__:
        value = getattr(request, name)
        codec = _CODECS.get(name)
        document[_KEYS.get(name, name)] = codec.write(value) if codec else value
    return document


def request_from(document: Mapping[str, Any]) -> Request:
    """The request of a document; `ValueError`, `KeyError` or `TypeError` for what is none."""
    values = {}
    for name in Request.__slots__:
        key = _KEYS.get(name, name)
        if key in document:
            codec = _CODECS.get(name)
            values[name] = codec.read(document[key]) if codec else document[key]
    return Request(**values)


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
    }


def _dataset_from(document: Mapping[str, Any]) -> DatasetProfile:
    return DatasetProfile(**{name: document[name] for name in DatasetProfile.__slots__})


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
    "market": _Codec(str, Market),
    "dataset": _Codec(_dataset_document, _dataset_from),
    "gpus": _Codec(list, tuple),
    "disk_types": _Codec(list, tuple),
    "compute_capability": _RANGE,
    "vcpus": _RANGE,
    "memory_mib": _RANGE,
    "vcpu_quota": _Codec(dict, lambda document: tuple(document.items())),
    "disk": _Codec(_maybe_text, _disk_from),
}
