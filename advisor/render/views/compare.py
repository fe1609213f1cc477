"""Instances, or GPUs by themselves, beside each other: as text, documents and flat rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from advisor.domain import LIST, InstancePrediction, InstanceType, OnGpu, Prediction, geometric_mean, relative
from advisor.domain.decision import Text
from advisor.domain.language import GenerationCandidate, ServingPrediction, TuningPrediction
from advisor.domain.results import BARE_STEP
from advisor.messages import Message
from advisor.naming import asked_of
from advisor.questions.language import ServingQuestion, TuningQuestion
from advisor.questions.network import NetworkQuestion
from advisor.questions.reading import question_document
from advisor.render.blocks import lower_rate, percent
from advisor.render.document import Sources
from advisor.render.i18n.catalogue import report_texts
from advisor.render.language_document import (
    placement_block,
    serving_block,
    tuning_block,
    tuning_question_text,
)
from advisor.render.phrases import BINDS, ENGINES, seconds_text, way_text
from advisor.render.phrases import gpus_text as serving_gpus
from advisor.render.records import (
    disk_block,
    gpu_prediction_block,
    instance_block,
    prediction_block,
    price_block,
    run_block,
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
from advisor.units import format_rate, format_span, format_usd

SCHEMA = "advisor.comparison/1"
SERVING_SCHEMA, TUNING_SCHEMA = "advisor.serving-comparison/1", "advisor.tuning-comparison/1"
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
# What an instance misses in a cell of a table, by the code of its shortfall: the figure and its limit.
_MISSED = {
    "users": "{held:,} of {users:,} users",
    "ttft": "TTFT {figure:,g} > {limit:,g} {unit}",
    "tpot": "TPOT {figure:,g} > {limit:,g} {unit}",
    "e2e": "request {figure:,g} > {limit:,g} {unit}",
    "latency": "p99 {ms:,g} > {limit:,g} ms",
    "too_slow": "{figure:rate} < {target:target}/s",
    "load": "{rate:,g} < {target:target} requests/s",
    "too_long": "{figure:hours} > {limit:hours}",
    "over_max_cost": "{figure:usd} > {limit:usd}",
    "over_max_price": "{usd:usd} > {limit:usd}/h",
    "slow_first_epoch": "1st epoch {hours:hours} > {most:hours}",
}
_REMARKS = (
    "-: no batch fits its memory, or no price is known. mean: geometric, where every network fits.",
    "These are GPUs alone, at the cheapest price of an instance over its GPUs. `advisor recommend`",
    "and `advisor predict` answer for whole instances.",
)
LanguagePrediction = ServingPrediction | TuningPrediction
AnyPrediction = InstancePrediction | LanguagePrediction


class Misfit(NamedTuple):
    """An instance that cannot do what is asked, and why."""

    instance: InstanceType
    why: Text


def misfit_rows(misfits: Sequence[Misfit]) -> list[dict[str, Any]]:
    """One record each, JSON-ready."""
    return [{"instance_type": each.instance.name, "why": each.why} for each in misfits]


def comparison_document(
    requests: Sequence[NetworkQuestion],
    baseline: str,
    rows: Sequence[Mapping[str, Any]],
    sources: Sources,
    misfits: Sequence[Misfit] = (),
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
        "cannot": misfit_rows(misfits),
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
            "run": run_block(answer.run, answer.usd_per_run),
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
    request: NetworkQuestion,
    answers: Sequence[InstancePrediction],
    baseline: InstancePrediction,
    misfits: Sequence[Misfit],
) -> str:
    """A table of one network, instances in the order asked."""
    title, english = f"{asked_of(request)}; {baseline.instance.name} is 1", report_texts("en")
    lower, median = _rate_headings(baseline.prediction.confidence)
    rates = [_rate_cells(answer.prediction) for answer in answers]
    runs = [
        (answer.run.hours.median, answer.usd_per_run.median if answer.usd_per_run else None)
        for answer in answers
        if answer.run
    ]
    columns = {
        "instance": [answer.instance.name for answer in answers],
        "gpu": [answer.instance.gpu_name or "-" for answer in answers],
        "disk": [disk_text(answer.disk) for answer in answers],
        "batch": [str(answer.workload.batch_size) for answer in answers],
        lower: [rate[0] for rate in rates],
        median: [rate[1] for rate in rates],
        f"x {baseline.instance.name}": [
            _times(relative(answer.prediction, baseline.prediction)) for answer in answers
        ],
        # What is free has no price here.
        "per hour": [usd_or_dash(answer.total_usd_per_hour or None) for answer in answers],
        "per 1M": [usd_or_dash(answer.usd_per_million_samples or None) for answer in answers],
        **(_of_runs(runs) if runs else {}),
        "bound by": [
            stage_name(str(answer.prediction.bottleneck), english, on_cpu=answer.instance.gpu_name is None)
            for answer in answers
        ],
        **_missed_column(answers),
    }
    spared = ("per 1M", "disk", f"x {baseline.instance.name}", "batch") if runs else ()
    return "\n".join([title, "", *_lines(columns, spared, misfits)])


def _lines(
    columns: Mapping[str, Sequence[str]], spared: Sequence[str], misfits: Sequence[Misfit]
) -> list[str]:
    """A table of instances that fits; what cannot run has a row of dashes, and says below why."""
    known = {
        "instance": [each.instance.name for each in misfits],
        "gpu": [each.instance.gpu_name or "-" for each in misfits],
    }
    cells = {name: [*column, *known.get(name, ["-"] * len(misfits))] for name, column in columns.items()}
    lines = fitting_table(cells, _LEFT, spared)
    why = [each.why for each in misfits]
    return [*lines, *(["", *wrapped("Left out", why, len(why))] if why else [])]


_LEFT = ("instance", "gpu", "disk", "runs as", "micro-batch", "bound by", "misses")


def _of_runs(runs: Sequence[tuple[float, float | None]]) -> dict[str, list[str]]:
    """How long a run takes and what it costs, at the median rate."""
    return {
        "run": [format_span(hours) for hours, _ in runs],
        "run costs": [usd_or_dash(usd) for _, usd in runs],
    }


def _missed_column(answers: Sequence[AnyPrediction], think_seconds: float = 0.0) -> dict[str, list[str]]:
    """What each instance misses, or may; nothing where none does."""
    missed = [
        ", ".join(
            _missed_text(text, answer, think_seconds)
            for text in answer.warnings
            if isinstance(text, Message) and is_miss(text)
        )
        for answer in answers
    ]
    return {"misses": [text or "-" for text in missed]} if any(missed) else {}


def _missed_text(warning: Message, answer: AnyPrediction, think_seconds: float) -> str:
    """'TPOT 97.4 > 50 ms': a limit with the figure that misses it, the bound where the median keeps it; of
    users those that the rates are of, in flight or thinking."""
    why = cast(Message, warning.parameters["why"])
    form, values = _MISSED.get(str(why.code), why.text), dict[str, Any](why.parameters)
    bounds = [values[name] for name in ("median", "upper", "lower", "rate") if name in values]
    if bounds:
        median, limit = bounds[0], values.get("limit", values.get("target"))
        keeps = median >= limit if "target" in values else median <= limit
        values["figure"] = bounds[-1] if keeps else median
        form = f"maybe {form}" if keeps else form
    if "held" in values and isinstance(answer, ServingPrediction):
        rates = answer.candidate.rates
        room = rates.concurrency + think_seconds * rates.requests_per_second.median
        values["held"] = min(round(room), values["users"])
    return str(Message(form, **values))


def notes_lines(answers: Sequence[AnyPrediction]) -> list[str]:
    """The location of each instance and the source of its price, and the assumptions and warnings of all
    of them; an instance that several networks are compared on is named once."""
    priced: dict[str, dict[str, None]] = {}
    for answer in answers:
        if text := _price_text(answer):
            priced.setdefault(text, {})[answer.instance.name] = None
    prices = [f"{', '.join(names)} {text}" for text, names in priced.items()]
    assumed, warned = (_by_instance(answers, name) for name in ("assumptions", "warnings"))
    return [
        *wrapped("Prices", prices, len(prices)),
        *wrapped("Assumed", assumed, 5),
        *wrapped("Warning", warned, 3),
    ]


def _by_instance(answers: Sequence[AnyPrediction], name: str) -> list[Text]:
    """Each remark of that name once, behind the instances that it is of unless it is of all; those of the
    fewest come first, as what all of them share may be cut. What a bare step would do is one remark."""
    order: dict[Text, int] = {}
    names: dict[Text, dict[str, None]] = {}
    bare: dict[str, None] = {}
    for answer in answers:
        for number, text in enumerate(getattr(answer, name)):
            if is_miss(text):  # has a column
                continue
            if isinstance(text, Message) and text.code == BARE_STEP:
                rate = format_rate(cast(float, text.parameters["rate"]))
                bare[f"{answer.instance.name} {rate}"] = None
                continue
            order[text] = number
            names.setdefault(text, {})[answer.instance.name] = None
    every = {answer.instance.name for answer in answers}
    steps = f"a typical training script; without loading data one GPU reaches, per second: {', '.join(bare)}"
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


def language_comparison_document(
    predictions: Sequence[LanguagePrediction],
    baseline: LanguagePrediction,
    request: ServingQuestion | TuningQuestion,
    sources: Sources,
    misfits: Sequence[Misfit],
) -> dict[str, Any]:
    """Instances that serve, or tune, beside each other; `relative` is the median over the baseline's."""
    blocks = {
        each.instance.name: tuning_block(each, request.confidence)
        if isinstance(each, TuningPrediction)
        else serving_block(each, request.confidence, sources)
        for each in predictions
    }
    first = blocks[baseline.instance.name]["predicted"]["throughput"]["median"]
    rows = [
        block
        | {
            "relative": block["predicted"]["throughput"]["median"] / first,
            "assumptions": list(each.assumptions),
            "warnings": list(each.warnings),
        }
        for each, block in zip(predictions, blocks.values(), strict=True)
    ]
    return {
        "schema": TUNING_SCHEMA if isinstance(request, TuningQuestion) else SERVING_SCHEMA,
        "request": question_document(request),
        "performance_model": sources.performance_model(),
        "catalog": sources.catalog(),
        "baseline": baseline.instance.name,
        "rows": rows,
        "cannot": misfit_rows(misfits),
    }


