"""Prices of neo-cloud types: from the cloud's own list, or from GPU-hour prices."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from advisor.infra.build.catalog.tables import number, read_source
from advisor.infra.build.catalog.wide import Basis, Source, price_cell

MAX_AGE_DAYS = 30
NOTE = (
    "newer prices of rented GPUs are not known offline and may differ by a third "
    "(`advisor catalog import` takes the file of a price tracker)"
)
_SKYPILOT = "skypilot-org/skypilot-catalog"

LAMBDA = Source(
    "anycloud-62ff0a98",
    "2026-05-20",
    "none (published prices)",
    "anycloud-sh/catalog@62ff0a98 (Lambda's list)",
    "Lambda types and prices",
    MAX_AGE_DAYS,
    NOTE,
)
SHAPES = Source(
    "skypilot-catalog",
    "2026-01-01",
    "Apache-2.0",
    f"{_SKYPILOT} v8 nebius@0082b043 verda@538675a0 hyperstack@fdc9d908 jarvislabs@57d65781; "
    "v6 scaleway@1fbe7331; v5 do@470429fd (vCPUs; RAM; regions)",
    "types of Nebius and others",
    MAX_AGE_DAYS,
)
OCI = Source(
    "oci-05887511",
    "2026-01-01",
    "Apache-2.0",
    f"{_SKYPILOT}@05887511 v8/oci (one price in every region; month not known)",
    "OCI types and prices",
    365,
)
OCI_DISKS = Source(
    "oci-block-volumes",
    "2026-11-22",
    "plain facts",
    "docs.oracle.com Content/Block/Concepts/blockvolumebalancedperformance.htm",
    "OCI disk types",
)
HOURS = Source(
    "gpurentalprices",
    "2026-08-22",
    "CC BY 4.0",
    "gpurentalprices.com (adriannutiu/gpu-rental-prices@ae6435ad): price of a GPU hour",
    "GPU hours of neo-clouds",
    MAX_AGE_DAYS,
    NOTE,
)
OFFERINGS = Source(
    "gpu-pricing-8f09a680",
    "2026-05-24",
    "MIT",
    "tardellirs/gpu-pricing@8f09a680",
    "older GPU hours of neo-clouds",
    MAX_AGE_DAYS,
    NOTE,
)
NEBIUS_DISKS = Source(
    "nebius-disks",
    "2026-05-20",
    "plain facts",
    "Nebius' list: network SSD at 0.071 USD a GiB-month",
    "Nebius disk prices",
    MAX_AGE_DAYS,
)
CIVO = Source(
    "eu-cloud-prices-ec4a406a",
    "2026-05-20",
    "none (published prices)",
    "mixxor/eu-cloud-prices@ec4a406a",
    "Civo types and prices",
    MAX_AGE_DAYS,
    NOTE,
)
PAPERSPACE = Source(
    "skypilot-paperspace",
    "2024-01-01",
    "Apache-2.0",
    f"{_SKYPILOT}@9ac57f4d v5/paperspace (of 2024 or 2025; day not known)",
    "Paperspace types and prices",
    MAX_AGE_DAYS,
    NOTE,
)
# Lists in euros: no source gives an exchange rate to dollars.
EUROS = Source(
    "eu-cloud-prices-eur",
    "2026-05-20",
    CIVO.licence,
    f"{CIVO.origin} (EUR)",
    "types and prices in euros",
    MAX_AGE_DAYS,
    NOTE,
)
OVH_EUROS = Source(
    "eu-cloud-prices-ovh",
    "2026-08-14",
    CIVO.licence,
    f"{CIVO.origin} (EUR)",
    "OVH prices in euros",
    MAX_AGE_DAYS,
    NOTE,
)
VAST = Source(
    "anycloud-vast",
    "2026-05-07",
    "none (published prices)",
    "anycloud-sh/catalog@62ff0a98 (offers on Vast.ai at one moment)",
    "Vast.ai offers",
    MAX_AGE_DAYS,
    NOTE,
)
OVH = Source(
    "sparecores-ovh",
    "2026-01-15",
    "CC BY-SA 4.0",
    "SpareCores sparecores-data 0.3.4 (vendor ovh)",
    "OVH types",
    MAX_AGE_DAYS,
)
ASSUMED = Source(
    "assumed",
    "2026-11-23",
    "plain facts",
    "assumed: infra/sources/catalog/assumed_facts.csv gives the reason and the range",
    "assumed facts",
)

BY_TYPE = Basis("neo-type", "list", "USD", LAMBDA.id)
BY_HOUR = Basis("neo-hour", "list", "USD", HOURS.id)
# GPUs that the August list does not have.
BY_HOUR_OF_MAY = Basis("neo-hour-may", "list", "USD", OFFERINGS.id)
# Other people's hosts: 16 RunPod prices were 1.000 to 1.015 times as high three months later.
COMMUNITY = Basis("neo-community", "observed", "USD", HOURS.id, 1.0, 1.02, "other people's hosts")
# GPU price from the August list; vCPUs and RAM (13 to 51 % of the price) at an undated rate. Within 90 days,
# neo-cloud prices changed to 0.96 to 1.45 times the former price.
IN_PARTS = Basis("neo-parts", "estimated", "USD", HOURS.id, 0.98, 1.23)
# In the list, prices of one to four GPUs are linear within 0.65 %.
TIMES_COUNT = Basis("neo-count", "estimated", "USD", HOURS.id, 0.99, 1.01)
OCI_LIST = Basis("oci", "list", "USD", OCI.id)
CIVO_LIST = Basis("civo", "list", "USD", CIVO.id)
PAPERSPACE_LIST = Basis("paperspace", "list", "USD", PAPERSPACE.id)
EURO_LIST = Basis("euro", "list", "EUR", EUROS.id)
OVH_EURO_LIST = Basis("ovh-euro", "list", "EUR", OVH_EUROS.id)
# A snapshot of a marketplace; the interval is a judgement.
VAST_SEEN = Basis("vast", "observed", "USD", VAST.id, 0.8, 1.5, "other people's hosts")


Row = Mapping[str, str]
# Nebius adds vCPUs and RAM to an L40S: 0.016 USD per vCPU and 0.0022 per GiB give all 12 list prices to the
# cent (equal to 0.0248 per vCPU with 4 GiB).
NEBIUS_VCPU_USD, NEBIUS_GIB_USD = 0.016, 0.0022
# Largest relative difference at which a price by type and one by GPU hour count as equal.
SAME_PRICE = 0.005
_OWN_LISTS = {
    "oci": OCI_LIST,
    "civo": CIVO_LIST,
    "vast": VAST_SEEN,
    "paperspace": PAPERSPACE_LIST,
    "leafcloud": EURO_LIST,
    "infomaniak": EURO_LIST,
}


class Told(NamedTuple):
    """An hourly price as text, in the currency of its basis, and the basis."""

    price: str
    basis: Basis


def on_demand(row: Row, priced_as: str, tier: str = "on-demand") -> Told | None:
    """The price of a row of `neo_types.csv`; `priced_as` is the GPU's name in price lists. None if no list
    has a price."""
    hour = _hours().get((row["cloud"], priced_as, tier))
    if row["cloud"] == "lambda":
        return _by_type(row, hour)
    if row["cloud"] in _OWN_LISTS:
        return _as_listed(row, _OWN_LISTS[row["cloud"]])
    if row.get("price_per_hour"):
        return _as_listed(row, OVH_EURO_LIST)
    return _by_hour(row, *hour, tier) if hour else None


def _by_type(row: Row, hour: tuple[float, Basis] | None) -> Told:
    """Lambda's price of a whole type, on the basis of the later GPU-hour list if that confirms it."""
    usd = float(row["price_per_hour"])
    if hour and abs(hour[0] * int(row["gpu_count"]) / usd - 1) <= SAME_PRICE:
        return _as_listed(row, BY_HOUR)
    return _as_listed(row, BY_TYPE)


