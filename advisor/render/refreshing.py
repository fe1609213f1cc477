"""What a refresh brought, and what is kept of earlier ones: text and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from advisor.catalog.refreshed import Refreshed
from advisor.domain import Price
from advisor.domain.live import PriceAnswer, Refresh
from advisor.render.blocks import price_answer_block, price_block
from advisor.render.text import table
from advisor.units import format_usd

SCHEMA = "advisor.catalog-refresh/1"
KEPT_SCHEMA = "advisor.catalog-refreshed/1"


def refresh_document(told: Refresh) -> dict[str, Any]:
    """The whole summary as JSON-ready values."""
    return {
        "schema": SCHEMA,
        "as_of": told.as_of.isoformat(),
        "cloud": "aws",
        "region": told.region,
        "markets": [str(market) for market in told.markets],
        "asked": list(told.asked),
        "prices": [price_answer_block(one) for one in told.answers],
        "withdrawn": list(told.withdrawn),
        "returned": list(told.returned),
        "warnings": list(told.warnings),
        "file": told.file or None,
    }


def refresh_text(told: Refresh) -> str:
    """Counts, then what changed, what was refused and why, and where it is kept."""
    taken = [one for one in told.answers if one.told]
    changed = [one for one in taken if one.changed]
    refused = [one for one in told.answers if not one.told]
    lines = [
        f"{told.region}: {len(taken)} of {len(told.answers)} prices taken on {told.as_of}, "
        f"{len(changed)} of them new or changed; {len(refused)} refused."
    ]
    lines += _changes(changed) + _refusals(refused)
    lines += _named("No longer offered", told.withdrawn) + _named("Offered again", told.returned)
    lines += [f"Warning: {line}" for line in told.warnings]
    if told.file:
        lines.append(f"Kept in {told.file}; `advisor catalog refresh --forget` goes back.")
    return "\n".join(lines)


def _changes(changed: Sequence[PriceAnswer]) -> list[str]:
    rows = [
        [one.instance_type, str(one.market), _usd(one.before), _usd(one.told), _percent(one),
         one.told.terms if one.told else ""]
        for one in changed
    ]  # fmt: skip
    header = ["Changed", "market", "old", "new", "by", "terms"]
    return ["", *table(header, rows, right=(2, 3, 4)), ""] if rows else []


def _usd(price: Price | None) -> str:
    return format_usd(price.usd_per_hour) if price else "unknown"


def _percent(one: PriceAnswer) -> str:
    if one.before is None or one.told is None:
        return ""
    return f"{100 * (one.told.usd_per_hour / one.before.usd_per_hour - 1):+.3g} %"


def _refusals(refused: Sequence[PriceAnswer]) -> list[str]:
    """Implausible prices one by one; of the others, that many types share each reason."""
    lines = [
        f"Refused: {one.instance_type} ({one.market}): {one.why}; --accept-implausible takes it"
        for one in refused
        if one.not_believed is not None
    ]
    others = [one for one in refused if one.not_believed is None]
    for (market, why), count in Counter((one.market, one.why) for one in others).items():
        names = [one.instance_type for one in others if (one.market, one.why) == (market, why)]
        more = f" and {count - 5} more" if count > 5 else ""
        lines.append(f"No {market} price of {', '.join(names[:5])}{more}: {why}")
    return lines


def _named(title: str, names: Sequence[str]) -> list[str]:
    return [f"{title}: {', '.join(names)}"] if names else []


def kept_document(kept: Refreshed) -> dict[str, Any]:
    """What earlier refreshes left, as JSON-ready values."""
    return {
        "schema": KEPT_SCHEMA,
        "prices": [
            {"instance_type": name, "region": region, "market": str(market),
             **price_block(price)}
            for (name, region, market), price in sorted(kept.prices.items())
        ],
        "offerings": [
            {"instance_type": name, "region": region, "offered": there, "as_of": day.isoformat()}
            for (name, region), (there, day) in sorted(kept.offerings.items())
        ],
    }  # fmt: skip


def kept_text(kept: Refreshed) -> str:
    """The same for a terminal."""
    if not kept:
        return "nothing has been refreshed: the snapshot that ships answers"
    rows = [
        [name, region, str(market), _usd(one), one.kind, one.as_of.isoformat(), one.terms]
        for (name, region, market), one in sorted(kept.prices.items())
    ]
    header = ["instance", "region", "market", "per hour", "price", "as of", "terms"]
    lines = table(header, rows, right=(3,)) if rows else []
    gone = [
        f"{name} is not offered in {region} (told on {day})"
        for (name, region), (there, day) in sorted(kept.offerings.items())
        if not there
    ]
    return "\n".join(lines + gone)
