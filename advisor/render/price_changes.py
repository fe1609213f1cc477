"""Differences in price between two states of the catalogue, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from advisor.errors import one_line
from advisor.render.text import table
from advisor.units import format_usd

Document = Mapping[str, Any]
# Programs read thousands of changes; people get the largest.
_MOST = 20


def price_changes_text(document: Document) -> str:
    """Totals and the largest changes, then what they mean for each saved answer."""
    lines = [f"Prices of {document['old']} and of {document['new']}", ""]
    lines += _totals(document["totals"])
    lines += _largest(document["prices"])
    for answer in document["answers"]:
        lines += ["", *_answer_lines(answer)]
    return "\n".join(lines) + "\n"


def _totals(totals: list[Document]) -> list[str]:
    """Clouds with a change, then how many prices elsewhere are the same."""
    if not totals:
        return ["Neither has any such price."]
    moved = [row for row in totals if row["changed"] or row["added"] or row["removed"]]
    still = sum(row["same"] for row in totals if row not in moved)
    header = ["cloud", "market", "same", "changed", "added", "removed", "median change"]
    rows = [
        [
            *(row["cloud"], row["market"]),
            *(f"{row[what]:,}" for what in ("same", "changed", "added", "removed")),
            _percent(row["median_percent"]),
        ]
        for row in moved
    ]
    lines = table(header, rows, right=(2, 3, 4, 5, 6)) if moved else []
    if not still:
        return lines
    others = "prices of other clouds and markets" if moved else "prices"
    return [*lines, f"{still:,} {others} are the same."]


def _largest(rows: list[Document]) -> Iterator[str]:
    changed = [row for row in rows if row["old"] and row["new"]]
    if not changed:
        return
    yield ""
    header = ["cloud", "instance", "region", "market", "old", "new", "change", "price"]
    cells = [
        [
            *(row["cloud"], row["instance_type"], row["region"], row["market"]),
            format_usd(row["old"]["usd_per_hour"]),
            format_usd(row["new"]["usd_per_hour"]),
            _percent(row["percent"]),
            _kinds(row["old"]["kind"], row["new"]["kind"]),
        ]
        for row in changed[:_MOST]
    ]
    yield from table(header, cells, right=(4, 5, 6))
    if len(changed) > _MOST:
        yield f"... and {len(changed) - _MOST:,} more; -o json has all of them"


def _answer_lines(answer: Document) -> Iterator[str]:
    yield one_line(f"{answer['file']}, {answer['workload']}: {_verdict(answer)}")
    header = ["instance", "region", "market", "disk", "saved", "old", "new", "change", "price"]
    cells = [
        [
            f"{spec['count']} x {spec['instance_type']}" if spec["count"] > 1 else spec["instance_type"],
            *(spec["region"], spec["market"], spec["disk"]),
            *(_usd(spec[name]) for name in ("saved_usd_per_hour", "old", "new")),
            _percent(spec["percent"]),
            _kinds(spec["old_kind"], spec["new_kind"]),
        ]
        for spec in answer["specs"]
    ]
    yield from (f"  {line}" for line in table(header, cells, right=(4, 5, 6, 7)))


def _verdict(answer: Document) -> str:
    """The verdict on the answer's own choice."""
    pick, cheapest = answer["recommended"], answer["cheapest"]
    old, new = cheapest["old"], cheapest["new"]
    if new is None:
        return "none of its specs has a price any more" if old else "none of its specs has a price"
    name = new["instance_type"]
    if pick is None:
        return f"nothing met the target; {name} costs least of its specs"
    if new == pick:
        return f"{name}, which it recommends, stays the choice"
    becomes = "becomes" if cheapest["changed"] else "is"
    return f"{name} {becomes} the choice, before {pick['instance_type']}, which it recommends"


def _usd(value: float | None) -> str:
    return "none" if value is None else format_usd(value)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1f} %"


def _kinds(old: str | None, new: str | None) -> str:
    return str(new) if old == new else f"{old or 'none'} -> {new or 'none'}"
