"""Instances, or GPUs by themselves, beside each other: as text, documents and flat rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from advisor.domain import LIST, InstancePrediction, OnGpu, Prediction, geometric_mean, relative
from advisor.domain.decision import Text
from advisor.domain.language import ServingPrediction, ServingRates
from advisor.domain.results import BARE_STEP
from advisor.messages import Message
from advisor.naming import asked_of
from advisor.questions.language import ServingQuestion
from advisor.questions.network import NetworkQuestion
from advisor.questions.reading import question_document
from advisor.render.blocks import lower_rate
from advisor.render.document import Sources
from advisor.render.i18n.catalogue import report_texts
from advisor.render.language_document import placement_block, serving_block
from advisor.render.phrases import BINDS, ENGINES, seconds_text, way_text
from advisor.render.phrases import gpus_text as serving_gpus
from advisor.render.records import (
    disk_block,
    gpu_prediction_block,
    instance_block,
    prediction_block,
    price_block,
)
from advisor.render.sentences import stage_name
from advisor.render.tables import flat_rows, same_paths, spread_paths
from advisor.render.text import (
    disk_text,
    fitting_table,
    folded,
    is_miss,
    lower_name,
    table,
    usd_or_dash,
    wrapped,
)
from advisor.units import format_rate, format_usd

SCHEMA = "advisor.comparison/1"
SERVING_SCHEMA = "advisor.serving-comparison/1"
# What each column of a flat row is, by its path in a row of the document.
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
    **same_paths("bottleneck cloud region"),
    **{"price_kind": "price.kind", "price_as_of": "price.as_of"},
}
_REMARKS = (
    "-: no batch fits its memory, or no price is known. mean: geometric, where every network fits.",
    "These are GPUs alone, at the cheapest price of an instance over its GPUs. `advisor recommend`",
    "and `advisor predict` answer for whole instances.",
)
AnyPrediction = InstancePrediction | ServingPrediction


def comparison_document(
    requests: Sequence[NetworkQuestion], baseline: str, rows: Sequence[Mapping[str, Any]], sources: Sources
) -> dict[str, Any]:
    """The versioned JSON answer; `relative` is the median over the baseline's."""
    return {
        "schema": SCHEMA,
        "asked": [asked_of(request) for request in requests],
        "requests": [question_document(request) for request in requests],
        "performance_model": sources.performance_model(),
        "catalog": sources.catalog(),
        "baseline": baseline,
        "rows": list(rows),
    }


def instance_rows(
    answers: Sequence[InstancePrediction], baseline: InstancePrediction
) -> list[dict[str, Any]]:
    """One record an instance, JSON-ready; prices are null where none is known."""
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
            **prediction_block(answer.workload, answer.prediction),
            "relative": relative(answer.prediction, baseline.prediction),
            "assumptions": list(answer.assumptions),
            "warnings": list(answer.warnings),
        }
        for answer in answers
    ]


def gpu_rows(cells: Sequence[OnGpu], baseline: OnGpu, usd: Mapping[str, float]) -> list[dict[str, Any]]:
    """One record a GPU of a network; rates null where no batch fits, prices where none is known."""
    return [
        {
            "network": cell.network,
            "gpu": {"name": cell.gpu.name, "memory_mib": cell.gpu.memory_mib},
            "fits": cell.workload is not None,
            **gpu_prediction_block(cell.workload, cell.prediction),
            "relative": relative(cell.prediction, baseline.prediction),
            "relative_to": baseline.gpu.name if baseline.workload else None,
            "usd_per_gpu_hour": usd.get(cell.gpu.name),
            "usd_per_million_samples": _usd_per_million(cell, usd.get(cell.gpu.name)),
        }
        for cell in cells
    ]


def _usd_per_million(cell: OnGpu, usd: float | None) -> float | None:
    """The cost of a million samples at the median rate; None without a price, or a rate."""
    return usd / (cell.prediction.median * 3600) * 1e6 if usd and cell.prediction else None


