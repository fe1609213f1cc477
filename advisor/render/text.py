"""Recommendation -> one screen of plain text: at most 100 columns and 25 lines."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from advisor.domain import (
    FREE,
    LIST,
    Candidate,
    Disk,
    Market,
    Prediction,
    Price,
    Recommendation,
    Stage,
    computes_on_cpu,
)
from advisor.render.close_calls import close_call_lines
from advisor.render.document import Sources, rate_unit
from advisor.render.other_settings import MOST_BESIDE_OTHERS, other_setting_lines
from advisor.render.pareto import (
    COLUMNS,
    TITLE,
    pareto_rows,
    short_disk_text,
    short_gpu_text,
    thinned,
)
from advisor.render.places import place_texts
from advisor.render.rejections import rejection_lines
from advisor.render.relaxing import relax_rows, relax_title
from advisor.render.risk import risk_text
from advisor.render.runs import run_lines
from advisor.units import ceil_ms, floor_rate, format_hours, format_mib, format_rate, format_usd

WIDTH = 100
LINES = 25
SHOWN_ALTERNATIVES = 5
SHOWN_REJECTED = 3
SHOWN_FRONT = 4
LONG_FRONT = 20
# The spec of a close call is the first of the three next-cheaper ones.
REJECTED_BESIDE_CLOSE_CALL = 2

# For a column of a table.
SHORT_PROVENANCE = {name: name for name in ("measured", "published", "modelled")}

PROVENANCE = {
    "measured": "Measured rate",
    "published": "Published rate of this GPU",
    "modelled": "Modelled rate, not measured",
}


def recommendation_text(
    answer: Recommendation,
    sources: Sources,
    *,
    all_rejected: bool = False,
    specs: int | None = None,
) -> str:
    """The answer for a terminal, on one screen but for what is asked for: `all_rejected` lists
    every passed-over type, `specs` so many specs; a front of price and rate that was asked for is
    longer than one that comes without a target.
    """
    chosen, close = answer.chosen, close_call_lines(answer, WIDTH)
    head = ["No offer meets this."]
    if chosen is not None:
        head = _headline(chosen, sources) + _facts(answer, chosen)
    head += close + _relaxed(answer)
    pareto = answer.request.pareto
    front = _front(answer, LONG_FRONT if pareto else SHOWN_FRONT)
    foot = _live(answer) + wrapped("Assumed", answer.assumptions, 2)
    foot += wrapped("Warning", answer.warnings, 2 if front else 3)
    most = REJECTED_BESIDE_CLOSE_CALL if close else SHOWN_REJECTED
    most -= bool(answer.other_settings)
    most = max(0, min(most, LINES - len(head) - len(foot) - 2))
    if front:
        most = 0  # it tells more of what is cheaper
        front = front if all_rejected else [*front, ""]
    tail = front + rejection_lines(answer, None if all_rejected else most) + foot
    # A blank line and a header stand above the alternatives.
    left = max(0, LINES - len(head) - len(tail) - 2)
    room = SHOWN_ALTERNATIVES if all_rejected or pareto else min(left, SHOWN_ALTERNATIVES)
    shown = max(0, room if specs is None else specs - 1)
    lines = head + _alternatives(answer.ranked[: 1 + shown]) + tail
    return "\n".join(lines if all_rejected else map(_clip, lines))


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()
) -> list[str]:
    """Aligned columns, two spaces apart; the columns numbered in `right` are flushed right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return [line(header), *map(line, rows)]


def price_words(market: Market, price: Price) -> str:
    """'on-demand price of 2026-07-20', 'estimated spot price of 2025-06-28', 'free of charge'."""
    if price.kind == FREE:
        return "free of charge"
    known = "" if price.kind == LIST else f"{price.kind} "
    return f"{known}{market} price of {price.as_of}"


def _live(answer: Recommendation) -> list[str]:
    if answer.live is None:
        return []
    from advisor.render.live import live_sentences  # few ask for it

    return wrapped("Live", live_sentences(answer.live), 3)