def language_comparison_text(
    predictions: Sequence[LanguagePrediction],
    baseline: LanguagePrediction,
    request: ServingQuestion | TuningQuestion,
    sources: Sources,
    misfits: Sequence[Misfit],
) -> str:
    """A table for a terminal."""
    document = language_comparison_document(predictions, baseline, request, sources, misfits)
    tunes = isinstance(request, TuningQuestion)
    rows = flat_rows(document["rows"], TUNING_COLUMNS if tunes else SERVING_COLUMNS)
    sure = ["-" if row["probability"] is None else percent(row["probability"]) for row in rows]
    columns = {
        "instance": [row["instance_type"] for row in rows],
        "gpu": [serving_gpus(each.instance) for each in predictions],
        ("micro-batch" if tunes else "runs as"): [_way_text(each) for each in predictions],
        f"{lower_name(request.confidence)} tokens/s": [lower_rate(row["throughput_lower"]) for row in rows],
        "median": [format_rate(row["throughput_median"]) for row in rows],
        **({} if tunes else _of_serving(rows)),
        f"x {baseline.instance.name}": [f"{row['relative']:.2f}" for row in rows],
        "per hour": [usd_or_dash(row["total_usd_per_hour"]) for row in rows],
        **(
            _of_runs([(row["hours_median"], row["usd_median"]) for row in rows])
            if tunes
            else {"per 1M out": [usd_or_dash(row["usd_per_million_output_tokens"]) for row in rows]}
        ),
        **({"sure": sure} if {*sure} != {"-"} else {}),
        **_missed_column(predictions, getattr(request, "think_seconds", 0.0)),
    }
    bound = _bound_by(predictions)
    shown = _lines(columns, (f"x {baseline.instance.name}", "per 1M out", "median", "TTFT"), misfits)
    notes = [*wrapped("Bound by", bound, len(bound)), *notes_lines(predictions)]
    return "\n".join([*folded(_title(baseline, request)), "", *shown, "", *notes])