def instances_text(
    request: NetworkQuestion, answers: Sequence[InstancePrediction], baseline: InstancePrediction
) -> str:
    """A table of one network, instances in the order asked."""
    title, english = f"{asked_of(request)}; {baseline.instance.name} is 1", report_texts("en")
    header = ["instance", "gpu", "disk", "batch"]
    header += [*_rate_headings(baseline.prediction.confidence), f"x {baseline.instance.name}", "per hour"]
    rows = [
        [
            answer.instance.name,
            answer.instance.gpu_name or "-",
            disk_text(answer.disk),
            str(answer.workload.batch_size),
            *_rate_cells(answer.prediction),
            _times(relative(answer.prediction, baseline.prediction)),
            # What is free has no price here.
            usd_or_dash(answer.total_usd_per_hour or None),
            usd_or_dash(answer.usd_per_million_samples or None),
            stage_name(str(answer.prediction.bottleneck), english, on_cpu=answer.instance.gpu_name is None),
        ]
        for answer in answers
    ]
    return "\n".join([title, "", *table([*header, "per 1M", "bound by"], rows, right=range(3, 9))])


def notes_lines(answers: Sequence[AnyPrediction]) -> list[str]:
    """The location of each instance and the source of its price, and the assumptions and warnings of all
    of them; an instance that several networks are compared on is named once."""
    priced: dict[str, dict[str, None]] = {}
    for answer in answers:
        if text := _price_text(answer):
            priced.setdefault(text, {})[answer.instance.name] = None
    prices = [f"{', '.join(names)} {text}" for text, names in priced.items()]
    assumed, warned = (_by_instance(answers, name) for name in ("assumptions", "warnings"))
    missed = [text for answer in answers for text in answer.warnings if is_miss(text)]
    return [
        *wrapped("Prices", prices, len(prices)),
        *wrapped("Assumed", assumed, 5),
        *wrapped("Warning", warned, 3 + len(missed)),  # what is missed is never left out
    ]


def _by_instance(answers: Sequence[AnyPrediction], name: str) -> list[Text]:
    """Each remark of that name once, behind the instances that it is of unless it is of all; those of the
    fewest come first, as what all of them share may be cut. What a bare step would do is one remark."""
    order: dict[Text, int] = {}
    names: dict[Text, dict[str, None]] = {}
    bare: dict[str, None] = {}
    for answer in answers:
        for number, text in enumerate(getattr(answer, name)):
            if isinstance(text, Message) and text.code == BARE_STEP:
                rate = format_rate(cast(float, text.parameters["rate"]))
                bare[f"{answer.instance.name} {rate}"] = None
                continue
            order[text] = number
            names.setdefault(text, {})[answer.instance.name] = None
    every = {answer.instance.name for answer in answers}
    steps = f"a typical training script; a bare step alone, on one GPU, does /s: {', '.join(bare)}"
    return [
        *([steps] if bare else []),
        *(
            text if every == {*names[text]} else f"{', '.join(names[text])}: {text}"
            for text in sorted(order, key=lambda text: (len(names[text]), order[text]))
        ),
    ]


def _price_text(answer: AnyPrediction) -> str | None:
    """'of aws in us-east-1, observed of 2024-09-28 ($0.22 to $2.74/h), estimated disk', or None."""
    price = answer.price
    if price is None:
        return None
    text = f"of {answer.instance.cloud} in {answer.region}, {price.kind} of {price.as_of}"
    if price.low < price.high:
        text += f" ({format_usd(price.low_usd_per_hour)} to {format_usd(price.high_usd_per_hour)}/h)"
    of_disk = answer.disk if isinstance(answer, InstancePrediction) else answer.candidate.spec.disk
    disk = of_disk.price
    return f"{text}, {disk.kind} disk" if disk and disk.kind != LIST else text


def gpus_text(
    by_network: Sequence[tuple[NetworkQuestion, Sequence[OnGpu], OnGpu]],
    baseline: str,
    usd: Mapping[str, float],
) -> str:
    """A table a network: the rates of each GPU, times the baseline's median, and what an hour of it
    costs; for several networks the mean of those times."""
    lines: list[str] = []
    for request, cells, base in by_network:
        header = ["gpu", "batch", *_rate_headings(request.confidence), f"x {base.gpu.name}"]
        header += ["per hour", "per 1M", "rates"]
        rows = [_gpu_cells(cell, base, usd.get(cell.gpu.name)) for cell in cells]
        is_one = f"no batch fits {baseline}, so {base.gpu.name} is 1"
        if base.gpu.name == baseline:
            is_one = f"{baseline} is 1" if base.workload else "no batch fits any of them"
        lines += [str(asked_of(request)), f"samples on the device; {is_one}", ""]
        lines += [*table(header, rows, right=range(1, 7)), ""]
    if len(by_network) > 1:
        bases = [base for _, _, base in by_network]
        rows = []
        for row in zip(*(cells for _, cells, _ in by_network), strict=True):
            ratios = [
                relative(cell.prediction, base.prediction) for cell, base in zip(row, bases, strict=True)
            ]
            rows.append([row[0].gpu.name, _times(geometric_mean(ratios))])
        lines += [*table(["gpu", "mean"], rows, (1,)), ""]
    return "\n".join([*lines, *_REMARKS])


