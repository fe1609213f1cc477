"""Records as CSV and Markdown; among them the ranked specs of a recommendation document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from advisor.csv_cells import csv_of
from advisor.render.blocks import BOUNDS
from advisor.render.markdown import md_text
from advisor.units import format_usd

# The total with its 90 % interval.
PRICE_COLUMNS = ("total_usd_per_hour", "total_low_usd_per_hour", "total_high_usd_per_hour")
RUN_COLUMNS = (
    "run_samples",
    *(f"run_hours_{bound}" for bound in BOUNDS),
    *(f"run_usd_{bound}" for bound in BOUNDS),
)
COLUMNS = (
    "rank",
    "cloud",
    "region",
    "market",
    "instance_type",
    "count",
    "gpu",
    "gpu_count",
    "vcpus",
    "physical_cores",
    "memory_mib",
    "disk_type",
    "disk_size_gib",
    "disk_order",
    "disk_read_iops",
    "disk_read_mib_per_second",
    "batch_size",
    "throughput_lower",
    "throughput_median",
    "throughput_upper",
    "latency_p50_ms",
    "latency_p99_ms",
    "instance_usd_per_hour",
    "disk_usd_per_hour",
    "total_usd_per_hour",
    "total_low_usd_per_hour",
    "total_high_usd_per_hour",
    "usd_per_million_samples",
    "bottleneck",
    "risk",
    "provenance",
    "price_as_of",
    "price_kind",
    *RUN_COLUMNS,
    "price_source",
    "disk_price_kind",
)
MARKDOWN_COLUMNS = (
    "rank",
    "instance_type",
    "gpu",
    "disk_order",
    "disk_read_iops",
    "disk_read_mib_per_second",
    "throughput_lower",
    "throughput_median",
    "total_usd_per_hour",
    "usd_per_million_samples",
    "bottleneck",
    "risk",
)
FRONT_COLUMNS = (
    "instance_type",
    "gpu",
    "disk",
    "batch_size",
    "total_usd_per_hour",
    "lower",
    "usd_per_million_samples",
)
MARKDOWN_RUN_COLUMNS = ("run_hours_median", "run_hours_upper", "run_usd_median")


def recommendation_csv(document: Mapping[str, Any]) -> str:
    """One row a ranked spec, every number unrounded."""
    return records_csv(ranked_rows(document), COLUMNS)


def markdown_answer(document: Mapping[str, Any], tables: str) -> str:
    """The tables of an answer, with what is asked and what is known of its price above them, and
    what it assumes and warns of below."""
    call = document["price_call"] or {"sentences": ()}
    notes = [
        f"- {title}: {md_text(str(text))}"
        for title, name in (("Warning", "warnings"), ("Assumed", "assumptions"))
        for text in document[name]
    ]
    told = [*filter(None, [document.get("asked")]), *call["sentences"]]
    head = "".join(f"{md_text(str(sentence))}\n\n" for sentence in told)
    if document["recommendation"] is None:
        tables = "".join(f"{line}\n" for line in _nothing_lines(document))
    notes += [f"- Specs: {md_text(str(document['others']))}"] if document.get("others") else []
    foot = "".join(f"{note}\n" for note in notes)
    return f"{head}{tables}\n{foot}" if foot else f"{head}{tables}"


def _nothing_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Where nothing answers: the nearest spec, and what would make one answer."""
    nearest = document["nearest"]
    near = f" Nearest: {_priced(nearest, nearest['price'])}." if nearest else ""
    yield f"No offer meets this.{near}"
    if document["relax"]:
        yield ""
    for one in document["relax"]:
        changes = " ".join(f"{change['option']} {change['to']}" for change in one["changes"])
        yield f"- One change would do: `{changes}` gives {_priced(one['gives'], one['gives'])}"


def _priced(spec: Mapping[str, Any], price: Mapping[str, Any]) -> str:
    """'g6.2xlarge of aws in us-east-1 at $0.440/h'."""
    name = md_text(f"{spec['instance_type']} of {spec['cloud']} in {spec['region']}")
    return f"{name} at {format_usd(price['total_usd_per_hour'])}/h"


def recommendation_markdown(document: Mapping[str, Any]) -> str:
    """Tables that paste into a pull request, rounded for reading: what is ranked, and the front of
    price and rate where there is one.
    """
    return markdown_answer(document, _ranked_markdown(document))


