"""The parts of plain text that answers share: tables, folded sentences, and a line a concept."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite

from msgspec.structs import replace

from advisor.domain import (
    FREE,
    LIST,
    Candidate,
    Disk,
    InstanceType,
    Latency,
    Market,
    OtherSetting,
    Prediction,
    Price,
    Request,
    RunTime,
    Span,
    Spec,
    Stage,
    Workload,
)
from advisor.messages import Message
from advisor.naming import asked_of
from advisor.render.blocks import RISKS, rate_unit, risk
from advisor.units import (
    ceil_ms,
    ceil_significant,
    floor_rate,
    format_counted,
    format_hours,
    format_rate,
    format_usd,
)

WIDTH = 100
INDENT = 14
PROVENANCE = {
    "measured": "Measured rate",
    "published": "Published rate of this GPU",
    "modelled": "Modelled, not measured",
}
# A first epoch that is less slower than this is not worth a word.
_SLOWER = 1.05
# What a run costs at least, to be written in dollars.
_LEAST_USD = 0.0001
# What lies so close together is one price: disks are estimated to the per cent.
SURE = 1.03
# Smaller changes by another setting are none.
_NOTHING_PERCENT = 0.5
_NO_LOSS = 1 - _NOTHING_PERCENT / 100
_OWN_BATCH = "amp"


def priced_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], prices: Sequence[str], right: Sequence[int]
) -> list[str]:
    """A `table` with a last column that says how the price in each row is known, where any of
    `prices` does."""
    if any(prices):
        header = [*header, "price"]
        rows = [[*row, price] for row, price in zip(rows, prices, strict=True)]
    return table(header, rows, right)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Aligned columns, two spaces apart; the columns numbered in `right` are flushed right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return [line(header), *map(line, rows)]


def fitting_table(
    columns: Mapping[str, Sequence[str]], left: Sequence[str], spared: Sequence[str]
) -> list[str]:
    """Columns by their headings, those of `left` flushed left; as many of the `spared` ones are
    left out, in their order, as it takes to fit."""
    kept = dict(columns)
    for name in (*spared, ""):
        right = [at for at, each in enumerate(kept) if each not in left]
        lines = table(list(kept), list(zip(*kept.values(), strict=True)), right)
        if max(map(len, lines)) <= WIDTH or not name:
            break
        del kept[name]
    return lines


def beside(title: str, lines: Sequence[str]) -> list[str]:
    """A title with lines to the right of it."""
    titles = [f"  {title}", *[""] * (len(lines) - 1)]
    return [f"{head:<{INDENT}}{line}".rstrip() for head, line in zip(titles, lines, strict=False)]


def folded(title: str, sentences: Iterable[str]) -> list[str]:
    """A title with a folded paragraph a sentence beside it; nothing without sentences."""
    lines = [line for text in sentences for line in textwrap.wrap(text, WIDTH - INDENT)]
    return beside(title, lines) if lines else []


def folded_command(command: str, width: int) -> list[str]:
    """A command over several lines that can be pasted as they are."""
    pieces = command.replace(" --", "\n--").split("\n")
    lines, room = [pieces[0]], width - len(" \\")
    for piece in pieces[1:]:
        if len(lines[-1]) + 1 + len(piece) <= room:
            lines[-1] += f" {piece}"
        else:
            lines.append(f"  {piece}")
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def alternatives_title(shown: int, known: int, most: int) -> str:
    """'Alternatives (3 of 9+)': how many of the other specs are shown; `most` may be known, the
    recommended one among them, and where that many are, there may be more."""
    more = "+" if known >= most else ""
    return f"Alternatives ({shown} of {known - 1}{more})" if known > shown + 1 else "Alternatives"


def wrapped(title: str, sentences: Sequence[Message | str], lines: int) -> list[str]:
    """Sentences after their title, folded to so many lines; none where there is nothing to say.

    What has no room is counted, and no sentence is cut: a first one may take more lines.
    """
    texts = [str(sentence) for sentence in sentences]
    paragraph: list[str] = []
    for kept in range(len(texts), 0, -1):
        left = len(texts) - kept
        end = f"; {left} more (-o json has all)." if left else "."
        text = f"{title}: " + "; ".join(texts[:kept]) + end
        paragraph = textwrap.wrap(text, WIDTH, subsequent_indent="  ")
        if len(paragraph) <= lines:
            break
    return paragraph


def counted(count: int, noun: str) -> str:
    """'1 core', '8 cores'."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def lower_name(confidence: float) -> str:
    """'p10' at confidence 0.9: the percentile that the lower bound is."""
    return f"p{100 * (1 - confidence):.4g}"


