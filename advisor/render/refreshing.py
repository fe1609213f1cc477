"""The results of a price refresh, and the kept ones of earlier refreshes: text and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from advisor.catalog.overlay import Overlay
from advisor.domain import Price
from advisor.domain.live import PriceAnswer, Refresh
from advisor.render.records import price_answer_block, price_block
from advisor.render.text import table
from advisor.units import format_usd

SCHEMA = "advisor.catalog-refresh/1"
KEPT_SCHEMA = "advisor.catalog-refreshed/1"


def refresh_document(refresh: Refresh) -> dict[str, Any]:
    """The whole summary as JSON-ready values."""
    return {
        "schema": SCHEMA,
        "as_of": refresh.as_of.isoformat(),
        "cloud": refresh.cloud,
        "region": refresh.region,
        "markets": [str(market) for market in refresh.markets],
        "asked": list(refresh.names),
        "prices": [price_answer_block(answer) for answer in refresh.answers],
        "withdrawn": list(refresh.withdrawn),
        "returned": list(refresh.returned),
        "warnings": list(refresh.warnings),
        "file": refresh.file or None,
    }


def refresh_text(refresh: Refresh) -> str:
    """Counts, then what changed, what was refused and why, and where it is kept."""
    taken = [answer for answer in refresh.answers if answer.price]
    changed = [answer for answer in taken if answer.changed]
    refused = [answer for answer in refresh.answers if not answer.price]
    lines = [
        f"{refresh.region}: {len(taken)} of {len(refresh.answers)} prices taken on "
        f"{refresh.as_of}, {len(changed)} of them new or changed; {len(refused)} refused."
    ]
    lines += _changes(changed) + _refusals(refused)
    lines += _named("No longer offered", refresh.withdrawn) + _named("Offered again", refresh.returned)
    lines += [f"Warning: {line}" for line in refresh.warnings]
    if refresh.file:
        lines.append(f"Kept in {refresh.file}; `advisor catalog refresh --forget` goes back.")
    return "\n".join(lines)


def _changes(changed: Sequence[PriceAnswer]) -> list[str]:
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
    return ["", *table(header, rows, right=(2, 3, 4)), ""] if rows else []


def _usd(price: Price | None) -> str:
    return format_usd(price.usd_per_hour) if price else "unknown"


def _percent(answer: PriceAnswer) -> str:
    if answer.before is None or answer.price is None:
        return ""
    return f"{100 * (answer.price.usd_per_hour / answer.before.usd_per_hour - 1):+.3g} %"


def _refusals(refused: Sequence[PriceAnswer]) -> list[str]:
    """Implausible prices one by one; of the others, that many types share each reason."""
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


def _named(title: str, names: Sequence[str]) -> list[str]:
    return [f"{title}: {', '.join(names)}"] if names else []


def kept_document(kept: Mapping[str, Overlay]) -> dict[str, Any]:
    """The kept prices and offerings of each cloud, as JSON-ready values."""
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
    """The kept prices and offerings as a table."""
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
