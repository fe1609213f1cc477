"""Answers about networks: a recommendation as text of at most 100 columns and 27 lines, and what one
instance or one GPU does, as text and as a document."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from advisor.domain import (
    BatchPoint,
    Candidate,
    CloseCall,
    CloseCallKind,
    InstancePrediction,
    OnGpu,
    OtherSetting,
    Prediction,
    Recommendation,
    Stage,
    Workload,
    computes_on_cpu,
)
from advisor.messages import Message
from advisor.naming import asked_of, covers_clouds, others_text, place_texts, spec_name
from advisor.questions.documents import question_document
from advisor.questions.network import NetworkQuestion
from advisor.render.borderline import other_calls, trial_of, verify_command
from advisor.render.document import Sources
from advisor.render.price_doubt import price_lines, resting_lines
from advisor.render.records import (
    batch_point_block,
    bounds,
    candidate_block,
    disk_block,
    first_epoch_block,
    gpu_prediction_block,
    instance_block,
    notes_text,
    other_setting_blocks,
    prediction_block,
    price_block,
    rate_unit,
    run_block,
)
from advisor.render.sentences import risk_text
from advisor.render.text import (
    INDENT,
    SHOWN_ALTERNATIVES,
    WIDTH,
    alternative_lines,
    beside,
    borderline_lines,
    decision_lines,
    fact,
    fact_lines,
    folded,
    hourly_lines,
    lower_name,
    lower_text,
    price_ends,
    price_text,
    range_text,
    rejection_lines,
    relaxation_lines,
    short_disk_text,
    spec_lines,
    table,
    throughput_message,
    wrapped,
)
from advisor.render.views.specs import network_facts
from advisor.units import ceil_ms, format_hours, format_mib, format_rate, format_target, format_usd

if TYPE_CHECKING:
    from advisor.domain.live import LiveCheck, LiveChecked  # few answers have any

SCHEMA = "advisor.prediction/1"
GPU_SCHEMA = "advisor.gpu-prediction/1"
LINES = 27
SHOWN_REJECTED = 3
SHOWN_FRONT = 4
LONG_FRONT = 20
SHOWN_SETTINGS = 2
# The borderline candidate is the first of the three next-cheaper ones.
REJECTED_BESIDE_BORDERLINE = 2
PROVENANCE = {
    "measured": "Measured rate",
    "published": "Published rate of this GPU",
    "modelled": "Modelled, not measured",
}
# What is free has no logarithm.
_LEAST_USD = 1e-6
# Smaller changes by another setting are none.
_NOTHING_PERCENT = 0.5
_NO_LOSS = 1 - _NOTHING_PERCENT / 100
_OWN_BATCH = "amp"


def recommendation_text(
    answer: Recommendation, sources: Sources, *, all_rejected: bool = False, specs: int | None = None
) -> str:
    """The answer for a terminal, on one screen but for what is asked for: `all_rejected` lists
    every rejected type, `specs` so many specs; a front of price and rate that was asked for is
    longer than one that comes without a target.
    """
    chosen, borderline = answer.chosen, _borderline_lines(answer)
    head = ["No offer meets this."]
    if chosen is not None:
        priced = price_text(chosen.spec.offer.market, chosen.spec.offer.price)
        head = [
            *resting_lines(answer),
            *_basis_lines(chosen.prediction, priced, sources),
            *spec_lines(chosen.spec, answer.request),
            *_facts(answer, chosen),
            *_decision_lines(answer),
            *price_lines(answer),
        ]
    head += borderline + _relaxations(answer)
    shown = SHOWN_ALTERNATIVES if specs is None else max(0, specs - 1)
    left = ("gpu", "disk", "bound by")
    # What ranks them stays; what has no room is left out.
    head += alternative_lines(answer, shown, _alternative_columns, ("bound by", "gpu", "disk"), left)
    others = others_text(answer.request, len(answer.ranked))
    if others and (specs is not None or len(answer.ranked) == 1):
        head += ["", f"{str(others).capitalize()}."]
    front = _front(answer, LONG_FRONT if answer.request.pareto else SHOWN_FRONT)
    foot = _live_lines(answer.live) + wrapped("Assumed", answer.assumptions, 2)
    foot += wrapped("Warning", answer.warnings, 2 if front else 3)
    most = REJECTED_BESIDE_BORDERLINE if borderline else SHOWN_REJECTED
    most -= bool(answer.other_settings)
    if front:
        most = 0  # it tells more of what is cheaper
    rejected = rejection_lines(
        answer,
        most,
        everyone=all_rejected,
        named_above=[call.candidate.spec.offer.instance.name for call in other_calls(answer)[:1]],
        room=LINES + max(0, shown - SHOWN_ALTERNATIVES) - len(head) - len(foot) - 3,
        total=False,
    )
    return "\n".join([*head, *front, *rejected, "", *foot])


def _basis_lines(prediction: Prediction, priced: str, sources: Sources) -> list[str]:
    """'Published rate of this GPU; low risk (1 of 4); .. price of ..; predictor 1a2b3c4d.'"""
    known = (PROVENANCE[str(prediction.provenance)], risk_text(prediction), priced)
    text = "; ".join(filter(None, [*known, f"predictor {sources.model_id[:8]}."]))
    return textwrap.wrap(text, WIDTH)


def _facts(answer: Recommendation, chosen: Candidate) -> list[str]:
    network = chosen.node_network
    efa = network is not None and network.takes_several_cards
    facts = network_facts(candidate_block(chosen), question_document(answer.request), efa=efa)
    return [
        *_asked_lines(answer.request, chosen.workload),
        *fact_lines(facts),
        _bound_line(chosen.prediction, on_cpu=computes_on_cpu(chosen.spec.offer.instance, chosen.workload)),
        *_setting_lines(answer.other_settings, chosen.prediction, SHOWN_SETTINGS),
    ]


def _asked_lines(request: NetworkQuestion, workload: Workload | None) -> list[str]:
    """'  for         resnet50 inference, batch 64, amp, images of 224 x 224 pixels'."""
    text = str(asked_of(request, workload, rate_unit(request.dataset)))
    return beside("for", textwrap.wrap(text, WIDTH - INDENT, break_on_hyphens=False))


def _bound_line(prediction: Prediction, *, on_cpu: bool) -> str:
    """The binding stage, and how far each stage is used; `on_cpu`: the CPU is the accelerator."""
    names = {stage: str(stage) for stage in Stage}
    if on_cpu:
        names[Stage.ACCELERATOR] = "computing on the CPU"
    used = sorted(prediction.utilization.items(), key=lambda item: -item[1])
    shares = ", ".join(f"{names[stage]} {share:.0%}" for stage, share in used)
    return fact("bound by", f"{names[prediction.bottleneck]} (used: {shares})")


def _setting_lines(
    settings: Sequence[OtherSetting], before: Prediction, most: int | None = None
) -> list[str]:
    """A line for each setting that does not slow the whole down, or for the `most` best ones. 16
    bits, whose best batch is another one, are named even where they do at this batch."""
    useful = [setting for setting in settings if _may_help(setting)]
    best = sorted(useful, key=_most_useful)[::-1]
    shown = [setting for setting in useful if setting in best[:most]]
    return folded("could try", (f"{_gpu_gain(setting)}, {_here(setting, before)}" for setting in shown))


def _most_useful(setting: OtherSetting) -> tuple[bool, float, float]:
    return setting.instead is not None, setting.gain, setting.gpu_gain.median


def _may_help(setting: OtherSetting) -> bool:
    return setting.instead is not None or setting.gain > _NO_LOSS or setting.name == _OWN_BATCH


def _gpu_gain(setting: OtherSetting) -> str:
    gain, measured = setting.gpu_gain, "" if setting.measured else ", not measured"
    between = f"({gain.lower:.2f} to {gain.upper:.2f}{measured})"
    return f"{setting.name}: GPU {gain.median:.2f} times as fast {between}"


def _here(setting: OtherSetting, before: Prediction) -> str:
    """'here +4.2 %, then bound by host'; 'here nothing: bound by host'; 'with it g6.xlarge does it at
    $0.8049/h'."""
    percent, binds = 100 * (setting.gain - 1), setting.prediction.bottleneck
    if setting.instead is not None:
        spec = setting.instead.spec
        return f"with {setting.option} {spec.name} does it at {format_usd(spec.total_usd_per_hour)}/h"
    if setting.gain <= _NO_LOSS:
        return f"here slower at this batch; {setting.option} also tries others"
    if abs(percent) < _NOTHING_PERCENT:
        return f"here nothing: bound by {binds}"
    then = "" if binds is before.bottleneck else f", then bound by {binds}"
    digits = "+.0f" if abs(percent) >= 10 else "+.2g"
    return f"here {percent:{digits}} %{then}"