def _gpu_cells(cell: OnGpu, base: OnGpu, usd: float | None) -> list[str]:
    prediction = cell.prediction
    return [
        cell.gpu.name,
        str(cell.workload.batch_size) if cell.workload else "-",
        *(_rate_cells(prediction) if prediction else ("-", "-")),
        _times(relative(prediction, base.prediction)),
        usd_or_dash(usd or None),
        usd_or_dash(_usd_per_million(cell, usd)),
        str(prediction.provenance) if prediction else "-",
    ]


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def serving_comparison_document(
    predictions: Sequence[ServingPrediction],
    baseline: ServingPrediction,
    request: ServingQuestion,
    sources: Sources,
) -> dict[str, Any]:
    """Instances that serve beside each other; `relative` is the median over the baseline's."""
    first = baseline.candidate.rates.output_tokens_per_second.median
    rows = [
        serving_block(prediction, request.confidence, sources)
        | {
            "relative": prediction.candidate.rates.output_tokens_per_second.median / first,
            "assumptions": list(prediction.assumptions),
            "warnings": list(prediction.warnings),
        }
        for prediction in predictions
    ]
    return {
        "schema": SERVING_SCHEMA,
        "request": question_document(request),
        "performance_model": sources.performance_model(),
        "catalog": sources.catalog(),
        "baseline": baseline.candidate.spec.offer.instance.name,
        "rows": rows,
    }


def serving_comparison_text(
    predictions: Sequence[ServingPrediction],
    baseline: ServingPrediction,
    request: ServingQuestion,
    sources: Sources,
) -> str:
    """A table for a terminal."""
    document = serving_comparison_document(predictions, baseline, request, sources)
    rows, first = flat_rows(document["rows"], SERVING_COLUMNS), baseline.candidate
    columns = {
        "instance": [row["instance_type"] for row in rows],
        **_users_columns(request, [prediction.candidate.rates for prediction in predictions]),
        "gpu": [serving_gpus(prediction.instance) for prediction in predictions],
        "runs as": [way_text(placement_block(each.candidate.placement)) for each in predictions],
        f"{lower_name(request.confidence)} tokens/s": [lower_rate(row["throughput_lower"]) for row in rows],
        "median": [format_rate(row["throughput_median"]) for row in rows],
        "TTFT": [seconds_text(row["ttft_seconds"]) for row in rows],
        "TPOT": [seconds_text(row["tpot_seconds"]) for row in rows],
        f"x {baseline.instance.name}": [f"{row['relative']:.2f}" for row in rows],
        "per hour": [usd_or_dash(row["total_usd_per_hour"]) for row in rows],
        "per 1M out": [usd_or_dash(row["usd_per_million_output_tokens"]) for row in rows],
    }
    name = ENGINES.get(str(first.engine), str(first.engine))
    title = (
        f"{first.model} generation, {name} {first.engine_version} with CUDA graphs; output "
        "tokens/s of all GPUs."
    )
    binds: dict[str, dict[str, None]] = {}
    for each in predictions:
        binds.setdefault(BINDS[each.candidate.binds], {})[each.instance.name] = None
    bound = [f"{', '.join(names)} {what}" for what, names in binds.items()]
    shown = fitting_table(columns, ("instance", "gpu", "runs as"), ("runs as", "gpu", "TTFT"))
    notes = [*wrapped("Bound by", bound, len(bound)), *notes_lines(predictions)]
    return "\n".join([*folded(title), "", *shown, "", *notes])


def _users_columns(request: ServingQuestion, rates: Sequence[ServingRates]) -> dict[str, list[str]]:
    """'28 of 64' where there is no room for all users, in flight or thinking; nothing where there is."""
    users, think = request.users or 0, request.think_seconds
    room = [round(each.concurrency + think * each.requests_per_second.median) for each in rates]
    return {"users": [f"{min(held, users)} of {users}" for held in room]} if min(room) < users else {}


def _rate_headings(confidence: float) -> list[str]:
    """['p10/s', 'median/s']: headings of a lower bound and a median."""
    return [f"{lower_name(confidence)}/s", "median/s"]


def _rate_cells(prediction: Prediction) -> list[str]:
    return [lower_rate(prediction.lower), format_rate(prediction.median)]