def upper_name(confidence: float) -> str:
    """'p90' at confidence 0.9: the percentile that the upper bound is."""
    return f"p{100 * confidence:.4g}"


def lower_text(rate: float) -> str:
    """A lower bound is rounded down: '505'."""
    return f"{floor_rate(rate):,g}"


def interval_text(prediction: Prediction, unit: str) -> str:
    """'p10 505, median 612, p90 741 images/s (confidence 0.9)'."""
    confidence = prediction.confidence
    if lower_name(confidence) == upper_name(confidence):  # both bounds are the median
        return f"median {format_rate(prediction.median)} {unit} (confidence {confidence:g})"
    return (
        f"{lower_name(confidence)} {lower_text(prediction.lower)}, "
        f"median {format_rate(prediction.median)}, "
        f"{upper_name(confidence)} {format_rate(prediction.upper)} {unit} "
        f"(confidence {confidence:g})"
    )


def rate_columns(confidence: float) -> list[str]:
    """['p10/s', 'median/s']: headings of a lower bound and a median."""
    return [f"{lower_name(confidence)}/s", "median/s"]


def rate_cells(prediction: Prediction) -> list[str]:
    """The cells below `rate_columns`."""
    return [lower_text(prediction.lower), format_rate(prediction.median)]


def basis_lines(prediction: Prediction, priced: str, model_id: str) -> list[str]:
    """'Published rate of this GPU; low risk (1 of 4); .. price of ..; predictor 1a2b3c4d.'"""
    level = risk(prediction)
    known = f"{PROVENANCE[str(prediction.provenance)]}; {RISKS[level]} risk ({level} of 4)"
    text = "; ".join(filter(None, [known, priced, f"predictor {model_id[:8]}."]))
    return textwrap.wrap(text, WIDTH)


def cores_text(instance: InstanceType, *, decodes: bool = True) -> str:
    """'4 vCPUs (2 cores)', '4 vCPUs (4 cores, arm64, speed unknown)'; the speed where it `decodes`
    samples."""
    cores = [counted(instance.physical_cores, "core")]
    cores += [instance.cpu.architecture] if instance.cpu.architecture == "arm64" else []
    cores += ["speed unknown"] if decodes and not instance.cpu.single_thread_score else []
    return f"{counted(instance.vcpus, 'vCPU')} ({', '.join(cores)})"


def price_text(market: Market | None, price: Price) -> str:
    """'on-demand price of 2026-07-20', 'estimated spot price of 2025-06-28', 'free of charge'."""
    if price.kind == FREE:
        return "free of charge"
    kind = "" if price.kind == LIST else f"{price.kind} "
    return f"{kind}{market} price of {price.as_of}"


def asked_lines(request: Request, workload: Workload | None) -> list[str]:
    """'  for         resnet50 inference, batch 64, amp, images of 224 x 224 pixels'."""
    batch = workload.batch_size if workload else None
    text = str(asked_of(request, batch, rate_unit(request.dataset)))
    return beside("for", textwrap.wrap(text, WIDTH - INDENT, break_on_hyphens=False))


def terms_lines(price: Price | None) -> list[str]:
    """What comes with the price: how often spot instances are taken back, a quota, a lock-in."""
    return [f"  terms       {price.terms}"] if price and price.terms else []


def disk_text(disk: Disk) -> str:
    """'gp3:158GiB:12000iops:250MiB/s' as `--disk` takes it, or 'local (210 GiB)'."""
    return f"local ({disk.size_gib:.0f} GiB)" if disk.price is None else str(disk.choice)


def short_disk_text(disk: Disk) -> str:
    """Without the size, which is the same for all; `--disk` takes it too."""
    return "local" if disk.price is None else str(replace(disk.choice, size_gib=None))


def short_gpu_text(candidate: Candidate) -> str:
    """'H100' of an H100-SXM5-80GB; a dash where there is none."""
    return (candidate.spec.offer.instance.gpu_name or "").partition("-")[0] or "-"