def rate_columns(confidence: float) -> list[str]:
    """['p10/s', 'median/s']: headings of a lower bound and a median."""
    return [f"{lower_name(confidence)}/s", "median/s"]


def rate_cells(prediction: Prediction) -> list[str]:
    """The cells below `rate_columns`."""
    return [lower_text(prediction.lower), format_rate(prediction.median)]


def _alternative_columns(shown: Sequence[Candidate], places: list[str]) -> dict[str, list[str]]:
    """Behind the names; the lower bound with hours and dollars of a run, else with the median rate
    and the cost by samples."""
    lower, median = rate_columns(shown[0].prediction.confidence)
    runs = [(candidate.run, candidate.usd_per_run) for candidate in shown]
    columns = {
        "gpu": [_short_gpu_text(candidate) for candidate in shown],
        "disk": [short_disk_text(candidate.spec.disk) for candidate in shown],
        "per hour": [format_usd(candidate.spec.total_usd_per_hour) for candidate in shown],
        lower: [lower_text(candidate.prediction.lower) for candidate in shown],
    }
    if shown[0].run:
        columns["run takes"] = [format_hours(run.hours.median) if run else "" for run, _ in runs]
        columns["per run"] = [format_usd(usd.median) if usd else "" for _, usd in runs]
    else:
        columns[median] = [format_rate(candidate.prediction.median) for candidate in shown]
        columns["per 1M"] = [format_usd(candidate.usd_per_million_samples) for candidate in shown]
    bound = [str(candidate.prediction.bottleneck) for candidate in shown]
    return {**columns, "region": places, "bound by": bound}


