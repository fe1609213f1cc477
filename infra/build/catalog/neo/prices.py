"""What a type of a neo-cloud costs: as its own list says, or its GPUs by the hour."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from advisor.infra.build.catalog.neo import sources
from advisor.infra.build.catalog.tables import number, read_source
from advisor.infra.build.catalog.wide import Basis, price_cell

Row = Mapping[str, str]
# Nebius adds vCPUs and RAM to an L40S: 0.016 USD a vCPU and 0.0022 a GiB give all of its 12 prices
# to the cent (and 0.0248 a vCPU with 4 GiB).
NEBIUS_VCPU_USD, NEBIUS_GIB_USD = 0.016, 0.0022
# A list by type and one by the GPU hour tell the same price within so much.
SAME_PRICE = 0.005
_OWN_LISTS = {
    "oci": sources.OCI_LIST,
    "civo": sources.CIVO_LIST,
    "vast": sources.VAST_SEEN,
    "paperspace": sources.PAPERSPACE_LIST,
    "leafcloud": sources.EURO_LIST,
    "infomaniak": sources.EURO_LIST,
}


class Told(NamedTuple):
    """A price by the hour as it is written, in the currency of the basis: how it is known."""

    price: str
    basis: Basis


def on_demand(row: Row, priced_as: str, tier: str = "on-demand") -> Told | None:
    """The price of a row of `neo_types.csv` whose card the price lists call `priced_as`; None where
    no list has it."""
    hour = _hours().get((row["cloud"], priced_as, tier))
    if row["cloud"] == "lambda":
        return _by_type(row, hour)
    if row["cloud"] in _OWN_LISTS:
        return _as_listed(row, _OWN_LISTS[row["cloud"]])
    if row.get("price_per_hour"):
        return _as_listed(row, sources.OVH_EURO_LIST)
    return _by_hour(row, *hour, tier) if hour else None


def _by_type(row: Row, hour: tuple[float, Basis] | None) -> Told:
    """Lambda lists whole types; the later list by the GPU hour confirms the price of many."""
    usd = float(row["price_per_hour"])
    if hour and abs(hour[0] * int(row["gpu_count"]) / usd - 1) <= SAME_PRICE:
        return _as_listed(row, sources.BY_HOUR)
    return _as_listed(row, sources.BY_TYPE)


def _as_listed(row: Row, basis: Basis) -> Told:
    """`ValueError` for a price in another currency than the list's."""
    if row["currency"] != basis.currency:
        raise ValueError(f"{row['instance_type']}: {row['currency']}, not {basis.currency}")
    return Told(price_cell(row["price_per_hour"], row["instance_type"]), basis)


def _by_hour(row: Row, usd: float, basis: Basis, tier: str) -> Told:
    count = int(row["gpu_count"])
    if row["cloud"] == "nebius" and row["card"] == "L40S":
        host = NEBIUS_VCPU_USD * int(row["vcpus"]) + NEBIUS_GIB_USD * float(row["memory_gib"])
        return Told(_written(usd * count + host), sources.IN_PARTS)
    if tier == "community":
        basis = sources.COMMUNITY
    elif row["cloud"] == "ovh" and count > 1:
        basis = sources.TIMES_COUNT
    return Told(_written(usd * count), basis)


def _written(usd: float) -> str:
    return number(f"{usd:.6g}")


@cache
def _hours() -> dict[tuple[str, str, str], tuple[float, Basis]]:
    """USD for a GPU hour by cloud, card and tier. The names of the two lists differ, so that a card
    has the later price wherever the later list has it."""
    bases = {basis.source: basis for basis in (sources.BY_HOUR, sources.BY_HOUR_OF_MAY)}
    return {
        (row["cloud"], row["card"], row["tier"]): (float(row["usd_per_gpu_hour"]), bases[row["source"]])
        for row in read_source("catalog/neo_gpu_hours.csv")
    }
