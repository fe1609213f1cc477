"""Checks a line of a price source against the catalogue: price, GPUs and size.

Imports, refreshes, `--live` and trackers share this rule. The largest change of a list price of a GPU type in
us-east-1 from 2022 to 2026 was a factor of 1.79 (p5.48xlarge, June 2025)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from os.path import commonprefix

from advisor.catalog.catalog import Catalog
from advisor.catalog.prices import is_gpu
from advisor.domain import ESTIMATED, InstanceType, Market, Price
from advisor.domain.gpu_names import gpus_named
from advisor.messages import format_usd

# A price that differs by more than this factor, up or down, is probably of another machine.
FACTOR = 3.0
# Believable shares of the on-demand price in the same region. In the catalogue, 79,526 spot prices of AWS,
# Google Cloud and Azure are 0.09 to 1.0 of it, and 52,611 commitments 0.3 to 0.82.
_SHARES = {Market.SPOT: (0.08, 1.05)}
_COMMITTED = (0.25, 1.0)
# Sources round vCPUs and RAM, and write GB for GiB.
_SAME_SIZE = 1.1

TOO_FAR = f"the price differs more than {FACTOR:g} times from the known one"
NO_GPUS = "the line has no GPU, and the type has: the price of the host alone"
OTHER_GPUS = "the line has other GPUs, or another number of them, than the type has"
OTHER_SIZE = "the line has other vCPUs or RAM than the type has"


def why_not_believed(usd: float, known: Catalog, cloud: str, name: str, region: str, market: Market) -> str:
    """The reason why a price is implausible; "" where it is plausible, or no known price compares with it.

    It is compared with the price of the same market and region. Without one, an on-demand price is compared
    with that of the most similar region name, any other with the on-demand price. Small steps add up, so it
    is compared with the snapshot's price too, unless a price far from that was accepted before."""
    price = _listed(known, cloud, name, region, market)
    first = _listed(known.shipped, cloud, name, region, market)
    if price and first and 1 / FACTOR <= price.usd_per_hour / first.usd_per_hour <= FACTOR:
        price = max(price, first, key=lambda known_price: abs(math.log(usd / known_price.usd_per_hour)))
    least, most, allowed = 1 / FACTOR, FACTOR, f"more than a factor of {FACTOR:g}"
    if price is None and market is not Market.ON_DEMAND:
        least, most = _SHARES.get(market, _COMMITTED)
        allowed = f"on demand; {least:g} to {most:g} times can be believed"
    if price is None:
        on_demand = _listed(known, cloud, name, region, Market.ON_DEMAND)
        price = on_demand or _nearest_price(known, cloud, name, region)
    if price is None or least <= usd / price.usd_per_hour <= most:
        return ""
    return (
        f"{format_usd(usd)}/h is {usd / price.usd_per_hour:.3g} times the known "
        f"{format_usd(price.usd_per_hour)}/h ({price.kind}, {price.as_of}), {allowed}"
    )


def _listed(known: Catalog, cloud: str, name: str, region: str, market: Market) -> Price | None:
    """The known price of a type; None without one, and for an estimate."""
    price = known.price(name, region, market, cloud)
    return price if price and price.usd_per_hour and price.kind != ESTIMATED else None


def _nearest_price(known: Catalog, cloud: str, name: str, region: str) -> Price | None:
    """The on-demand price in the region whose name is most similar: 'eu-west-1' for 'eu-west-9'."""
    priced = {
        other: price
        for other in known.regions(cloud)
        if (price := _listed(known, cloud, name, other, Market.ON_DEMAND))
    }
    nearest = max(priced, key=lambda other: len(commonprefix([other, region])), default=None)  # noqa: RUF071
    return priced[nearest] if nearest else None


def contradiction(facts: Mapping[str, float | str], known: InstanceType, sheets: Iterable[str]) -> str:
    """Why a line is not of the known type that it names: GPUs, vCPUs or RAM differ; "" where it may be.
    `facts` are the `own_offers.FACTS` in the line, `sheets` the names of data sheets."""
    gpu_count = facts.get("gpu_count")
    if known.gpu_count and gpu_count == 0:
        return NO_GPUS
    if _has_other_gpus(facts, known, sheets):
        return OTHER_GPUS
    sizes = (("vcpus", known.vcpus), ("memory_gib", known.memory_mib / 1024))
    same = (1 / _SAME_SIZE <= float(facts[key]) / size <= _SAME_SIZE for key, size in sizes if key in facts)
    return "" if all(same) else OTHER_SIZE


def _has_other_gpus(facts: Mapping[str, float | str], known: InstanceType, sheets: Iterable[str]) -> bool:
    """True if a line has other GPUs than the type; lists write shares and other accelerators differently."""
    gpu_count, name = facts.get("gpu_count"), facts.get("gpu_name")
    if known.gpu_name is None:
        return bool(gpu_count) and known.accelerator is None
    if known.gpu_fraction == 1 and gpu_count not in (None, known.gpu_count):
        return True
    return name is not None and not is_gpu(known.gpu_name, str(name)) and bool(gpus_named(str(name), sheets))