def _headline(chosen: Candidate, sources: Sources) -> list[str]:
    price = chosen.spec.offer.price
    standing = (
        f"{PROVENANCE[str(chosen.prediction.provenance)]}, {risk_text(chosen.prediction)}; "
        f"{price_words(chosen.spec.offer.market, price)}; model {sources.model_id[:8]}."
    )
    return [
        *textwrap.wrap(standing, WIDTH),
        "",
        f"{chosen.spec.name} + {disk_text(chosen.spec.disk)}   "
        f"{format_usd(chosen.spec.total_usd_per_hour)}/h   "
        f"{chosen.spec.offer.region}, {chosen.spec.offer.market}",
    ]


def _facts(answer: Recommendation, chosen: Candidate) -> list[str]:
    instance, prediction, request = chosen.spec.offer.instance, chosen.prediction, answer.request
    gpu = ""
    if instance.gpu_name:
        memory = format_mib(instance.gpu_memory_mib) if instance.gpu_memory_mib else "? memory"
        gpu = f"{instance.gpu_count} x {instance.gpu_name} {memory}, "
    disk = "local disk included"
    if chosen.spec.disk.price is not None:
        disk = f"disk {format_usd(chosen.spec.disk.usd_per_hour)}/h"
    unit = rate_unit(chosen.workload.dataset)
    asked = f"{request.network} {request.task}, batch {chosen.workload.batch_size}"
    if request.target_throughput is not None:
        asked += f", at least {format_rate(request.target_throughput)} {unit}"
    return [
        f"  for         {asked}",
        f"  has         {gpu}{_counted(instance.vcpus, 'vCPU')} "
        f"({_counted(instance.physical_cores, 'core')}), {format_mib(instance.memory_mib)} RAM",
        f"  throughput  {interval_text(prediction, unit)}",
        *_sharing_lines(chosen),
        *_latency_lines(chosen),
        *run_lines(request, chosen.run, chosen.usd_per_run),
        f"  cost        {format_usd(chosen.usd_per_million_samples)} per million samples "
        f"(instance {format_usd(chosen.spec.offer.price.usd_per_hour)}/h, {disk})",
        *terms_lines(chosen.spec.offer.price),
        "  bound by    "
        + bottleneck_text(prediction, on_cpu=computes_on_cpu(instance, chosen.workload)),
        *other_setting_lines(answer.other_settings, prediction, MOST_BESIDE_OTHERS),
    ]


def _counted(many: int, thing: str) -> str:
    """'1 core', '8 cores'."""
    return f"{many} {thing}" + ("" if many == 1 else "s")


def terms_lines(price: Price) -> list[str]:
    """What comes with the price: how often spot instances are taken back, a quota, a lock-in."""
    return [f"  terms       {price.terms}"] if price.terms else []


def _sharing_lines(chosen: Candidate) -> list[str]:
    """What one of several instances reaches, and what each of several GPUs keeps."""
    spec, prediction = chosen.spec, chosen.prediction
    lines = gpus_lines(prediction)
    if spec.count > 1:
        each = prediction.times(1 / spec.count)
        lines.append(
            f"  each of {spec.count:<3} {format_rate(each.median)} "
            f"{rate_unit(chosen.workload.dataset)} likely, surely "
            f"{floor_rate(each.lower):,g}, for {format_usd(spec.usd_per_hour_each)}/h"
        )
    return lines


def gpus_lines(prediction: Prediction) -> list[str]:
    """'all 4 GPUs, each at 95 % of its rate alone (published scaling, modelled)'."""
    if prediction.gpus_used == 1:
        return []
    kept = f"{100 * prediction.gpu_efficiency:.0f} %"
    return [
        f"  GPUs        {prediction.gpus_used} at {kept} each of the rate one has alone "
        "(published scaling efficiency, modelled)"
    ]


def _front(answer: Recommendation, most: int) -> list[str]:
    """The cheapest, the fastest, and what lies between."""
    if len(answer.pareto) < 2:
        return []
    shown = thinned(answer.pareto, most)
    header, rows = [f"{TITLE} ({len(answer.pareto)})", *COLUMNS], pareto_rows(shown)
    places = place_texts(shown)
    if places:
        header, rows = [*header, "region"], _beside(rows, places)
    return ["", *table(header, rows, right=range(3, 7))]