def _title(baseline: LanguagePrediction, request: ServingQuestion | TuningQuestion) -> str:
    if isinstance(request, TuningQuestion):
        return f"{tuning_question_text(request, None)}; tokens/s of all GPUs."
    first = cast(GenerationCandidate, baseline.candidate)
    engine = f"{ENGINES.get(str(first.engine), str(first.engine))} {first.engine_version}"
    return f"{first.model} generation, {engine} with CUDA graphs; output tokens/s of all GPUs."


def _way_text(prediction: LanguagePrediction) -> str:
    """How the GPUs share the work: '2 x TP4'; of what tunes the sequences of a pass, '4, checkpointing'."""
    if not isinstance(prediction, TuningPrediction):
        return way_text(placement_block(prediction.candidate.placement))
    recomputes = ", checkpointing" if prediction.candidate.checkpointing else ""
    return f"{prediction.candidate.micro_batch}{recomputes}"


def _of_serving(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    return {
        "TTFT": [seconds_text(row["ttft_seconds"]) for row in rows],
        "TPOT": [seconds_text(row["tpot_seconds"]) for row in rows],
    }


def _bound_by(predictions: Sequence[LanguagePrediction]) -> list[str]:
    """'g6.xlarge, g5.xlarge reading the weights from GPU memory': of what serves."""
    binds: dict[str, dict[str, None]] = {}
    for each in predictions:
        if isinstance(each, ServingPrediction):
            binds.setdefault(BINDS[each.candidate.binds], {})[each.instance.name] = None
    return [f"{', '.join(names)} {what}" for what, names in binds.items()]


def _rate_headings(confidence: float) -> list[str]:
    """['p10/s', 'median/s']: headings of a lower bound and a median."""
    return [f"{lower_name(confidence)}/s", "median/s"]


def _rate_cells(prediction: Prediction) -> list[str]:
    return [lower_rate(prediction.lower), format_rate(prediction.median)]
