"""Compares instances, or GPUs by themselves, as text, documents and flat rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from advisor.domain import InstancePrediction, InstanceType, OnGpu, relative
from advisor.domain.decision import Text
from advisor.domain.results import DECIDES, P99_OVER_P50, START
from advisor.domain.words import ENGINES
from advisor.messages import Message, ceil_ms, code_of, format_span, format_usd
from advisor.naming import asked_of
from advisor.questions.language import ServingQuestion, TuningQuestion
from advisor.questions.network import NetworkQuestion
from advisor.questions.reading import question_document
from advisor.render.blocks import Column, Items, Look, Part, Table, percent
from advisor.render.borderline import modest
from advisor.render.document import Sources
from advisor.render.facts import per_million
from advisor.render.i18n.catalogue import report_texts
from advisor.render.language_document import LanguagePrediction
from advisor.render.language_document import prediction_block as language_block
from advisor.render.phrases import gpus_text, seconds_text, way_text
from advisor.render.records import (
    disk_block,
    gpu_prediction_block,
    instance_block,
    largest_text,
    latency_block,
    prediction_block,
    price_block,
    run_block,
    same_paths,
    spread_paths,
    too_large_text,
)
from advisor.render.sentences import aimed_at, bound_name, goal_text, question_text
from advisor.render.tables import value_at
from advisor.render.terminal import block_lines
from advisor.render.text import folded, is_miss, local_or_order, lower_name
from advisor.render.views.brief import binding_text
from advisor.render.views.specs import served_words

SCHEMA = "advisor.comparison/1"
SERVING_SCHEMA, TUNING_SCHEMA = "advisor.serving-comparison/1", "advisor.tuning-comparison/1"
# The columns of a flat row, each with its path in a row of the document.
COLUMNS = {
    **same_paths("network instance_type"),
    "gpu": "gpu.name",
    "batch_size": "batch_size",
    **spread_paths({"throughput": "predicted.throughput"}),
    **same_paths("relative total_usd_per_hour usd_per_million_samples bottleneck"),
    "provenance": "predicted.provenance",
    **same_paths("cloud region"),
    **{"price_kind": "price.kind", "price_as_of": "price.as_of", "price_source": "price.source"},
    "disk_price_kind": "disk.price_kind",
}
SERVING_COLUMNS = {
    "instance_type": "instance_type",
    **{"gpu": "gpu.name", "gpu_count": "gpu.count"},
    **same_paths("tensor_parallel replicas", "serving.placement."),
    **spread_paths({"throughput": "predicted.throughput"}),
    "ttft_seconds": "serving.rates.ttft_seconds.median",
    "tpot_seconds": "serving.rates.tpot_seconds.median",
    "relative": "relative",
    "total_usd_per_hour": "price.total_usd_per_hour",
    "usd_per_million_output_tokens": "cost.usd_per_million_output_tokens.median",
    "ready_seconds": "serving.ready_seconds.total",
    **same_paths("probability bottleneck cloud region"),
    **{"price_kind": "price.kind", "price_as_of": "price.as_of"},
}
TUNING_COLUMNS = {
    "instance_type": "instance_type",
    **{"gpu": "gpu.name", "gpu_count": "gpu.count"},
    **same_paths("micro_batch checkpointing", "tuning."),
    **spread_paths({"throughput": "predicted.throughput", "hours": "run.hours", "usd": "run.usd"}),
    **same_paths("probability relative"),
    "total_usd_per_hour": "price.total_usd_per_hour",
    **same_paths("cloud region"),
    **{"price_kind": "price.kind", "price_as_of": "price.as_of"},
}
Record = Mapping[str, Any]


class Misfit(NamedTuple):
    """An instance that cannot do what the question asks, the reason, and the model and method, if several."""

    instance: InstanceType
    why: Text
    way: str = ""


def misfit_rows(misfits: Sequence[Misfit]) -> list[dict[str, Any]]:
    """Return one JSON-ready record each."""
    return [{"instance_type": each.instance.name, "why": each.why} for each in misfits]


def comparison_document(
    requests: Sequence[NetworkQuestion],
    baseline: str,
    rows: Sequence[Mapping[str, Any]],
    sources: Sources,
    misfits: Sequence[Misfit],
) -> dict[str, Any]:
    """Return the versioned JSON answer; `relative` is the median divided by the baseline's."""
    return {
        "schema": SCHEMA,
        "asked": [asked_of(request) for request in requests],
        "requests": [question_document(request) for request in requests],
        **sources.blocks(),
        "baseline": baseline,
        "rows": list(rows),
        "cannot": misfit_rows(misfits),
    }