def hourly_lines(name: str, disk: Disk, total: str, lies: str, where: str) -> list[str]:
    """'g6.xlarge + gp3:158GiB   $0.105/h (2024-09-28: $0.0492 to $0.575)   us-east-1, spot': a
    price that is not sure never stands alone. In two lines where one has no room."""
    head = f"{name} + {disk_text(disk)}   {total}"
    one = "   ".join(filter(None, (f"{head} {lies}".rstrip(), where)))
    return [one] if len(one) <= WIDTH else [head, f"  {lies}   {where}"]


def spec_lines(spec: Spec, where: str) -> list[str]:
    """The first line of an answer: a spec, what an hour costs, and where."""
    total = f"{format_usd(spec.total_usd_per_hour)}/h"
    return hourly_lines(spec.name, spec.disk, total, range_text(spec.prices, spec.count), where)


def range_text(prices: Sequence[Price], count: int = 1) -> str:
    """'(2024-09-28: $0.0492 to $0.575)': the day of an unsure price and where the total lies; empty
    of a sure one."""
    low, high = (count * usd for usd in price_ends(prices))
    if high <= SURE * low:
        return ""
    day = max(prices, key=lambda price: price.high_usd_per_hour - price.low_usd_per_hour).as_of
    return f"({day}: {format_usd(low)} to {format_usd(high)})"


def price_ends(prices: Sequence[Price]) -> tuple[float, float]:
    """Between what their sum lies, in dollars an hour."""
    return sum(one.low_usd_per_hour for one in prices), sum(one.high_usd_per_hour for one in prices)


def run_costs_text(usd: Span, prices: Sequence[Price], confidence: float) -> str:
    """'median $10.13, p90 $14.70; by its price $4.739 to $55.29, p90 up to $80.24'."""
    said, (low, high) = _span_text(usd, _run_usd, confidence), price_ends(prices)
    if high <= SURE * low:
        return said
    total = sum(one.usd_per_hour for one in prices)
    least, most = (_run_usd(usd.median * end / total) for end in (low, high))
    upper = _run_usd(usd.upper * high / total, up=True) if isfinite(usd.upper) else "unknown"
    return f"{said}; by its price {least} to {most}, {upper_name(confidence)} up to {upper}"


def cost_line(usd_per_million: float, price: Price, disk: Disk) -> str:
    """'  cost        $0.241 per million samples (instance $0.526/h, disk $0.0174/h)'."""
    included = f"disk {format_usd(disk.usd_per_hour)}/h" if disk.price else "local disk included"
    return (
        f"  cost        {format_usd(usd_per_million)} per million samples "
        f"(instance {format_usd(price.usd_per_hour)}/h, {included})"
    )


def gpus_lines(prediction: Prediction) -> list[str]:
    """'4, each at 95 % of the rate of one alone (modelled from published scaling)'."""
    if prediction.gpus_used == 1:
        return []
    kept = f"{100 * prediction.gpu_efficiency:.0f} %"
    return [
        f"  GPUs        {prediction.gpus_used}, each at {kept} of the rate of one alone "
        "(modelled from published scaling)"
    ]


def nodes_lines(candidate: Candidate) -> list[str]:
    """'4, each at 78 % of the rate of one alone over 25 Gbit/s (modelled)'; none for one."""
    network = candidate.node_network
    if network is None:
        return []
    efa = " by EFA" if network.takes_several_cards else ""
    return [
        f"  nodes       {candidate.spec.count}, each at "
        f"{100 * candidate.prediction.node_efficiency:.0f} % of the rate of one alone, over "
        f"{network.gbit_per_second:g} Gbit/s{efa} (modelled)"
    ]


def bottleneck_text(prediction: Prediction, *, on_cpu: bool = False) -> str:
    """The binding stage, and how far each stage is used; `on_cpu`: the CPU is the accelerator."""
    names = {stage: str(stage) for stage in Stage}
    if on_cpu:
        names[Stage.ACCELERATOR] = "computing on the CPU"
    used = sorted(prediction.utilization.items(), key=lambda item: -item[1])
    shares = ", ".join(f"{names[stage]} {share:.0%}" for stage, share in used)
    return f"{names[prediction.bottleneck]} (used: {shares})"


