"""Neo-clouds in the bundle: types with their known facts, disks, prices and assumptions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from msgspec.structs import replace

from advisor.catalog.disk_orders import LISTED_COLUMNS
from advisor.infra.build.catalog.hosts import cloud_part, no_gpu, sheet_gib
from advisor.infra.build.catalog.neo import prices
from advisor.infra.build.catalog.neo.prices import on_demand
from advisor.infra.build.catalog.tables import (
    PRICES_FILE,
    RULE_COLUMNS,
    RULES_FILE,
    OutputTable,
    number,
    read_source,
    table,
)
from advisor.infra.build.catalog.wide import Basis, CloudPart, PriceRow, Source, price_row

ASSUMED_FILE = "catalog/assumed_facts.csv"
ASSUMED_HEADER = ("cloud", "fact", "value", "low", "high", "why")
# Clouds whose network disk has a published rule or price; other clouds have an assumed one.
_OWN_TYPES = {"nebius": "network-ssd", "oci": "balanced"}
_NEBIUS_USD_PER_GIB_MONTH = "0.071"


def build_disks(cloud: str, regions: Iterable[str]) -> list[OutputTable]:
    """The one network disk of a cloud, and its price in each region."""
    kind = _OWN_TYPES.get(cloud, "volume")
    rules = [row for row in read_source("catalog/neo_disk_rules.csv") if row["type"] == kind]
    cells = [[row[column] for column in RULE_COLUMNS] for row in rules]
    price, header = _price(cloud, kind), (*LISTED_COLUMNS, "kind", "low", "high")
    return [
        table(RULES_FILE.format(cloud), RULE_COLUMNS, cells),
        table(PRICES_FILE.format(cloud), header, [(region, kind, *price) for region in regions]),
    ]


def build_assumed() -> OutputTable:
    """Every assumed fact of every cloud; `ValueError` if a value is outside the range stated with it."""
    rows = read_source(ASSUMED_FILE)
    for row in rows:
        if not 0 < float(row["low"]) <= float(row["value"]) <= float(row["high"]):
            raise ValueError(f"{row['cloud']}: {row['fact']} is out of its range")
    return table(ASSUMED_FILE, ASSUMED_HEADER, [[row[c] for c in ASSUMED_HEADER] for row in rows])


def assumed_facts(cloud: str) -> dict[str, dict[str, str]]:
    """One cloud's assumed facts, by name of the fact."""
    rows = read_source(ASSUMED_FILE)
    return {row["fact"]: row for row in rows if cloud in row["cloud"].split()}


def _price(cloud: str, kind: str) -> tuple[str, ...]:
    """Price columns of a disk, starting with USD per GiB-month."""
    if cloud == "nebius":
        return (_NEBIUS_USD_PER_GIB_MONTH, "0:0", "0", prices.NEBIUS_DISKS.id, "list", "1", "1")
    row = assumed_facts(cloud)[f"{kind}.usd_per_gib_month"]
    value = float(row["value"])
    low, high = (number(f"{float(row[side]) / value:.6g}") for side in ("low", "high"))
    return (number(row["value"]), "0:0", "0", prices.ASSUMED.id, "estimated", low, high)


Row = Mapping[str, str]
# Source of each cloud's types.
CLOUDS = {
    "lambda": prices.LAMBDA,
    "runpod": prices.OFFERINGS,
    "nebius": prices.SHAPES,
    "verda": prices.SHAPES,
    "hyperstack": prices.SHAPES,
    "jarvislabs": prices.SHAPES,
    "oci": prices.OCI,
    "digitalocean": prices.OFFERINGS,
    "vultr": prices.OFFERINGS,
    "ovh": prices.OVH,
    "scaleway": prices.SHAPES,
    "civo": prices.CIVO,
    "paperspace": prices.PAPERSPACE,
    "leafcloud": prices.EUROS,
    "infomaniak": prices.EUROS,
    "vast": prices.VAST,
}
_PRICE_SOURCES = {
    one.id: one
    for one in (
        *(prices.LAMBDA, prices.HOURS, prices.OFFERINGS, prices.OCI, prices.CIVO),
        *(prices.PAPERSPACE, prices.EUROS, prices.OVH_EUROS, prices.VAST),
    )
}
_DISK_SOURCES = {"oci": (prices.OCI_DISKS,), "nebius": (prices.NEBIUS_DISKS,)}
# GPUs on Grace hosts, whose cores have one hardware thread.
_ARM_CARDS = ("GH200", "GB200", "GB300")
# Two tiers of one list: RunPod's own hosts, and other people's.
_TIERS = {"runpod": ("secure", "community")}


def build() -> list[CloudPart]:
    """Build the parts of all neo-clouds."""
    return [_cloud(cloud, source) for cloud, source in CLOUDS.items()]