def _short_gpu_text(candidate: Candidate) -> str:
    """'H100' of an H100-SXM5-80GB; a dash where there is none."""
    return (candidate.spec.offer.instance.gpu_name or "").partition("-")[0] or "-"


def _front(answer: Recommendation, most: int) -> list[str]:
    """The Pareto front of price and rate: the cheapest, the fastest, and what lies between."""
    if len(answer.pareto) < 2:
        return []
    shown = thinned(answer.pareto, most)
    if answer.chosen not in shown:  # the reader looks for it
        shown = thinned(answer.pareto, most - 1)
        shown = [point for point in answer.pareto if point is answer.chosen or point in shown]
    lower = f"{lower_name(shown[0].prediction.confidence)}/s"
    title = f"Pareto front ({len(shown)} of {len(answer.pareto)})"
    header = [title, "gpu", "disk", "batch", "per hour", lower, "per 1M"]
    rows = [
        [
            f"  {candidate.spec.offer.instance.name}",
            _short_gpu_text(candidate),
            short_disk_text(candidate.spec.disk),
            str(candidate.workload.batch_size),
            format_usd(candidate.spec.total_usd_per_hour),
            lower_text(candidate.prediction.lower),
            format_usd(candidate.usd_per_million_samples),
        ]
        for candidate in shown
    ]
    places = place_texts(shown, answer.request, answer.today)
    if places:
        header, rows = [*header, "region"], [[*row, name] for row, name in zip(rows, places, strict=True)]
    return ["", *table(header, rows, right=range(3, 7))]


def thinned(front: Sequence[Candidate], most: int) -> list[Candidate]:
    """At most so many of a front, about the same ratio of prices apart; the ends stay."""
    if len(front) <= most:
        return list(front)
    logs = [math.log(max(point.spec.total_usd_per_hour, _LEAST_USD)) for point in front]
    step = (logs[-1] - logs[0]) / (most - 1)
    marks = [logs[0] + step * number for number in range(most - 1)]
    kept = {next(number for number, log in enumerate(logs) if log >= mark) for mark in marks}
    return [front[number] for number in sorted({*kept, len(front) - 1})]


def _relaxations(answer: Recommendation) -> list[str]:
    most = max((len(relaxation.changes) for relaxation in answer.relaxations), default=0)
    titles = {1: "One change would do", 2: "Two changes would do"}
    title = titles.get(most, "No two changes would do; together these")
    cell = 0 if answer.request.is_sure else 1
    return relaxation_lines(answer, title, " ", lambda gives: rate_cells(gives.prediction)[cell])