def instance_rows(
    answers: Sequence[InstancePrediction], baseline: InstancePrediction
) -> list[dict[str, Any]]:
    """Return one JSON-ready record per instance; unknown prices are null."""
    return [
        {
            "network": answer.workload.network,
            "cloud": answer.instance.cloud,
            "region": answer.region,
            **instance_block(answer.instance),
            "disk": disk_block(answer.disk),
            "price": price_block(answer.price) if answer.price else None,
            "total_usd_per_hour": answer.total_usd_per_hour,
            "usd_per_million_samples": answer.usd_per_million_samples,
            "run": run_block(answer.run, answer.usd_per_run),
            "latency": latency_block(answer.latency),
            "probability": answer.probability,
            **prediction_block(answer.workload, answer.prediction),
            "relative": relative(answer.prediction, baseline.prediction),
            "assumptions": list(answer.assumptions),
            "warnings": list(answer.warnings),
        }
        for answer in answers
    ]


def gpu_rows(cells: Sequence[OnGpu], baseline: OnGpu, usd: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return a record per GPU of a network; rates are null if no batch fits, unknown prices too."""
    return [
        {
            "network": cell.network,
            "gpu": {"name": cell.gpu.name, "memory_mib": cell.gpu.memory_mib},
            **gpu_prediction_block(cell),
            "relative": relative(cell.prediction, baseline.prediction),
            "relative_to": baseline.gpu.name if baseline.workload else None,
            "usd_per_gpu_hour": (price := usd.get(cell.gpu.name)),
            "usd_per_million_samples": per_million(price, cell.prediction.median)
            if price and cell.prediction
            else None,
        }
        for cell in cells
    ]


def _column(heading: str, of: str | Callable[[Record], Any], look: Look = Look.TEXT) -> Column:
    """Return a column with a dash in rows that have no value; `of` is a path or a function."""
    return Column(heading, of, look, "-")


def _rate_columns(confidence: float) -> list[Column]:
    path = "predicted.throughput"
    return [
        _column(f"{lower_name(confidence)}/s", f"{path}.lower", Look.LOWER),
        _column("median/s", f"{path}.median", Look.RATE),
    ]


_RELATIVE = Column(
    "x", lambda row: None if row.get("relative") is None else f"{row['relative']:.2f}", Look.NUMBER, "-"
)


def _paid_columns(rows: Sequence[Record], million: Column) -> list[Column]:
    """Return columns of the hourly price, and of the cost of a run or, without runs, of a million. Free
    instances show no price."""

    def hours(row: Record) -> str | None:
        median = value_at(row, "run.hours.median")
        return None if median is None else format_span(median)

    def per_hour(row: Record) -> float | None:
        return row.get("total_usd_per_hour") or value_at(row, "price.total_usd_per_hour") or None

    run = [_column("run", hours, Look.NUMBER), _column("run costs", "run.usd.median", Look.COST)]
    return [_column("per hour", per_hour, Look.USD), *(run if any(map(hours, rows)) else [million])]


def instances_text(
    title: str, columns: Sequence[Column], rows: Sequence[Record], misfits: Sequence[Misfit]
) -> list[str]:
    """Return a table of instances in the order given, then what some miss and why others are left out."""
    gaps = [
        {"instance_type": each.instance.name, "way": each.way, **instance_block(each.instance)}
        for each in misfits
    ]
    first = [_column("instance", "instance_type", Look.NAME), _column("gpu", _gpus)]
    missed = {_named(row): _missed(row) for row in rows}
    below = [
        Part("Misses", [Items(_by_instance(missed))]),
        Part("Left out", [Items([str(each.why) for each in misfits])]),
    ]
    return [*folded(title), "", *block_lines([Table([*first, *columns], [*rows, *gaps]), *below])]


def network_lines(
    request: NetworkQuestion, rows: Sequence[Record], baseline: str, misfits: Sequence[Misfit]
) -> list[str]:
    """Return the table of one network, under the target and limits, and which instance keeps them."""
    asked, t = question_document(request), report_texts("en")
    about = (asked_of(request), goal_text(asked, t), aimed_at(asked, t), f"x: rate relative to {baseline}")
    columns = [
        _column("disk", lambda row: row.get("disk") and local_or_order(row["disk"]), Look.LONG),
        _column(
            "batch", lambda row: row.get("batch_size") and f"{row['batch_size']},\u00a0{row['precision']}"
        ),
        *_rate_columns(request.confidence),
        *([_column("p99 ms", _p99_ms, Look.NUMBER)] if request.max_latency_ms else []),
        _RELATIVE,
        *_paid_columns(
            rows, _column("per 1M", lambda row: row.get("usd_per_million_samples") or None, Look.USD)
        ),
        *_sure_columns(rows),
        _column("bound by", lambda row: row.get("bottleneck") and bound_name(row, t)),
    ]
    title = "; ".join(str(part) for part in about if part)
    return [*instances_text(title, columns, rows, misfits), *_verdict(rows, request.confidence)]


def _p99_ms(row: Record) -> str | None:
    """Return the median of a batch's p99."""
    p50 = value_at(row, "latency.p50_ms")
    return None if p50 is None else f"{ceil_ms(P99_OVER_P50 * p50 / 1000):,g}"


def _sure_columns(rows: Sequence[Record]) -> list[Column]:
    """Return the column of the chance to keep target and limits, where there are any."""
    if all(row.get("probability") is None for row in rows):
        return []
    # What cannot run has none.
    return [_column("sure", lambda row: modest(_chance(row)) if "predicted" in row else None, Look.SHARE)]


def _chance(row: Record) -> float:
    """Return the chance of a row to keep target and limits; 1 where nothing unsure decides."""
    return 1.0 if row.get("probability") is None else float(row["probability"])


def _gpus(row: Record) -> str | None:
    gpu = row["gpu"]
    return gpu and gpus_text(gpu["name"], gpu["count"]).replace(" ", "\u00a0")


def _named(row: Record) -> str:
    """Return 'g6e.xlarge', of several methods or models 'g6e.xlarge (lora)'."""
    return f"{row['instance_type']} ({row['way']})" if row.get("way") else str(row["instance_type"])


def _missed(row: Record) -> list[str]:
    warnings = [text for text in row["warnings"] if isinstance(text, Message) and is_miss(text)]
    return [str(text.parameters["why"]) for text in warnings]


def notes_lines(rows: Sequence[Record]) -> list[str]:
    """Return lines for price sources, assumptions that move a price or rate, and warnings."""
    prices, decisive, warned = (defaultdict[str, list[Text]](list) for _ in range(3))
    for row in rows:  # several networks have several rows of an instance
        name = row["instance_type"]
        prices[name] += [_price_text(row)] if row["price"] else []
        decisive[name] += [text for text in row["assumptions"] if code_of(text) in (DECIDES, START)]
        warned[name] += [text for text in row["warnings"] if not is_miss(text)]
    parts = (("Prices", prices), ("Assumed", decisive), ("Warnings", warned))
    return block_lines([Part(title, [Items(_by_instance(texts))]) for title, texts in parts])


def _by_instance(texts: Mapping[str, Sequence[Text]]) -> list[str]:
    """Return each remark once, after its instances unless it is about all; remarks about few come first."""
    names: dict[str, dict[str, None]] = {}
    for name, some in texts.items():
        for text in some:
            names.setdefault(str(text), {})[name] = None
    return [
        text if len(names[text]) == len(texts) else f"{', '.join(names[text])}: {text}"
        for text in sorted(names, key=lambda text: len(names[text]))
    ]


def _price_text(row: Record) -> str:
    """'list price of 2026-07-20, aws us-east-1', 'observed price of 2024-09-28 ($0.22 to $2.74/h), ..'."""
    price, t = row["price"], report_texts("en")
    text = f"{t.known('price.' + price['kind'], price['kind'])} of {price['as_of']}"
    if price["low_usd_per_hour"] < price["high_usd_per_hour"]:
        text += f" ({format_usd(price['low_usd_per_hour'])} to {format_usd(price['high_usd_per_hour'])}/h)"
    of_disk = row["disk"]["price_kind"]
    disk = f", disk at {t.known('price.' + of_disk, of_disk)}" if of_disk not in (None, price["kind"]) else ""
    return f"{text}{disk}, {row['cloud']} {row['region']}"


def gpus_lines(tables: Sequence[tuple[NetworkQuestion, Sequence[Record]]], baseline: str) -> list[str]:
    """Return a table per network: the rates of each GPU, their ratio to the baseline's median, and costs."""
    lines: list[str] = []
    for request, rows in tables:
        base = rows[0]["relative_to"]
        is_one = f"x: rate relative to {base}"
        too_large = too_large_text(request.batch_size)
        if base != baseline:
            is_one = f"{too_large} {baseline}, so {is_one}"
        columns = [
            _column("gpu", "gpu.name", Look.NAME),
            _column("batch", "batch_size", Look.WHOLE),
            *_rate_columns(request.confidence),
            _RELATIVE,
            _column("per hour", lambda row: row["usd_per_gpu_hour"] or None, Look.USD),
            _column("per 1M", "usd_per_million_samples", Look.USD),
            _column("rates", "predicted.provenance"),
        ]
        about = f"samples on the device; {is_one if base else f'{too_large} any of them'}"
        lines += [str(asked_of(request)), about, "", *block_lines([Table(columns, rows)])]
        small = [row["gpu"]["name"] + largest_text(row) for row in rows if not row["fits"]]
        unpriced = [row["gpu"]["name"] for row in rows if row["usd_per_gpu_hour"] is None]
        for why, names in ((too_large, small), ("no price is known", unpriced)):
            lines += folded(f"{why}: {', '.join(names)}") if names else []
        lines.append("")
    return [*lines, *folded(_ALONE)]


_ALONE = (
    "These are GPUs alone, at the cheapest price of an instance over its GPUs. `advisor recommend` and "
    "`advisor predict` answer for whole instances."
)


def language_comparison_document(
    predictions: Sequence[LanguagePrediction],
    baseline: str,
    request: ServingQuestion | TuningQuestion,
    sources: Sources,
    misfits: Sequence[Misfit],
) -> dict[str, Any]:
    """Return how instances that serve or fine-tune compare; `relative` is the median over that of the
    baseline, or of the first where that one cannot do it."""
    blocks = {each.instance.name: language_block(each, request.confidence, sources) for each in predictions}
    baseline = baseline if baseline in blocks else next(iter(blocks), baseline)
    medians = {name: block["predicted"]["throughput"]["median"] for name, block in blocks.items()}
    rows = [
        block
        | {
            "relative": medians[each.instance.name] / medians[baseline],
            "assumptions": list(each.assumptions),
            "warnings": list(each.warnings),
        }
        for each, block in zip(predictions, blocks.values(), strict=True)
    ]
    return {
        "schema": TUNING_SCHEMA if isinstance(request, TuningQuestion) else SERVING_SCHEMA,
        "request": question_document(request),
        **sources.blocks(),
        "baseline": baseline,
        "rows": rows,
        "cannot": misfit_rows(misfits),
    }


def language_comparison_text(
    document: Mapping[str, Any],
    request: ServingQuestion | TuningQuestion,
    misfits: Sequence[Misfit],
    ways: str = "",
) -> str:
    """Return the comparison as text for a terminal; `ways` is the heading of the rows' `way`, if several."""
    rows, t = document["rows"], report_texts("en")
    tunes = isinstance(request, TuningQuestion)
    of_task = (_tuning_columns if tunes else _serving_columns)(rows, request.confidence)

    def served(row: Record) -> str:
        words = served_words(row["serving"]["rates"], document["request"]) if row.get("serving") else {}
        return f"{words['served']} of {words['users']}" if words else ""

    unlike = any(map(served, rows))  # such rates have no ratio
    columns = [*of_task, _column("users", served) if unlike else _RELATIVE, *_sure_columns(rows)]
    columns = [_column(ways, "way"), *columns] if ways else columns
    binds = {_named(row): [binding_text(row, t)] for row in rows}
    bound = block_lines([Part("Bound by", [Items(_by_instance(binds))])])
    is_one = f"; x: rate relative to {document['baseline']}" + (f" by the same {ways}" if ways else "")
    title = f"{question_text(document, t, *ways.split(', '))}; {_computes(rows[0])}{'' if unlike else is_one}"
    shown = instances_text(title, columns, rows, misfits)
    return "\n".join([*shown, *_verdict(rows, request.confidence), *bound, *notes_lines(rows)])


def _verdict(rows: Sequence[Record], confidence: float) -> list[str]:
    """Return the cheapest instance that is sure enough (by cost of the run, if any), or else the surest."""

    def usd(row: Record) -> float:
        per_hour = row.get("total_usd_per_hour") or value_at(row, "price.total_usd_per_hour")
        return float(value_at(row, "run.usd.median") or per_hour or inf)

    if not _sure_columns(rows):
        return []
    sure = [row for row in rows if _chance(row) >= confidence]
    first = min(sure, key=usd) if sure else max(rows, key=_chance)
    says = "Cheapest that surely does it" if sure else f"None is {percent(confidence)} sure to do it; surest"
    return ["", f"{says}: {_named(first)}, {percent(modest(_chance(first)))} sure"]


def _computes(row: Record) -> str:
    """'vLLM 0.18 with CUDA graphs; output tokens/s of all GPUs': the engine and what the rates count."""
    if (serving := row.get("serving")) is None:
        return "tokens/s of all GPUs"
    engine = f"{ENGINES.get(serving['engine'], serving['engine'])} {serving['engine_version']}"
    return f"{engine} with CUDA graphs; output tokens/s of all GPUs, mean times"


def _tuning_columns(rows: Sequence[Record], confidence: float) -> list[Column]:
    def batch(row: Record) -> str | None:
        if (tuning := row.get("tuning")) is None:
            return None
        return f"{tuning['micro_batch']}{', checkpointing' if tuning['checkpointing'] else ''}"

    paid = _paid_columns(rows, _column("run", "run"))
    return [_column("micro-batch", batch), *_rate_columns(confidence), *paid]


def _serving_columns(rows: Sequence[Record], confidence: float) -> list[Column]:
    """Return columns of how the GPUs share the work ('2 x TP4'), rates, mean times, and cost."""

    def mean(name: str) -> Callable[[Record], str | None]:
        path = f"serving.rates.{name}_seconds.median"
        return lambda row: None if (seconds := value_at(row, path)) is None else seconds_text(seconds)

    def way(row: Record) -> str | None:
        return row.get("serving") and way_text(row["serving"]["placement"]).replace(" ", "\u00a0")

    million = _column("1M out", "cost.usd_per_million_output_tokens.median", Look.USD)
    return [
        _column("runs as", way),
        *_rate_columns(confidence),
        *(_column(name.upper(), mean(name), Look.NUMBER) for name in ("ttft", "tpot")),
        *_paid_columns(rows, million),
    ]
