"""Checks a line of a price source against the catalogue: price, GPUs and size.

The one rule for imports, refreshes, `--live` and trackers. The largest change of a list price of a GPU type
in us-east-1 from 2022 to 2026 was a factor of 1.79 (p5.48xlarge, June 2025)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from advisor.catalog.catalog import Catalog
from advisor.catalog.match import is_gpu
from advisor.domain import ESTIMATED, InstanceType, Market, Price
from advisor.domain.gpu_names import gpus_named
from advisor.units import format_usd

# A price further from the known one, either way, is probably that of another machine.
FACTOR = 3.0
# Parts of the price on demand in the same region: of 79,526 spot prices of AWS, Google Cloud and
# Azure in the catalogue 0.09 to 1.0, of 52,611 commitments 0.3 to 0.82.
_SHARES = {Market.SPOT: (0.08, 1.05)}
_COMMITTED = (0.25, 1.0)
# vCPUs and RAM as sources round them, and GB told as GiB.
_SAME_SIZE = 1.1

TOO_FAR = f"the price differs more than {FACTOR:g} times from the known one"
NO_GPUS = "the line has no GPU, and the type has: the price of the host alone"
OTHER_GPUS = "the line has other GPUs, or another number of them, than the type has"
OTHER_SIZE = "the line has other vCPUs or RAM than the type has"


def why_not_believed(usd: float, known: Catalog, cloud: str, name: str, region: str, market: Market) -> str:
    """Why a price is not believed; "" where it is, or where nothing is known to hold it to.

    It is held to the price of the same market there; else, on demand, to that of the region whose name is
    most like it, and on other markets to the price on demand. Small steps add up, so that it is held to the
    snapshot's price too, until one that is far from that was accepted."""
    price = _listed(known, cloud, name, region, market)
    first = _listed(known.shipped, cloud, name, region, market)
    if price and first and 1 / FACTOR <= price.usd_per_hour / first.usd_per_hour <= FACTOR:
        price = max(price, first, key=lambda known_price: abs(math.log(usd / known_price.usd_per_hour)))
    least, most, allowed = 1 / FACTOR, FACTOR, f"more than a factor of {FACTOR:g}"
    if price is None and market is not Market.ON_DEMAND:
        least, most = _SHARES.get(market, _COMMITTED)
        allowed = f"on demand; {least:g} to {most:g} times can be believed"
    if price is None:
        price = _listed(known, cloud, name, region, Market.ON_DEMAND) or _nearest(known, cloud, name, region)
    if price is None or least <= usd / price.usd_per_hour <= most:
        return ""
    return (
        f"{format_usd(usd)}/h is {usd / price.usd_per_hour:.3g} times the known "
        f"{format_usd(price.usd_per_hour)}/h ({price.kind}, {price.as_of}), {allowed}"
    )


def _listed(known: Catalog, cloud: str, name: str, region: str, market: Market) -> Price | None:
    """The price that is known of it, unless it is an estimate, or nothing."""
    price = known.price(name, region, market, cloud)
    return price if price and price.usd_per_hour and price.kind != ESTIMATED else None


def _nearest(known: Catalog, cloud: str, name: str, region: str) -> Price | None:
    """On demand, in the region whose name begins most like it: 'eu-west-9' as 'eu-west-1'."""
    priced = {
        other: price
        for other in known.regions(cloud)
        if (price := _listed(known, cloud, name, other, Market.ON_DEMAND))
    }
    alike = max(priced, key=lambda other: _same_start(other, region), default=None)
    return priced[alike] if alike else None


def _same_start(first: str, other: str) -> int:
    return next((index for index, (x, y) in enumerate(zip(first, other, strict=False)) if x != y), len(first))


def contradiction(facts: Mapping[str, float | str], known: InstanceType, sheets: Iterable[str]) -> str:
    """Why a line is not of the known type that it names ("" where it may be): other GPUs, vCPUs
    or RAM. `facts` are those of `own_offers.FACTS` that the line tells; `sheets` name GPUs."""
    gpu_count = facts.get("gpu_count")
    if known.gpu_count and gpu_count == 0:
        return NO_GPUS
    if _has_other_gpus(facts, known, sheets):
        return OTHER_GPUS
    sizes = (("vcpus", known.vcpus), ("memory_gib", known.memory_mib / 1024))
    same = (1 / _SAME_SIZE <= float(facts[key]) / size <= _SAME_SIZE for key, size in sizes if key in facts)
    return "" if all(same) else OTHER_SIZE


def _has_other_gpus(facts: Mapping[str, float | str], known: InstanceType, sheets: Iterable[str]) -> bool:
    """A share of a GPU is told in many ways, and other accelerators count as GPUs in some lists."""
    gpu_count, name = facts.get("gpu_count"), facts.get("gpu_name")
    if known.gpu_name is None:
        return bool(gpu_count) and known.accelerator is None
    if known.gpu_fraction == 1 and gpu_count not in (None, known.gpu_count):
        return True
    return name is not None and not is_gpu(known.gpu_name, str(name)) and bool(gpus_named(str(name), sheets))