def _as_listed(row: Row, basis: Basis) -> Told:
    """A listed price; `ValueError` if its currency is not the list's."""
    if row["currency"] != basis.currency:
        raise ValueError(f"{row['instance_type']}: {row['currency']}, not {basis.currency}")
    return Told(price_cell(row["price_per_hour"], row["instance_type"]), basis)


def _by_hour(row: Row, usd: float, basis: Basis, tier: str) -> Told:
    count = int(row["gpu_count"])
    if row["cloud"] == "nebius" and row["card"] == "L40S":
        host = NEBIUS_VCPU_USD * int(row["vcpus"]) + NEBIUS_GIB_USD * float(row["memory_gib"])
        return Told(_written(usd * count + host), IN_PARTS)
    if tier == "community":
        basis = COMMUNITY
    elif row["cloud"] == "ovh" and count > 1:
        basis = TIMES_COUNT
    return Told(_written(usd * count), basis)


def _written(usd: float) -> str:
    return number(f"{usd:.6g}")


@cache
def _hours() -> dict[tuple[str, str, str], tuple[float, Basis]]:
    """USD per GPU hour by cloud, GPU and tier. The lists name GPUs differently, so a GPU that is in the later
    list has only the later price."""
    bases = {basis.source: basis for basis in (BY_HOUR, BY_HOUR_OF_MAY)}
    return {
        (row["cloud"], row["card"], row["tier"]): (float(row["usd_per_gpu_hour"]), bases[row["source"]])
        for row in read_source("catalog/neo_gpu_hours.csv")
    }