def _borderline_lines(answer: Recommendation) -> list[str]:
    """The borderline candidate that matters most and the command of its trial."""
    calls, request = other_calls(answer), answer.request
    if not calls:
        return []
    text, command = _borderline_text(request, calls[0]), verify_command(request, calls[0].candidate)
    return borderline_lines(text, calls[0], "", command)


def _decision_lines(answer: Recommendation) -> list[str]:
    call = trial_of(answer)
    return decision_lines(answer, "", verify_command(answer.request, call.candidate) if call else "")


def _borderline_text(request: NetworkQuestion, call: CloseCall) -> str:
    spec, target = call.candidate.spec, format_target(request.target_throughput or 0.0)
    name = f"{spec_name(spec, request)} at {format_usd(spec.total_usd_per_hour)}/h"
    chance, miss = f"{100 * call.probability:.0f} %", f"{100 * (1 - call.probability):.0f} %"
    if call.saves_usd_per_hour is None:
        return f"{name} may reach {target}/s ({chance})"
    over = format_usd(call.saves_usd_per_hour * request.horizon_hours)
    money = f"{format_usd(call.saves_usd_per_hour)}/h ({over} in {request.horizon_hours:,g} h)"
    if call.saves_usd_per_run is not None:
        money = f"{format_usd(call.saves_usd_per_run)} a run"
    if call.kind is CloseCallKind.CHEAPER_MAY_REACH:
        return f"{name} may reach {target}/s too ({chance}), saving {money}"
    assert call.instead is not None
    safer = spec_name(call.instead.spec, request)
    return f"it may miss {target}/s ({miss}); {safer} is much safer and costs {money} more"


def _live_lines(check: LiveCheck | None) -> list[str]:
    if check is None:
        return []
    known = [checked for checked in check.checked if checked.answer.price or checked.offered is not None]
    return wrapped("Live", [_live_text(checked) for checked in known], 3)


def _live_text(checked: LiveChecked) -> str:
    """'g4dn.xlarge $0.526/h (as known), offered, quota 8 vCPUs'."""
    now, before = checked.answer.price, checked.answer.before
    price = "price not verified"
    if now is not None:
        was = "unknown before"
        if before is not None:
            was = f"was {format_usd(before.usd_per_hour)}" if checked.answer.changed else "as known"
        price = f"{format_usd(now.usd_per_hour)}/h ({was})"
    offered = {True: "offered", False: "no longer offered", None: "offer not confirmed"}
    quota = [] if checked.vcpu_quota is None else [f"quota {checked.vcpu_quota:g} vCPUs"]
    return ", ".join([f"{checked.answer.instance_type} {price}", offered[checked.offered], *quota])


