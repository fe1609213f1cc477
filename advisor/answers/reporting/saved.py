"""`--from`: answers and reports that were saved as JSON, to be told again."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import date
from typing import Any, NoReturn

from advisor.answers.ground import Ground
from advisor.answers.reporting.reproducing import Input
from advisor.answers.reporting.subject import Deciding
from advisor.domain import (
    DatasetProfile,
    Market,
    MemoryFormat,
    Precision,
    Range,
    Recommendation,
    Request,
    Stack,
    Task,
    Tf32,
)
from advisor.domain.ranges import ANY
from advisor.errors import AdvisorError, UsageError
from advisor.questions.datasets import DATASETS, dataset_for
from advisor.questions.disks import disk_answers
from advisor.render.blocks import candidate_block
from advisor.render.document import SCHEMA as RECOMMENDATION
from advisor.render.sizing.checking import first_fault
from advisor.render.sizing.facts import SCHEMA as REPORT

_SAME = 1e-9
_STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]").search


def read_saved(one: Input) -> dict[str, Any]:
    """The document in a file: `advisor.recommendation/1` or `advisor.report/1`.

    `UsageError` for another, and for what is not as its schema says.
    """
    try:
        found = json.loads(one.content, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{one.name} is no JSON ({error}); save an answer with `advisor "
                         "recommend ... -o json > answer.json`") from None  # fmt: skip
    kind = found.get("schema") if isinstance(found, dict) else None
    if kind not in (RECOMMENDATION, REPORT):
        told = f"it says {kind!r}" if isinstance(kind, str) else "it names no schema"
        raise UsageError(
            f"{one.name} is neither an answer ({RECOMMENDATION}) nor a report ({REPORT}): {told}"
        )
    fault = first_fault(found, kind) or _unshowable(found)
    if fault:
        raise UsageError(f"{one.name} is damaged, or of another version: {fault}")
    return dict(found)


def _unshowable(value: Any) -> str | None:
    """A text that steers a terminal, turns a page's direction, or is half a character."""
    if isinstance(value, str):
        return f"it has characters that cannot be shown: {value[:60]!a}" if _STEERS(value) else None
    if isinstance(value, dict):
        return _unshowable([*value, *value.values()])
    inside = map(_unshowable, value) if isinstance(value, list) else iter(())
    return next(filter(None, inside), None)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def answered_again(
    document: Mapping[str, Any], ground: Ground, deciding: Deciding
) -> Recommendation | None:
    """The same question asked again; None where today's catalogue and model give another spec,
    price or rate, or cannot be asked (a folder of images, a network of the user's own)."""
    if document["performance_model"]["id"] != ground.model.id or document["live"]:
        return None
    try:
        request = _request(document, ground)
        answer, _ = deciding(request, ground.catalog, ground.model)
    except (AdvisorError, ValueError, OverflowError):
        return None
    one, told = answer.chosen or answer.nearest, _spec_of(document)
    if one is None or told is None or (answer.chosen is None) != (not document["recommendation"]):
        return None
    return answer if _same(candidate_block(one), told) else None


def _spec_of(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = document["recommendation"] or document["nearest"]
    return found


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    names = ("cloud", "region", "market", "count", "instance_type", "batch_size", "bottleneck")
    numbers = [
        (one["price"]["total_usd_per_hour"], other["price"]["total_usd_per_hour"]),
        *((one["predicted"]["throughput"][name], other["predicted"]["throughput"][name])
          for name in ("lower", "median", "upper")),
    ]  # fmt: skip
    return (
        all(one[name] == other[name] for name in names)
        and one["disk"]["order"] == other["disk"]["order"]
        and all(math.isclose(a, b, rel_tol=_SAME) for a, b in numbers)
    )


def _request(document: Mapping[str, Any], ground: Ground) -> Request:
    """The question in a recommendation's document; `UsageError` where it cannot be known."""
    asked = document["request"]
    dataset = _dataset(asked, ground)
    types = tuple(asked["disk_types"])
    same = (
        "target_throughput", "confidence", "batch_size", "cloud", "region", "min_gpu_memory_mib",
        "max_gpu_memory_mib", "accelerated_only", "max_usd_per_hour", "max_latency_ms", "epochs",
        "samples", "max_hours", "max_run_usd", "max_gpus", "max_count",
    )  # fmt: skip
    return Request(
        **{name: asked[name] for name in same},
        network=asked["model"],
        task=Task(asked["task"]),
        precision=Precision(asked["precision"]),
        dataset=dataset,
        stack=Stack(asked.get("stack", Stack.EAGER)),
        memory_format=MemoryFormat(asked.get("memory_format", MemoryFormat.CONTIGUOUS)),
        tf32=Tf32(asked.get("tf32", Tf32.CONVOLUTIONS)),
        input=asked.get("input"),
        market=Market(asked["market"]),
        gpus=tuple(asked["gpus"]),
        compute_capability=_range(asked["compute_capability"]),
        vcpus=_range(asked["vcpus"]),
        memory_mib=_range(asked["memory_mib"]),
        vcpu_quota=tuple(asked["vcpu_quota"].items()),
        **({"disk_types": types} if types else _disk(asked, ground, dataset)),
        max_results=max(1, 1 + len(document["alternatives"])),
        pareto=bool(document["pareto"]),
    )


def _disk(asked: Mapping[str, Any], ground: Ground, dataset: DatasetProfile) -> dict[str, Any]:
    return disk_answers(ground.catalog, asked["cloud"], asked["disk"], dataset)


def _dataset(asked: Mapping[str, Any], ground: Ground) -> DatasetProfile:
    told = asked["dataset"]
    facts = ground.model.table.find(asked["model"], asked.get("input"))
    known = dataset_for(told["name"], facts) if told["name"] in DATASETS else None
    names = ("name", "samples", "bytes_per_sample", "storage_format")
    if known is None or any(told[name] != getattr(known, name) for name in names):
        raise UsageError(f"how large the samples of {told['name']} are was not saved")
    return known


def _range(told: Mapping[str, float | None] | None) -> Range:
    return Range(told["least"], told["most"]) if told else ANY


def answered_on(document: Mapping[str, Any]) -> date:
    """The day of a saved answer."""
    try:
        return date.fromisoformat(document["as_of"])
    except ValueError:
        raise UsageError(f"a saved answer has the impossible day {document['as_of']!r}") from None