def _ranked_markdown(document: Mapping[str, Any]) -> str:
    rows = ranked_rows(document)
    has_run = any(row["run_samples"] is not None for row in rows)
    usual = (*MARKDOWN_COLUMNS, *(MARKDOWN_RUN_COLUMNS if has_run else ()))
    columns = with_telling(usual, rows, document["request"])
    ranked, front = records_markdown(rows, columns), document["pareto"]
    if len(front) < 2:
        return ranked
    cloud = ("cloud",) if "cloud" in columns else ()
    region = ("region",) if len({row["region"] for row in front}) > 1 else ()
    front_table = records_markdown(front, (*FRONT_COLUMNS, *cloud, *region))
    return f"{ranked}\nPareto front of price and rate:\n\n{front_table}"


def with_telling(
    columns: Sequence[str], rows: Sequence[Mapping[str, Any]], request: Mapping[str, Any]
) -> list[str]:
    """Columns of ranked specs, the rank first, with those on how many there are, where they stand
    and how they are paid that go without saying in none."""
    several = any(row["count"] > 1 for row in rows)
    telling = {
        "cloud": request["cloud"] == "any",
        "region": len({row["region"] for row in rows}) > 1,
        "market": request["market"] == "any",
        "price_kind": any(row["price_kind"] != "list" for row in rows),
        "disk_price_kind": any(row.get("disk_price_kind") not in (None, "list") for row in rows),
    }
    first, *others = columns
    shown = [name for name, is_told in telling.items() if is_told]
    return [first, *(["count"] if several else []), *others, *shown]


def records_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Flat records as CSV; null is an empty cell."""
    return csv_of(rows, columns)


def records_markdown(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Flat records as a Markdown table, numbers with four digits; null is a dash."""
    lines = [_line(columns), _line(["---"] * len(columns))]
    lines += [_line([_short(row[column]) for column in columns]) for row in rows]
    return "\n".join(lines) + "\n"


def ranked_rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The ranked specs as flat records, the recommended one first."""
    first = document["recommendation"]
    ranked = [first, *document["alternatives"]] if first else []
    return [{"rank": rank, **_row(spec)} for rank, spec in enumerate(ranked, start=1)]


def _row(record: Mapping[str, Any]) -> dict[str, Any]:
    gpu, predicted, price = record["gpu"] or {}, record["predicted"], record["price"]
    place = ("cloud", "region", "market", "instance_type", "count")
    same = (*place, "vcpus", "physical_cores", "memory_mib", "batch_size", "bottleneck", "risk")
    return {
        **{name: record[name] for name in same},
        "gpu": gpu.get("name", ""),
        "gpu_count": gpu.get("count", 0),
        "disk_type": record["disk"]["type"],
        "disk_size_gib": record["disk"]["size_gib"],
        "disk_order": record["disk"]["order"],
        **{f"disk_{name}": record["disk"][name] for name in ("read_iops", "read_mib_per_second")},
        **{f"throughput_{name}": value for name, value in predicted["throughput"].items()},
        **{f"latency_{name}": (record["latency"] or {}).get(name) for name in ("p50_ms", "p99_ms")},
        "instance_usd_per_hour": price["usd_per_hour"],
        "disk_usd_per_hour": price["disk_usd_per_hour"],
        **{name: price.get(name, price["total_usd_per_hour"]) for name in PRICE_COLUMNS},
        "usd_per_million_samples": record["cost"]["usd_per_million_samples"],
        "provenance": predicted["provenance"],
        "price_as_of": price["as_of"],
        "price_kind": price["kind"],
        "price_source": price["source"],
        "disk_price_kind": record["disk"]["price_kind"],
        **_run_cells(record["run"]),
    }


def _run_cells(run: Mapping[str, Any] | None) -> dict[str, Any]:
    """The cells of `RUN_COLUMNS`; empty where no run was asked for."""
    hours, usd = ((run or {}).get(name) or {} for name in ("hours", "usd"))
    return {
        "run_samples": (run or {}).get("samples"),
        **{f"run_hours_{bound}": hours.get(bound) for bound in BOUNDS},
        **{f"run_usd_{bound}": usd.get(bound) for bound in BOUNDS},
    }


def _line(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"


def _short(value: Any) -> str:
    if value is None:
        return "-"
    return short_number(value) if isinstance(value, float) else str(value)


def short_number(value: float) -> str:
    """Four digits, and never an exponent for what is large: '0.221', '166', '42500'."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
