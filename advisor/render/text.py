"""Plain text: tables, folded paragraphs, lines of facts, and words that answers of all tasks share."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from advisor.domain import Disk
from advisor.domain.decision import Judged
from advisor.messages import Message, code_of, format_count, format_usd
from advisor.render.blocks import lower_rate

WIDTH = 100
INDENT = 14
# Prices within this ratio count as one price, because disk prices are estimated to 1 %.
SURE = 1.03
# In lines wider than `_WIDE`, the last line of a paragraph should be longer than `_ALONE`.
_ALONE, _WIDE = 14, 60

AnyAnswer = Judged[Any, Any]


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Return lines of aligned columns, two spaces apart. Columns numbered in `right` are flush right."""
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
    """Return a table that fits the width: `left` columns are flush left, `spared` ones dropped in order."""
    kept = dict(columns)
    for name in (*spared, ""):
        right = [number for number, heading in enumerate(kept) if heading not in left]
        lines = table(list(kept), list(zip(*kept.values(), strict=True)), right)
        if max(map(len, lines)) <= WIDTH or not name:
            break
        kept.pop(name, None)
    return lines


def fact(title: str, text: str) -> str:
    """Return a title with its text in one line: '  throughput  p10 505, ..'."""
    return f"{f'  {title}':<{INDENT}}{text}"


def folded_command(command: str, width: int) -> list[str]:
    """Fold a command over several lines that can be pasted unchanged."""
    pieces = command.replace(" --", "\n--").split("\n")
    lines, room = [pieces[0]], width - len(" \\")
    for piece in pieces[1:]:
        if len(lines[-1]) + 1 + len(piece) <= room:
            lines[-1] += f" {piece}"
        else:
            lines.append(f"  {piece}")
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


# Prevents line breaks between a number and its unit, and between the parts of a time.
_GLUE = "\x1f"
_GLUED = re.compile(r"(?<=\d) (?=(?:h|min|s|ms|GiB|days|months)\b)|(?<=\d[ \u00a0]h) (?=\d+ min)")


def glued(text: str) -> str:
    """Return a text in which numbers stay on the same line as their units."""
    return _GLUED.sub(_GLUE, text)


def folded(text: str, width: int = WIDTH, indent: int = 0) -> list[str]:
    """Return the lines of a paragraph, all but the first indented; names do not break at hyphens. If that
    needs no further line, wide lines are narrowed so that the last one is more than a short word."""
    text, lines = glued(text), list[str]()
    for narrower in range(width, min(width - 1, max(width - _ALONE, _WIDE)), -1):
        tried = textwrap.wrap(text, narrower, subsequent_indent=" " * indent, break_on_hyphens=False)
        lines = lines or tried
        if len(tried) == len(lines) and (len(tried) < 2 or len(tried[-1]) > indent + _ALONE):
            lines = tried
            break
    return [line.replace(_GLUE, " ") for line in lines]


def lower_name(confidence: float) -> str:
    """Return the name of the lower bound's percentile: 'p10' at confidence 0.9."""
    return f"p{100 * (1 - confidence):.4g}"


def upper_name(confidence: float) -> str:
    """Return the name of the upper bound's percentile: 'p90' at confidence 0.9."""
    return f"p{100 * confidence:.4g}"


# Nouns with their plurals.
_COUNTED = {
    "core": (Message("{count} core"), Message("{count} cores")),
    "vCPU": (Message("{count} vCPU"), Message("{count} vCPUs")),
    "GPU": (Message("{count} GPU"), Message("{count} GPUs")),
    "epoch": (Message("{count} epoch"), Message("{count} epochs")),
    "sample": (Message("{count} sample"), Message("{count} samples")),
}


def counted_message(noun: str, count: float) -> Message:
    """Return a number with its noun: '1 core', '2.5 epochs', '1.28 million samples'."""
    text = f"{count:g}" if count < 1e4 else format_count(count)
    return Message(_COUNTED[noun][count != 1].text, count=text)


def throughput_message(rates: Mapping[str, float], unit: str, confidence: float) -> Message:
    """Return the interval of a network's rate, or only the median if both bounds equal it."""
    if lower_name(confidence) != upper_name(confidence):
        return interval_message(rates, unit, confidence)
    return Message(
        "median {median:rate} {unit} (confidence {confidence:g})",
        median=rates["median"],
        unit=Message(unit),
        confidence=confidence,
    )


def interval_message(rates: Mapping[str, float], unit: str, confidence: float) -> Message:
    """Return a rate's interval: 'p10 505, median 612, p90 741 images/s (confidence 0.9)'."""
    return Message(
        "{p10} {lower}, median {median:rate}, {p90} {upper:rate} {unit} (confidence {confidence:g})",
        p10=lower_name(confidence),
        lower=lower_rate(rates["lower"]),
        median=rates["median"],
        p90=upper_name(confidence),
        upper=rates["upper"],
        unit=Message(unit),
        confidence=confidence,
    )


def disk_text(disk: Disk) -> str:
    """'gp3:158GiB:12000iops:250MiB/s' as `--disk` takes it, or 'local (210 GiB)'."""
    return f"local ({disk.size_gib:.0f} GiB)" if disk.is_local else str(disk.choice)


def local_or_order(disk: Mapping[str, Any]) -> str:
    """Return the same for a disk's record."""
    return str(disk["order"]) if disk["price_kind"] else f"local ({disk['size_gib']:.0f} GiB)"


def short_order(disk: Mapping[str, Any]) -> str:
    """Return a disk's order without its size, or 'local'."""
    if disk["price_kind"] is None:
        return "local"
    return ":".join(part for part in disk["order"].split(":") if not part.endswith("GiB"))


def fact_lines(facts: Iterable[tuple[str, str]]) -> list[str]:
    """Return the lines of each fact, its text folded beside its title; facts without a text are left out."""
    lines: list[str] = []
    for title, text in facts:
        paragraph = folded(text, WIDTH - INDENT)
        lines += [fact("" if number else title, line) for number, line in enumerate(paragraph)]
    return lines


def usd_or_dash(usd: float | None) -> str:
    """Return a price as text, or a dash if it is unknown."""
    return "-" if usd is None else format_usd(usd)


def is_miss(warning: Message | str) -> bool:
    """Return whether a warning says that a named instance misses the question's limits, or may."""
    return code_of(warning) in ("misses", "may_miss")


def shortened(name: str, most: int) -> str:
    """Shorten a name to `most` characters."""
    line = " ".join(name.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
