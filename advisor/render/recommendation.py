"""Recommendation -> one screen of plain text: at most 100 columns and 27 lines."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from advisor.domain import (
    Candidate,
    Change,
    CloseCall,
    CloseCallKind,
    Recommendation,
    Request,
    computes_on_cpu,
)
from advisor.naming import others_text, place_name, place_texts, price_words, rejection_text, spec_name
from advisor.rejections import counted_reasons
from advisor.render.blocks import rate_unit
from advisor.render.close_calls import verify_command
from advisor.render.document import Sources
from advisor.render.price_calls import price_lines, resting_lines
from advisor.render.text import (
    INDENT,
    WIDTH,
    alternatives_title,
    asked_lines,
    basis_lines,
    beside,
    bottleneck_text,
    cores_text,
    cost_line,
    first_epoch_lines,
    fitting_table,
    folded_command,
    gpus_lines,
    interval_text,
    latency_lines,
    lower_name,
    lower_text,
    nodes_lines,
    other_setting_lines,
    price_text,
    priced_table,
    rate_cells,
    rate_columns,
    run_lines,
    short_disk_text,
    short_gpu_text,
    spec_lines,
    table,
    terms_lines,
    wrapped,
)
from advisor.units import format_hours, format_mib, format_target, format_usd

if TYPE_CHECKING:
    from advisor.domain.live import LiveCheck, LiveChecked  # few answers have any

LINES = 27
SHOWN_ALTERNATIVES = 3
SHOWN_REJECTED = 3
SHOWN_FRONT = 4
LONG_FRONT = 20
SHOWN_SETTINGS = 2
# The borderline candidate is the first of the three next-cheaper ones.
REJECTED_BESIDE_BORDERLINE = 2
# What is free has no logarithm.
_LEAST_USD = 1e-6


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
        head = [
            *resting_lines(answer),
            *_headline(answer.request, chosen, sources),
            *_facts(answer, chosen),
            *price_lines(answer),
        ]
    head += borderline + _relaxations(answer)
    shown = SHOWN_ALTERNATIVES if specs is None else max(0, specs - 1)
    head += _alternatives(answer.ranked[: 1 + shown], answer)
    others = others_text(answer.request, len(answer.ranked))
    if others and (specs is not None or len(answer.ranked) == 1):
        head += ["", f"{str(others).capitalize()}."]
    front = _front(answer, LONG_FRONT if answer.request.pareto else SHOWN_FRONT)
    foot = _live_lines(answer.live) + wrapped("Assumed", answer.assumptions, 2)
    foot += wrapped("Warning", answer.warnings, 2 if front else 3)
    most = REJECTED_BESIDE_BORDERLINE if borderline else SHOWN_REJECTED
    most -= bool(answer.other_settings)
    asked_for = max(0, shown - SHOWN_ALTERNATIVES)
    room = LINES + asked_for - len(head) - len(foot) - 2
    if front:
        most = 0  # it tells more of what is cheaper
        front = front if all_rejected else [*front, ""]
    rejected = _every_rejection(answer) if all_rejected else _rejections(answer, most, room)
    return "\n".join(head + front + rejected + foot)


def _headline(request: Request, chosen: Candidate, sources: Sources) -> list[str]:
    spec = chosen.spec
    priced = price_text(spec.offer.market, spec.offer.price)
    return [
        *basis_lines(chosen.prediction, priced, sources.model_id),
        "",
        *spec_lines(spec, f"{place_name(spec.offer, request)}, {spec.offer.market}"),
    ]


def _facts(answer: Recommendation, chosen: Candidate) -> list[str]:
    instance, prediction, request = chosen.spec.offer.instance, chosen.prediction, answer.request
    gpu = ""
    if instance.gpu_name:
        memory = format_mib(instance.gpu_memory_mib) if instance.gpu_memory_mib else "? memory"
        gpu = f"{instance.gpu_count} x {instance.gpu_name} {memory}, "
    unit = rate_unit(chosen.workload.dataset)
    on_cpu = computes_on_cpu(instance, chosen.workload)
    return [
        *asked_lines(request, chosen.workload),
        f"  has         {gpu}{cores_text(instance)}, {format_mib(instance.memory_mib)} RAM",
        f"  throughput  {interval_text(prediction, unit)}",
        *_sharing_lines(chosen),
        *latency_lines(chosen.latency, prediction.confidence),
        *first_epoch_lines(chosen.first_epoch, chosen.run, prediction.confidence),
        *run_lines(request, chosen.run, chosen.usd_per_run, prediction.confidence, chosen.spec.prices),
        cost_line(chosen.usd_per_million_samples, chosen.spec.offer.price, chosen.spec.disk),
        *terms_lines(chosen.spec.offer.price),
        f"  bound by    {bottleneck_text(prediction, on_cpu=on_cpu)}",
        *other_setting_lines(answer.other_settings, prediction, SHOWN_SETTINGS),
    ]


def _sharing_lines(chosen: Candidate) -> list[str]:
    """What each of several instances reaches, and what each of several GPUs keeps."""
    spec, lines = chosen.spec, gpus_lines(chosen.prediction)
    if spec.count > 1:
        each = interval_text(chosen.prediction.times(1 / spec.count), rate_unit(chosen.workload.dataset))
        usd = format_usd(spec.usd_per_hour_each)
        lines.append(f"  each of {spec.count:<3} {each}, {usd}/h")
        lines += nodes_lines(chosen)
    return lines


def _alternatives(ranked: Sequence[Candidate], answer: Recommendation) -> list[str]:
    """All but the first, which stands above; with regions where they differ."""
    shown = ranked[1:]
    if not shown:
        return []
    title = alternatives_title(len(shown), len(answer.ranked), answer.request.max_results)
    costs = [_rate_and_cost(candidate) for candidate in shown]
    rates = rate_columns(shown[0].prediction.confidence)
    names = [rates[0], "run takes", "per run"] if shown[0].run else [*rates, "per 1M"]
    columns = {
        title: [f"  {candidate.spec.name}" for candidate in shown],
        "gpu": [short_gpu_text(candidate) for candidate in shown],
        "disk": [short_disk_text(candidate.spec.disk) for candidate in shown],
        "per hour": [format_usd(candidate.spec.total_usd_per_hour) for candidate in shown],
        **dict(zip(names, zip(*costs, strict=True), strict=True)),
        "region": place_texts(ranked, answer.request, answer.today)[1:],
        "bound by": [str(candidate.prediction.bottleneck) for candidate in shown],
    }
    if not columns["region"]:
        del columns["region"]
    left = [name for name in columns if name not in ("per hour", *names)]
    # What ranks them stays; what has no room is left out.
    return ["", *fitting_table(columns, left, ("bound by", "gpu", "disk"))]


def _with_cells(rows: Sequence[list[str]], cells: Sequence[str]) -> list[list[str]]:
    return [[*row, cell] for row, cell in zip(rows, cells, strict=True)]


def _rate_and_cost(candidate: Candidate) -> list[str]:
    """The lower bound; then median hours and dollars of the run, else the median rate and the cost
    by samples."""
    lower, median = rate_cells(candidate.prediction)
    if candidate.run and candidate.usd_per_run:
        return [lower, format_hours(candidate.run.hours.median), format_usd(candidate.usd_per_run.median)]
    return [lower, median, format_usd(candidate.usd_per_million_samples)]


def _front(answer: Recommendation, most: int) -> list[str]:
    """The Pareto front of price and rate: the cheapest, the fastest, and what lies between."""
    if len(answer.pareto) < 2:
        return []
    shown = thinned(answer.pareto, most)
    if answer.chosen not in shown:  # the reader looks for it
        shown = thinned(answer.pareto, most - 1)
        shown = [one for one in answer.pareto if one is answer.chosen or one in shown]
    lower = f"{lower_name(shown[0].prediction.confidence)}/s"
    title = f"Pareto front ({len(shown)} of {len(answer.pareto)})"
    header = [title, "gpu", "disk", "batch", "per hour", lower, "per 1M"]
    rows = [
        [
            f"  {candidate.spec.offer.instance.name}",
            short_gpu_text(candidate),
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
        header, rows = [*header, "region"], _with_cells(rows, places)
    return ["", *table(header, rows, right=range(3, 7))]


def thinned(front: Sequence[Candidate], most: int) -> list[Candidate]:
    """At most so many of a front, about the same ratio of prices apart; the ends stay."""
    if len(front) <= most:
        return list(front)
    logs = [math.log(max(point.spec.total_usd_per_hour, _LEAST_USD)) for point in front]
    step = (logs[-1] - logs[0]) / (most - 1)
    marks = [logs[0] + step * number for number in range(most - 1)]
    kept = {next(at for at, log in enumerate(logs) if log >= mark) for mark in marks}
    return [front[at] for at in sorted({*kept, len(front) - 1})]


def _relaxations(answer: Recommendation) -> list[str]:
    """What would make something answer, where nothing does."""
    if not answer.relaxations:
        return []
    most = max(len(relaxation.changes) for relaxation in answer.relaxations)
    titles = {1: "One change would do", 2: "Two changes would do"}
    title = titles.get(most, "No two changes would do; together these")
    rows = [
        [
            "  " + " ".join(map(_change_text, relaxation.changes)),
            str(spec_name(relaxation.gives.spec, answer.request)),
            format_usd(relaxation.gives.spec.total_usd_per_hour),
            lower_text(relaxation.gives.prediction.lower),
        ]
        for relaxation in answer.relaxations
    ]
    lower = f"{lower_name(answer.request.confidence)}/s"
    gives = [relaxation.gives for relaxation in answer.relaxations]
    prices = price_words(gives, answer.request, answer.today)
    return ["", *priced_table([title, "gives", "per hour", lower], rows, prices, right=(2, 3))]


def _change_text(change: Change) -> str:
    """'--max-price 1.014', as it is typed."""
    return f"{change.option} {change.after}" if change.after else f"no {change.option}"


def _borderline_lines(answer: Recommendation) -> list[str]:
    """The borderline candidate that matters most and the command of its trial."""
    if not answer.close_calls:
        return []
    first = answer.close_calls[0]
    trial = f"about {format_usd(first.trial_usd)}, {first.trial_minutes:g} min"
    text = f"{_borderline_text(answer.request, first)}. One trial settles it ({trial}):"
    command = folded_command(verify_command(answer.request, first.candidate), WIDTH - INDENT)
    return beside("borderline", [*textwrap.wrap(text, WIDTH - INDENT), *command])


def _borderline_text(request: Request, call: CloseCall) -> str:
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


def _every_rejection(answer: Recommendation) -> list[str]:
    shown, counts = answer.nearest_rejected(), counted_reasons(answer.rejected_by_reason)
    lines = [rejection_text(rejected, answer.request) for rejected in shown]
    title = f"Rejected {len(shown):,}: {counts}"
    return ["", *textwrap.wrap(title, WIDTH, subsequent_indent="  "), *lines] if shown else []


def _rejections(answer: Recommendation, most: int, room: int) -> list[str]:
    """The nearest ones that would cost less: `most` of them, in `room` lines."""
    chosen, shown = answer.chosen, answer.nearest_rejected()
    title = f"Rejected: {counted_reasons(answer.rejected_by_reason)}"
    if chosen is not None:
        limit = chosen.spec.total_usd_per_hour
        shown = [
            rejected
            for rejected in shown
            if rejected.usd_per_hour is not None and rejected.usd_per_hour < limit
        ]
        title = f"Cheaper, but rejected ({len(shown):,}; nearest in price first)"
    above = {call.candidate.spec.offer.instance.name for call in answer.close_calls[:1]}
    lines: list[str] = []
    for rejected in [row for row in shown if row.instance_type not in above][:most]:
        more = textwrap.wrap(rejection_text(rejected, answer.request), WIDTH, subsequent_indent="    ")
        if len(lines) + len(more) <= room:
            lines += more
    return ["", *textwrap.wrap(title, WIDTH, subsequent_indent="  "), *lines] if lines else []


def _live_lines(check: LiveCheck | None) -> list[str]:
    """Each type of which the cloud gave a price or an offer."""
    if check is None:
        return []
    known = [checked for checked in check.checked if checked.answer.told or checked.offered is not None]
    return wrapped("Live", [_live_text(checked) for checked in known], 3)


def _live_text(checked: LiveChecked) -> str:
    """'g4dn.xlarge $0.526/h (as known), offered, quota 8 vCPUs'."""
    offered = {True: "offered", False: "no longer offered", None: "offer not confirmed"}
    name = f"{checked.answer.instance_type} {_live_price(checked)}"
    parts = [name, offered[checked.offered]]
    if checked.vcpu_quota is not None:
        parts.append(f"quota {checked.vcpu_quota:g} vCPUs")
    return ", ".join(parts)


def _live_price(checked: LiveChecked) -> str:
    now, before = checked.answer.told, checked.answer.before
    if now is None:
        return "price not verified"
    if before is None:
        return f"{format_usd(now.usd_per_hour)}/h (unknown before)"
    was = f"was {format_usd(before.usd_per_hour)}" if checked.answer.changed else "as known"
    return f"{format_usd(now.usd_per_hour)}/h ({was})"
