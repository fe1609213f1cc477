"""Price refreshes and price differences between two catalogues, as text and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from advisor.catalog.overlay import Overlay
from advisor.domain import Price
from advisor.domain.live import PriceAnswer, Refresh
from advisor.errors import one_line
from advisor.messages import format_usd
from advisor.render.records import fields, price_answer_block, price_block
from advisor.render.text import table

Document = Mapping[str, Any]
# Programs read thousands of changes; people get this many of the largest.
_MOST = 20


def price_changes_text(document: Document) -> str:
    """Return the totals and the largest changes, then their effect on each saved answer."""
    lines = [f"Prices of {document['old']} and of {document['new']}", "", *_total_lines(document["totals"])]
    lines += _largest_changes(document["prices"])
    for answer in document["answers"]:
        lines += ["", *_answer_lines(answer)]
    return "\n".join(lines) + "\n"


def _total_lines(totals: list[Document]) -> list[str]:
    """Return the clouds and markets with a change, then how many other prices are the same."""
    if not totals:
        return ["Neither has any such price."]
    moved = [row for row in totals if row["changed"] or row["added"] or row["removed"]]
    still = sum(row["same"] for row in totals if row not in moved)
    header = ["cloud", "market", "same", "changed", "added", "removed", "median change"]
    rows = [
        [
            *(row["cloud"], row["market"]),
            *(f"{row[what]:,}" for what in ("same", "changed", "added", "removed")),
            _signed_percent(row["median_percent"]),
        ]
        for row in moved
    ]
    lines = table(header, rows, right=(2, 3, 4, 5, 6)) if moved else []
    if not still:
        return lines
    others = "prices of other clouds and markets" if moved else "prices"
    return [*lines, f"{still:,} {others} are the same."]


def _largest_changes(rows: list[Document]) -> Iterator[str]:
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
            _signed_percent(row["percent"]),
            _kind_change(row["old"]["kind"], row["new"]["kind"]),
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
            *(
                "none" if spec[name] is None else format_usd(spec[name])
                for name in ("saved_usd_per_hour", "old", "new")
            ),
            _signed_percent(spec["percent"]),
            _kind_change(spec["old_kind"], spec["new_kind"]),
        ]
        for spec in answer["specs"]
    ]
    yield from (f"  {line}" for line in table(header, cells, right=(4, 5, 6, 7)))


def _verdict(answer: Document) -> str:
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


def _signed_percent(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1f} %"


def _kind_change(old: str | None, new: str | None) -> str:
    return str(new) if old == new else f"{old or 'none'} -> {new or 'none'}"


SCHEMA = "advisor.catalog-refresh/1"
KEPT_SCHEMA = "advisor.catalog-refreshed/1"


def refresh_document(refresh: Refresh) -> dict[str, Any]:
    """Return the whole refresh as JSON-ready values."""
    return {
        "schema": SCHEMA,
        "as_of": refresh.as_of.isoformat(),
        **fields(refresh, "cloud region"),
        "markets": [str(market) for market in refresh.markets],
        "asked": list(refresh.names),
        "prices": [price_answer_block(answer) for answer in refresh.answers],
        "withdrawn": list(refresh.withdrawn),
        "returned": list(refresh.returned),
        "warnings": list(refresh.warnings),
        "file": refresh.file or None,
    }


def refresh_text(refresh: Refresh) -> str:
    """Return counts, then what changed, what was refused and why, and where the prices were saved."""
    taken = [answer for answer in refresh.answers if answer.price]
    changed = [answer for answer in taken if answer.changed]
    refused = [answer for answer in refresh.answers if not answer.price]
    lines = [
        f"{refresh.region}: {len(taken)} of {len(refresh.answers)} prices taken on "
        f"{refresh.as_of}, {len(changed)} of them new or changed; {len(refused)} refused."
    ]
    rows = [
        [
            answer.instance_type,
            str(answer.market),
            _usd(answer.before),
            _usd(answer.price),
            _percent(answer),
            answer.price.terms if answer.price else "",
        ]
        for answer in changed
    ]
    header = ["Changed", "market", "old", "new", "by", "terms"]
    lines += ["", *table(header, rows, right=(2, 3, 4)), ""] if rows else []
    lines += _refusals(refused)
    for title, names in (("No longer offered", refresh.withdrawn), ("Offered again", refresh.returned)):
        lines += [f"{title}: {', '.join(names)}"] if names else []
    lines += [f"Warning: {line}" for line in refresh.warnings]
    if refresh.file:
        lines.append(f"Kept in {refresh.file}; `advisor catalog refresh --forget` goes back.")
    return "\n".join(lines)


def _usd(price: Price | None) -> str:
    return format_usd(price.usd_per_hour) if price else "unknown"


def _percent(answer: PriceAnswer) -> str:
    if answer.before is None or answer.price is None:
        return ""
    return f"{100 * (answer.price.usd_per_hour / answer.before.usd_per_hour - 1):+.3g} %"


def _refusals(refused: Sequence[PriceAnswer]) -> list[str]:
    """Return implausible prices one by one, and other refusals grouped by market and reason."""
    lines = [
        f"Refused: {answer.instance_type} ({answer.market}): {answer.why}; --accept-implausible takes it"
        for answer in refused
        if answer.not_believed is not None
    ]
    others = [answer for answer in refused if answer.not_believed is None]
    for (market, why), count in Counter((answer.market, answer.why) for answer in others).items():
        names = [answer.instance_type for answer in others if (answer.market, answer.why) == (market, why)]
        more = f" and {count - 5} more" if count > 5 else ""
        lines.append(f"No {market} price of {', '.join(names[:5])}{more}: {why}")
    return lines


def kept_document(kept: Mapping[str, Overlay]) -> dict[str, Any]:
    """Return the saved prices and offerings of each cloud, as JSON-ready values."""
    return {
        "schema": KEPT_SCHEMA,
        "prices": [
            {
                "cloud": cloud,
                "instance_type": name,
                "region": region,
                "market": str(market),
                **price_block(price),
            }
            for cloud, refreshed in kept.items()
            for (name, region, market), price in sorted(refreshed.prices.items())
        ],
        "offerings": [
            {
                "cloud": cloud,
                "instance_type": name,
                "region": region,
                "offered": there,
                "as_of": day.isoformat(),
            }
            for cloud, refreshed in kept.items()
            for (name, region), (there, day) in sorted(refreshed.offerings.items())
        ],
    }


def kept_text(kept: Mapping[str, Overlay]) -> str:
    """Return the saved prices as a table, then the types that are no longer offered."""
    if not any(kept.values()):
        return "nothing has been refreshed: the snapshot that ships answers"
    rows = [
        [cloud, name, region, str(market), _usd(price), price.kind, price.as_of.isoformat(), price.terms]
        for cloud, refreshed in kept.items()
        for (name, region, market), price in sorted(refreshed.prices.items())
    ]
    header = ["cloud", "instance", "region", "market", "per hour", "price", "as of", "terms"]
    lines = table(header, rows, right=(4,)) if rows else []
    gone = [
        f"{name} is not offered in {region} (told on {day})"
        for refreshed in kept.values()
        for (name, region), (there, day) in sorted(refreshed.offerings.items())
        if not there
    ]
    return "\n".join(lines + gone)