def prediction_document(
    request: NetworkQuestion,
    answer: InstancePrediction,
    sources: Sources,
    explanation: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """JSON-ready values but for messages; `price` is null where none is known."""
    price = answer.price and {
        **price_block(answer.price),
        "disk_usd_per_hour": answer.disk.usd_per_hour,
        "total_usd_per_hour": answer.total_usd_per_hour,
    }
    return {
        "schema": SCHEMA,
        "asked": asked_of(request),
        "request": question_document(request),
        "performance_model": sources.performance_model(),
        "catalog": sources.catalog(),
        **instance_block(answer.instance),
        "disk": disk_block(answer.disk),
        "region": answer.region,
        "price": price,
        **prediction_block(answer.workload, answer.prediction),
        "cost": {"usd_per_million_samples": answer.usd_per_million_samples},
        "run": run_block(answer.run, answer.usd_per_run),
        "first_epoch_hours": first_epoch_block(answer.first_epoch),
        "good_batch_size": answer.good_batch_size,
        "by_batch": [batch_point_block(point) for point in answer.by_batch],
        "other_settings": other_setting_blocks(answer.other_settings),
        "note": notes_text(answer.notes),
        "assumptions": list(answer.assumptions),
        "warnings": list(answer.warnings),
        "explanation": explanation,
    }


# Of one instance: what it has stands in the catalogue.
_PREDICTED = ("throughput", "GPUs", "cost", "terms", "first epoch", "run", "run costs")


def prediction_text(request: NetworkQuestion, answer: InstancePrediction, sources: Sources) -> str:
    """A few lines for a terminal."""
    prediction, price, usd = answer.prediction, answer.price, answer.total_usd_per_hour
    prices = tuple(filter(None, (price, answer.disk.price))) if price else ()
    total = "no price" if usd is None else f"{format_usd(usd)}/h"
    cloud = f"{answer.instance.cloud} " if covers_clouds(request) else ""
    where = f"{cloud}{answer.region}, {request.market}" if answer.region else ""
    spec = prediction_document(request, answer, sources)
    if answer.run and answer.usd_per_run:
        ends = price_ends(prices)
        median = answer.usd_per_run.median / sum(known.usd_per_hour for known in prices)
        spec["run"]["usd_by_price"] = {"low": median * ends[0], "high": median * ends[1]}
    facts = {title.text: (title, text) for title, text in network_facts(spec, spec["request"])}
    lines = [
        *_basis_lines(prediction, price_text(request.market, price) if price else "", sources),
        "",
        *hourly_lines(answer.instance.name, answer.disk, total, range_text(prices), where),
        *_asked_lines(request, answer.workload),
        *fact_lines(facts[title] for title in _PREDICTED if title in facts),
        _bound_line(prediction, on_cpu=computes_on_cpu(answer.instance, answer.workload)),
        *_setting_lines(answer.other_settings, prediction),
        *(fact("note", str(text)) for text in (*answer.notes, *prediction.extrapolation)),
        *_batch_lines(answer),
        "",
        *wrapped("Assumed", answer.assumptions, 2),
        *wrapped("Warning", answer.warnings, 3),
    ]
    return "\n".join(lines)


def _batch_lines(answer: InstancePrediction) -> list[str]:
    """A table over batch sizes; none where there is but one."""
    if len(answer.by_batch) < 2:
        return []
    timed = any(point.latency for point in answer.by_batch)
    header = ["  batch", *rate_columns(answer.prediction.confidence)]
    header += ["p50 ms", "p99 ms"] if timed else []
    rows = [[str(point.batch_size), *_point_cells(point)] for point in answer.by_batch]
    enough = f"  batch {answer.good_batch_size} is the smallest within 5 % of the best lower bound"
    return ["", *table([*header, "bound by"], rows, right=range(len(header))), enough]


def _point_cells(point: BatchPoint) -> list[str]:
    latency = point.latency
    times = [latency.p50_seconds, latency.p99_seconds] if latency else []
    milliseconds = [f"{ceil_ms(seconds):,g}" for seconds in times]
    return [*rate_cells(point.prediction), *milliseconds, str(point.prediction.bottleneck)]


def gpu_prediction_document(
    request: NetworkQuestion, answer: OnGpu, sources: Sources, assumptions: Sequence[Message | str]
) -> dict[str, Any]:
    """The prediction of a GPU with the samples on the device; `predicted` is null where no batch fits."""
    return {
        "schema": GPU_SCHEMA,
        "asked": asked_of(request),
        "request": question_document(request),
        "performance_model": sources.performance_model(),
        "catalog": sources.catalog(),
        "gpu": {"name": answer.gpu.name, "memory_mib": answer.gpu.memory_mib, "sources": answer.gpu.sources},
        "fits": answer.workload is not None,
        **gpu_prediction_block(answer.workload, answer.prediction),
        "other_settings": other_setting_blocks(answer.other_settings),
        "assumptions": list(assumptions),
    }


def gpu_prediction_text(
    request: NetworkQuestion, answer: OnGpu, sources: Sources, assumptions: Sequence[Message | str]
) -> str:
    """A few lines for a terminal."""
    title = f"{answer.gpu.name}, {format_mib(answer.gpu.memory_mib)}   samples on the device"
    workload, prediction = answer.workload, answer.prediction
    if workload is None or prediction is None:
        none = fact("throughput", "-: no batch fits its memory")
        return "\n".join([title, *_asked_lines(request, None), none])
    rates = throughput_message(bounds(prediction), rate_unit(workload.dataset), prediction.confidence)
    lines = [
        *_basis_lines(prediction, "", sources),
        "",
        title,
        *_asked_lines(request, workload),
        fact("throughput", str(rates)),
        *folded("could try", map(_gpu_gain, answer.other_settings)),
        *(fact("note", str(text)) for text in prediction.extrapolation),
        "",
        *wrapped("Assumed", assumptions, len(assumptions)),
        "This is the GPU alone. `--instance` predicts an instance that has it.",
    ]
    return "\n".join(lines)