def _relaxed(answer: Recommendation) -> list[str]:
    """What would make something answer, where nothing does."""
    if not answer.relaxations:
        return []
    header = [relax_title(answer), "gives", "per hour", "surely/s"]
    return ["", *table(header, relax_rows(answer), right=(2, 3))]


def _latency_lines(chosen: Candidate) -> list[str]:
    latency = chosen.latency
    if latency is None:
        return []
    likely, surely = ceil_ms(latency.p50_seconds), ceil_ms(latency.p99_seconds)
    return [
        f"  latency     {likely:,g} ms likely for one batch; 99 in 100 surely within {surely:,g} ms"
    ]


def interval_text(prediction: Prediction, unit: str) -> str:
    """'612 images/s likely; 90 % sure of 505 or more (upper bound 741)'; the bound rounds down."""
    return (
        f"{format_rate(prediction.median)} {unit} likely; "
        f"{100 * prediction.confidence:g} % sure of {floor_rate(prediction.lower):,g} or more "
        f"(upper bound {format_rate(prediction.upper)})"
    )


def bottleneck_text(prediction: Prediction, *, on_cpu: bool = False) -> str:
    """The binding stage, and how far each stage is used; `on_cpu`: the CPU is the accelerator."""
    name = f"{prediction.bottleneck}"
    if on_cpu and prediction.bottleneck is Stage.ACCELERATOR:
        name = "the CPU, which is the accelerator here"
    used = sorted(prediction.utilization.items(), key=lambda item: -item[1])
    shares = ", ".join(f"{stage} {share:.0%}" for stage, share in used)
    return f"{name} (used: {shares})"


def _alternatives(ranked: Sequence[Candidate]) -> list[str]:
    """All but the first, which is told already; with regions where one stands in another."""
    shown = ranked[1:]
    if not shown:
        return []
    rows = [
        [
            "  " + one.spec.name,
            short_gpu_text(one),
            short_disk_text(one.spec.disk),
            format_usd(one.spec.total_usd_per_hour),
            f"{floor_rate(one.prediction.lower):,g}",
            *_cost_cells(one),
        ]
        for one in shown
    ]
    header = ["Alternatives", "gpu", "disk", "per hour", "surely/s"]
    header += ["run takes", "per run"] if shown[0].run else ["likely/s", "per 1M"]
    right = range(3, len(header))
    places = place_texts(ranked)[1:]
    if places:
        header, rows = [*header, "region"], _beside(rows, places)
    bound = _beside(rows, [str(one.prediction.bottleneck) for one in shown])
    lines = table([*header, "bound by"], bound, right)
    return ["", *(table(header, rows, right) if places and _too_wide(lines) else lines)]


def _beside(rows: Sequence[list[str]], cells: Sequence[str]) -> list[list[str]]:
    return [[*row, cell] for row, cell in zip(rows, cells, strict=True)]


def _too_wide(lines: Sequence[str]) -> bool:
    return max(map(len, lines)) > WIDTH


def _cost_cells(one: Candidate) -> list[str]:
    """Likely hours and dollars of the run where there is one, else rate and cost by samples."""
    if one.run and one.usd_per_run:
        return [format_hours(one.run.hours.median), format_usd(one.usd_per_run.median)]
    return [format_rate(one.prediction.median), format_usd(one.usd_per_million_samples)]


def disk_text(disk: Disk) -> str:
    """'gp3:158GiB:12000iops:250MiB/s' as `--disk` takes it, or 'local (210 GiB)'."""
    return f"local ({disk.size_gib:.0f} GiB)" if disk.price is None else str(disk.choice)


def wrapped(title: str, sentences: Sequence[str], lines: int) -> list[str]:
    """Sentences after their title, folded to so many lines; none where there is nothing to say.

    What has no room is counted, and no sentence is cut but a first one that fills all lines.
    """
    folded: list[str] = []
    for kept in range(len(sentences), 0, -1):
        left = len(sentences) - kept
        end = f"; {left} more (-o json has all)." if left else "."
        text = f"{title}: " + "; ".join(sentences[:kept]) + end
        folded = textwrap.wrap(text, WIDTH, subsequent_indent="  ")
        if len(folded) <= lines:
            break
    return folded[:lines]


def _clip(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."
