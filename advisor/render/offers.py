"""Priced offers for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.catalog import PartialOffer
from advisor.catalog.assumed import THREADS_PER_CORE
from advisor.catalog.instances import PartialType
from advisor.catalog.prices import RATE_VARIABLE
from advisor.domain import InstanceType, Offer
from advisor.render.text import fitting_table
from advisor.units import format_mib, format_usd

# A terminal's worth; JSON has no limit.
SHOWN_OFFERS = 40
# An offer, and the currency of its price.
Listed = tuple[Offer | PartialOffer, str]


def offers_text(offers: Sequence[Listed], total: int) -> str:
    """A line an offer, in their order, and how many more of the `total` there are."""
    if not offers:
        return "No offer in the catalogue is like this."
    lines = _table(list(map(_cells, offers)))
    if any("* " in line for line in lines):
        lines.append("* assumed: `advisor catalog show TYPE` has range and reason")
    if total > len(offers):
        more = f"{total - len(offers):,}"
        lines.append(f"... and {more} more; filter, or take all with -o json")
    for currency in dict.fromkeys(currency for _, currency in offers if currency != "USD"):
        lines.append(f"{currency}: {RATE_VARIABLE.format(currency)}=0.9 says what a dollar is worth")
    return "\n".join(lines)


def _cells(listed: Listed) -> list[str]:
    """Its cells; `?` is what a partial offer does not tell."""
    offer, currency = listed
    price, facts = offer.price, offer.type if isinstance(offer, PartialOffer) else offer.instance
    cores = "?" if isinstance(offer, PartialOffer) else _cores(offer.instance)
    return [
        facts.cloud,
        facts.name,
        offer.region,
        _gpu(facts),
        str(facts.vcpus or "?"),
        cores,
        format_mib(facts.memory_mib) if facts.memory_mib else "?",
        hourly_text(price.usd_per_hour, currency) if price.usd_per_hour else "free",
        str(offer.market),
        price.kind,
        price.as_of.isoformat(),
        price.terms,
        _closed(offer),
    ]


def _closed(offer: Offer | PartialOffer) -> str:
    """'retired 2025-09-30'; what can be ordered says nothing."""
    closed = offer.closed if isinstance(offer, Offer) else None
    return f"{closed.status.replace('_', ' ')} {closed.as_of or ''}".strip() if closed else ""


def _gpu(facts: InstanceType | PartialType) -> str:
    """'1 x T4', or what computes there and is no GPU."""
    if facts.gpu_name:
        return f"{facts.gpu_count or '?'} x {facts.gpu_name}"
    return (facts.accelerator if isinstance(facts, InstanceType) else None) or "-"


def _cores(instance: InstanceType) -> str:
    """'6', and '6*' where nobody tells how many vCPUs a core has."""
    assumed = any(fact.name == THREADS_PER_CORE and not fact.told for fact in instance.assumed)
    return f"{instance.physical_cores}{'*' if assumed else ''}"


def _table(rows: list[list[str]]) -> list[str]:
    """Without what has no room, and JSON has."""
    header = ["cloud", "instance", "region", "gpu", "vcpus", "cores", "memory", "per hour"]
    header += ["market", "price", "as of", "terms", "not orderable"]
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    left = ("cloud", "instance", "region", "gpu", "market", "price", *header[-3:])
    if not any(columns["not orderable"]):
        del columns["not orderable"]
    return fitting_table(columns, left, ("terms", "cores", "memory", "vcpus", "as of", "gpu"))


def hourly_text(per_hour: float, currency: str) -> str:
    """'$1.006', 'EUR 1.006'."""
    return format_usd(per_hour).replace("$", "$" if currency == "USD" else f"{currency} ")