def _cloud(cloud: str, source: Source) -> CloudPart:
    types: dict[str, Row] = {}
    left_out = []
    priced: list[PriceRow] = []
    bases: dict[str, Basis] = {}
    for row in _rows(cloud):
        card = _cards().get((cloud, row["card"]), {})
        told = on_demand(row, card.get("priced_as", ""), row.get("tier") or "on-demand")
        if told is None or (row["card"] and not card):
            left_out.append(row["instance_type"])
            continue
        types[row["instance_type"]] = _type(row, card.get("sheet", ""))
        priced += _price_rows(row, told.price, told.basis)
        bases[told.basis.id] = told.basis
    regions = sorted({region for row in priced for region in row.cells})
    lists = {basis.source: _PRICE_SOURCES[basis.source] for basis in bases.values()}
    part = cloud_part(
        *(cloud, source, types.values(), priced, bases.values()),
        more=build_disks(cloud, regions),
        sources=(*lists.values(), *_DISK_SOURCES.get(cloud, ()), prices.ASSUMED),
    )
    note = f"{cloud}: left out, no dated price or no data sheet: {', '.join(left_out) or 'none'}"
    if source is prices.OVH:
        part = _with_types_apart(part)
    return replace(part, as_of=max(one.as_of for one in lists.values()), notes=(note,))


def _with_types_apart(part: CloudPart) -> CloudPart:
    """Move facts under a different licence to a separate file."""
    types, *others = part.tables
    apart = replace(types, path=types.path.replace("catalog/", "sparecores/"))
    return replace(part, tables=(replace(types, rows=()), apart, *others))


def _rows(cloud: str) -> Iterator[dict[str, str]]:
    """A cloud's types from `neo_types.csv` with names; a cloud with tiers has a row for each tier."""
    listed = read_source("catalog/neo_types.csv")
    for row in _ovh(listed) if cloud == "ovh" else listed:
        if row["cloud"] == cloud and cloud in _TIERS:
            for tier in _TIERS[cloud]:
                yield row | {"instance_type": f"{_name(row)}.{tier}", "tier": tier}
        elif row["cloud"] == cloud:
            yield row | {"instance_type": row["instance_type"] or _name(row)}


def _name(row: Row) -> str:
    """The name for a type with one GPU, if the cloud names no type."""
    card = _cards().get((row["cloud"], row["card"]), {})
    return card.get("type_name") or f"1x-{card.get('priced_as', row['card'])}".replace(" ", "-")


def _ovh(listed: Iterable[Row]) -> Iterator[dict[str, str]]:
    """Types from SpareCores, and list prices by type, in euros."""
    own = {row["instance_type"]: row for row in listed if row["cloud"] == "ovh"}
    for row in read_source("sparecores/ovh_gpu_types.csv"):
        price = own.get(row["instance_type"], {})
        yield {
            "cloud": "ovh",
            "instance_type": row["instance_type"],
            "card": row["gpu_model"],
            "gpu_count": row["gpu_count"],
            "vcpus": row["vcpus"],
            "memory_gib": row["memory_gib"],
            "local_disk_gb": row["local_storage_gb"],
            "regions": "global",
            "price_per_hour": price.get("price_per_hour", ""),
            "currency": price.get("currency", ""),
        }


def _type(row: Row, sheet: str) -> Row:
    """A row of the types table; `assumed` names the facts that no source states."""
    arm = sheet.startswith(_ARM_CARDS)
    assumed = assumed_facts(row["cloud"])
    rests_on = [
        name
        for name, counts in (
            ("threads_per_core", not arm and bool(row["vcpus"])),
            ("local_disk_read_iops", bool(row.get("local_disk_gb"))),
        )
        if counts and name in assumed
    ]
    gpu = (
        {
            "gpu_vendor": "NVIDIA",
            "gpu_name": sheet,
            "gpu_count": row["gpu_count"],
            "gpu_fraction": "1",
            "gpu_memory_mib": str(round(sheet_gib()[sheet] * 1024)),
        }
        if sheet
        else no_gpu()
    )
    vcpus, memory = row["vcpus"], row["memory_gib"]
    return gpu | {
        "instance_type": row["instance_type"],
        "vcpus": vcpus,
        "physical_cores": vcpus and str(int(vcpus) if arm else max(1, int(vcpus) // 2)),
        "memory_mib": memory and str(round(float(memory) * 1024)),
        "cpu_architecture": "arm64" if arm else "x86_64",
        "instance_store_gb": row.get("local_disk_gb", ""),
        "instance_store_nvme": "1" if row.get("local_disk_gb") else "0",
        "burstable": "0",
        "current": "1",
        "assumed": " ".join(rests_on),
    }


def _price_rows(row: Row, price: str, basis: Basis) -> Iterator[PriceRow]:
    regions = row["regions"].split()
    yield price_row(row["instance_type"], "on-demand", dict.fromkeys(regions, price), basis.id)
    if row["cloud"] == "oci" and row["spot_price_per_hour"]:  # half the price, as Oracle lists it
        spot = dict.fromkeys(regions, number(row["spot_price_per_hour"]))
        yield price_row(row["instance_type"], "spot", spot, basis.id)


@cache
def _cards() -> dict[tuple[str, str], dict[str, str]]:
    """The data sheet of a GPU by the cloud's name for it, and its name in price lists."""
    rows = read_source("catalog/neo_cards.csv")
    return {(row["cloud"], row["card"]): row for row in rows}