def latency_lines(latency: Latency | None, confidence: float) -> list[str]:
    """'median 12 ms a batch; p99 latency <= 17 ms (confidence 0.9); ..'; none but for inference."""
    if latency is None:
        return []
    median, p99 = ceil_ms(latency.p50_seconds), ceil_ms(latency.p99_seconds)
    return [
        f"  latency     median {median:,g} ms a batch; "
        f"p99 latency <= {p99:,g} ms (confidence {confidence:g}); no queueing"
    ]


def run_lines(
    request: Request, run: RunTime | None, usd: Span | None, confidence: float, prices: Sequence[Price]
) -> list[str]:
    """'90 epochs: median 30 h, p90 42.1 h', and what that costs; none without a run."""
    if run is None:
        return []
    length = format_counted(run.samples, "sample")
    if request.epochs is not None:
        length = format_counted(request.epochs, "epoch")
    hours = _span_text(run.hours, format_hours, confidence)
    lines = [f"  run         {length}: {hours}{_first_epoch_text(request, run)}"]
    return lines + (folded("run costs", [run_costs_text(usd, prices, confidence)]) if usd else [])


def first_epoch_lines(first: Span | None, run: RunTime | None, confidence: float) -> list[str]:
    """'median 14.2 min, p90 17 min, from the disk'; none where a run says it, or nothing trains."""
    if first is None or run is not None:
        return []
    return [f"  first epoch {_span_text(first, format_hours, confidence)}, from the disk"]


def _first_epoch_text(request: Request, run: RunTime) -> str:
    """How long the first epoch takes where reading the disk makes it slower than later ones."""
    first, epochs = run.first_epoch, run.samples / request.dataset.samples
    if first is None or epochs <= 1:
        return ""
    later = (run.hours.median - first.median) / (epochs - 1)
    if first.median < _SLOWER * later:
        return ""
    return f" (first epoch, from the disk: {format_hours(first.median)})"


def _span_text(span: Span, write: Callable[..., str], confidence: float) -> str:
    upper = write(span.upper, up=True) if isfinite(span.upper) else "unknown"
    return f"median {write(span.median)}, {upper_name(confidence)} {upper}"


def _run_usd(usd: float, *, up: bool = False) -> str:
    if usd < _LEAST_USD:
        return f"under {format_usd(_LEAST_USD)}"
    return format_usd(ceil_significant(usd)).removesuffix(".00") if up else format_usd(usd)


def other_setting_lines(
    settings: Sequence[OtherSetting], before: Prediction, most: int | None = None
) -> list[str]:
    """A line for each setting that does not slow the whole down, or for the `most` best ones. 16
    bits, whose best batch is another one, are named even where they do at this batch."""
    useful = [one for one in settings if one.gain > _NO_LOSS or one.name == _OWN_BATCH]
    best = sorted(useful, key=lambda setting: (setting.gain, setting.gpu_gain.median))[::-1]
    shown = [setting for setting in useful if setting in best[:most]]
    return folded("could try", (f"{_gpu_gain(setting)}, here {_here(setting, before)}" for setting in shown))


def gpu_setting_lines(settings: Sequence[OtherSetting]) -> list[str]:
    """The same for a GPU by itself."""
    return folded("could try", map(_gpu_gain, settings))


def _gpu_gain(setting: OtherSetting) -> str:
    gain, measured = setting.gpu_gain, "" if setting.measured else ", not measured"
    return (
        f"{setting.name}: GPU {gain.median:.2f} times as fast "
        f"({gain.lower:.2f} to {gain.upper:.2f}{measured})"
    )


def _here(setting: OtherSetting, before: Prediction) -> str:
    """'+4.2 %, then bound by host'; 'nothing: bound by host'."""
    percent, binds = 100 * (setting.gain - 1), setting.prediction.bottleneck
    if setting.gain <= _NO_LOSS:
        return f"slower at this batch; {setting.option} also tries others"
    if abs(percent) < _NOTHING_PERCENT:
        return f"nothing: bound by {binds}"
    then = "" if binds is before.bottleneck else f", then bound by {binds}"
    digits = "+.0f" if abs(percent) >= 10 else "+.2g"
    return f"{percent:{digits}} %{then}"
