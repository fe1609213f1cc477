"""The specs of a recommendation about a language model as flat records: CSV, Markdown, XLSX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from advisor.render.blocks import BOUNDS
from advisor.render.document import is_language
from advisor.render.tables import PRICE_COLUMNS, markdown_answer, records_csv, records_markdown, with_telling
from advisor.render.workbook_sheet import Sheet, columns_in

Record = Mapping[str, Any]
_PLACE = ("rank", "cloud", "region", "market", "instance_type", "count", "gpu", "gpu_count")
_MACHINE = (
    "vcpus",
    "memory_mib",
    "disk_order",
    "disk_read_mib_per_second",
    *PRICE_COLUMNS,
    "price_as_of",
    "price_kind",
    "risk",
    "provenance",
)
_RATE = tuple(f"throughput_{bound}" for bound in BOUNDS)
_TIMES = ("ttft_seconds", "tpot_seconds", "e2e_seconds")
_OF_SERVING = (
    "engine",
    "engine_version",
    "precision",
    "kv_precision",
    "tensor_parallel",
    "replicas",
    "link",
    "concurrency",
    *_RATE,
    *(f"requests_per_second_{bound}" for bound in BOUNDS),
    *(f"{name}_{bound}" for name in _TIMES for bound in BOUNDS),
    *(f"usd_per_million_output_tokens_{bound}" for bound in BOUNDS),
    "usd_per_million_input_tokens_median",
    "weights_gib",
    "kv_gib",
    "free_gib",
    "largest_concurrency",
    "longest_context",
    "ready_seconds",
    "bottleneck",
)
_OF_TUNING = (
    "method",
    "micro_batch",
    "checkpointing",
    *_RATE,
    *(f"run_hours_{bound}" for bound in BOUNDS),
    *(f"run_usd_{bound}" for bound in BOUNDS),
)
_FRONT_SPANS = ("output_tokens_per_second", *_TIMES)
_OF_FRONT = (
    "tensor_parallel",
    "replicas",
    "concurrency",
    *(f"{name}_{bound}" for name in _FRONT_SPANS for bound in BOUNDS),
    "answers",
)
_SHORT_SERVING = (
    "rank",
    "instance_type",
    "gpu",
    "gpu_count",
    "replicas",
    "tensor_parallel",
    "disk_order",
    "throughput_lower",
    "throughput_median",
    "ttft_seconds_median",
    "tpot_seconds_median",
    "total_usd_per_hour",
    "usd_per_million_output_tokens_median",
    "ready_seconds",
    "bottleneck",
)
_SHORT_TUNING = (
    "rank",
    "instance_type",
    "gpu",
    "gpu_count",
    "micro_batch",
    "throughput_lower",
    "throughput_median",
    "run_hours_median",
    "run_usd_median",
    "total_usd_per_hour",
)


def language_csv(document: Record) -> str:
    """One row a ranked spec, every number unrounded."""
    return records_csv(ranked_rows(document), _columns(serves=_serves(document)))


def language_markdown(document: Record) -> str:
    """A table that pastes into a pull request."""
    short = _SHORT_SERVING if _serves(document) else _SHORT_TUNING
    rows = ranked_rows(document)
    columns = with_telling(short, rows, document["request"])
    return markdown_answer(document, records_markdown(rows, columns))


def language_sheets(sections: Sequence[Record]) -> list[Sheet]:
    """What the sections of a report say of language models alone: their specs, by task, and
    latency against throughput. A sheet without rows is left out."""
    documents = [
        (section["name"], section["recommendation"])
        for section in sections
        if is_language(section["recommendation"])
    ]
    served = [(name, document) for name, document in documents if _serves(document)]
    tuned = [(name, document) for name, document in documents if not _serves(document)]
    serving, tuning = _columns(serves=True), _columns(serves=False)
    sheets = [
        _sheet("Serving", "Each spec that serves, best first.", serving, served, ranked_rows),
        _sheet("Latency", "Latency against throughput.", _OF_FRONT, served, _front_rows),
        _sheet("Tuning", "Each spec that tunes, best first.", tuning, tuned, ranked_rows),
    ]
    return [sheet for sheet in sheets if sheet.records]


def _sheet(
    name: str,
    note: str,
    names: Sequence[str],
    documents: Sequence[tuple[str, Record]],
    rows_of: Callable[[Record], Sequence[Record]],
) -> Sheet:
    """The rows of all documents, each after the name of its workload."""
    columns = "; ".join(f"{name}={name}:{_look(name)}" for name in ("workload", *names))
    rows = [{"workload": name, **row} for name, document in documents for row in rows_of(document)]
    return Sheet(name, note, columns_in(columns), rows)


def _front_rows(document: Record) -> Sequence[Record]:
    rows = []
    for point in document["serving"]["front"]:
        spans = {name: _spread(name, point[name]) for name in _FRONT_SPANS}
        rows.append({**point, **{key: v for cells in spans.values() for key, v in cells.items()}})
    return rows


def _serves(document: Record) -> bool:
    return "serving" in document


def _columns(*, serves: bool) -> tuple[str, ...]:
    return (*_PLACE, *(_OF_SERVING if serves else _OF_TUNING), *_MACHINE)


def _look(name: str) -> str:
    if name.endswith(("count", "rank", "vcpus", "replicas", "context", "concurrency")):
        return "whole"
    ends = (*BOUNDS, "_gib", "_seconds", "_mib", "_per_hour", "_per_second", "risk")
    return "number" if name.endswith(ends) else "text"


def ranked_rows(document: Record) -> list[dict[str, Any]]:
    """The ranked specs as flat records, the recommended one first."""
    first = document["recommendation"]
    ranked = [first, *document["alternatives"]] if first else []
    return [{"rank": rank, **_row(spec)} for rank, spec in enumerate(ranked, start=1)]


def _row(spec: Record) -> dict[str, Any]:
    gpu, disk, price = spec["gpu"] or {}, spec["disk"], spec["price"]
    same = ("cloud", "region", "market", "instance_type", "count", "vcpus", "memory_mib", "risk")
    return {
        **{name: spec[name] for name in same},
        "gpu": gpu.get("name", ""),
        "gpu_count": gpu.get("count", 0),
        "disk_order": disk["order"],
        "disk_read_mib_per_second": disk["read_mib_per_second"],
        **{name: price.get(name, price["total_usd_per_hour"]) for name in PRICE_COLUMNS},
        "price_as_of": price["as_of"],
        "price_kind": price["kind"],
        "provenance": spec["predicted"]["provenance"],
        **_spread("throughput", spec["predicted"]["throughput"]),
        **(_serving_cells(spec) if "serving" in spec else _tuning_cells(spec)),
    }


def _serving_cells(spec: Record) -> dict[str, Any]:
    serving = spec["serving"]
    rates, memory = serving["rates"], serving["memory_per_gpu"]
    cells = {name: serving[name] for name in ("engine", "engine_version", "precision", "kv_precision")}
    for name in ("requests_per_second", *_TIMES):
        cells |= _spread(name, rates[name])
    for name in ("usd_per_million_output_tokens", "usd_per_million_input_tokens"):
        cells |= _spread(name, spec["cost"][name])
    return {
        **cells,
        **serving["placement"],
        **memory,
        "concurrency": rates["concurrency"],
        "ready_seconds": serving["ready_seconds"]["total"],
        "bottleneck": spec["bottleneck"],
    }


def _tuning_cells(spec: Record) -> dict[str, Any]:
    tuning, run = spec["tuning"], spec["run"]
    return {
        **{name: tuning[name] for name in ("method", "micro_batch", "checkpointing")},
        **_spread("run_hours", run["hours"]),
        **_spread("run_usd", run["usd"]),
    }


def _spread(name: str, span: Record) -> dict[str, Any]:
    return {f"{name}_{bound}": span[bound] for bound in BOUNDS}
