"""GCP: machine types with list, spot and commitment prices, persistent disks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from advisor.catalog.assumed import LOCAL_READ_IOPS_PER_GB
from advisor.infra.build.catalog import tables
from advisor.infra.build.catalog.hosts import cloud_part, gpu, host, no_gpu
from advisor.infra.build.catalog.tables import number, read_source, table
from advisor.infra.build.catalog.wide import (
    LIST_DAYS,
    SPOT_DAYS,
    Basis,
    CloudPart,
    PriceRow,
    Source,
    price_row,
    wide_prices,
)

Row = Mapping[str, str]
HOURS_PER_MONTH = 730
LIMITS_FILE = "catalog/gcp_disk_limits.csv"
LIMIT_HEADER = ("instance_type", "disk_type", "read_iops", "read_mib_s")
_CYCLENERD = "Cyclenerd/google-cloud-pricing-cost-calculator@fd66b26f"

SOURCE = Source(
    "gcp-fd66b26f",
    "2026-07-30",
    "Apache-2.0",
    f"{_CYCLENERD} (GCP price list)",
    "GCP types and prices",
    LIST_DAYS,
)
SPOT_SOURCE = Source(
    "gcp-spot-fd66b26f",
    SOURCE.as_of,
    SOURCE.licence,
    f"{_CYCLENERD} (GCP price list; spot)",
    "GCP spot prices",
    SPOT_DAYS,
)
DISK_RULES = Source(
    "gcp-disk-rules",
    "2024-01-01",
    "plain facts",
    "Compute Engine docs; opengovern/opengovernance@003004c0 (the same docs as code)",
    "GCP disk types",
)
DISK_PRICES = Source(
    "gcp-disks-fd66b26f", "2026-07-30", "Apache-2.0", _CYCLENERD, "GCP disk prices", LIST_DAYS
)
ATTACHED = Source(
    "gcp-n1-gpus",
    "2026-05-20",
    "Apache-2.0; none (published prices)",
    f"N1 of 2026-07-30 ({_CYCLENERD}) + GPUs of 2026-05-20 (anycloud-sh/catalog@62ff0a98)",
    "GCP prices of N1 with GPUs",
    LIST_DAYS,
)
ATTACHED_SPOT_SOURCE = Source(
    "gcp-n1-gpus-spot",
    ATTACHED.as_of,
    ATTACHED.licence,
    f"{ATTACHED.origin}; spot",
    "GCP spot prices of N1 with GPUs",
    SPOT_DAYS,
)
LIST = Basis("gcp", "list", "USD", SOURCE.id)
ATTACHED_LIST = Basis("gcpn1", "list", "USD", ATTACHED.id)
ATTACHED_SPOT = Basis("gcpn1spot", "observed", "USD", ATTACHED_SPOT_SOURCE.id)
# GPU -> number of GPUs -> largest vCPU count (Compute Engine, "GPU platforms", from memory).
_MOST_VCPUS = {
    "T4": {1: 48, 2: 48, 4: 96},
    "P4": {1: 24, 2: 48, 4: 96},
    "P100": {1: 16, 2: 32, 4: 64},
    "V100": {1: 12, 2: 24, 4: 48, 8: 96},
}
_N1_SHAPES = [
    (f"n1-{kind}-{vcpus}", vcpus) for kind in ("standard", "highmem") for vcpus in (4, 8, 16, 32, 64, 96)
]
SPOT = Basis("gcpspot", "observed", "USD", SPOT_SOURCE.id)
# Markets of the source -> markets of the bundle.
_MARKETS = {
    "on-demand": ("on-demand", LIST),
    "spot": ("spot", SPOT),
    "month-1y": ("commitment-1y", LIST),
    "month-3y": ("commitment-3y", LIST),
}


def build() -> CloudPart:
    """Build GCP's part; a commitment's month has 730 hours."""
    prices = wide_prices(read_source("catalog/gcp_prices.csv"), ("machine_type", "market"))
    rows = []
    for key, cells in prices.items():
        name, listed_as = key.split("/")
        market, basis = _MARKETS[listed_as]
        hourly = _hourly(cells) if listed_as.startswith("month-") else cells
        rows.append(price_row(name, market, hourly, basis.id))
    types = [_type(row) for row in read_source("catalog/gcp_machine_types.csv")]
    bases = (LIST, SPOT, ATTACHED_LIST, ATTACHED_SPOT)
    return cloud_part(
        *("gcp", SOURCE, [*types, *_with_gpus(types)], [*rows, *_prices_with_gpus(rows)], bases),
        more=[
            *tables.disk_tables("gcp", read_source("catalog/gcp_disk_rules.csv"), _disk_prices()),
            table(LIMITS_FILE, LIMIT_HEADER, _limits()),
        ],
        sources=(SPOT_SOURCE, DISK_RULES, DISK_PRICES, ATTACHED, ATTACHED_SPOT_SOURCE),
    )


def _attached() -> Iterator[tuple[str, str, str, int]]:
    """Type, its N1 machine, GPU, and number of GPUs: 'n1-standard-8+t4x2' has two T4."""
    for card, most in _MOST_VCPUS.items():
        for count, vcpus in most.items():
            for machine, has in _N1_SHAPES:
                if has <= vcpus:
                    yield f"{machine}+{card.lower()}x{count}", machine, card, count


def _with_gpus(types: Iterable[Row]) -> list[Row]:
    """N1 machines with GPUs attached."""
    by_name = {row["instance_type"]: row for row in types}
    return [
        dict(by_name[machine]) | gpu("gcp", card, str(count)) | {"instance_type": name, "source": ATTACHED.id}
        for name, machine, card, count in _attached()
    ]


def _prices_with_gpus(prices: Iterable[PriceRow]) -> list[PriceRow]:
    """Prices of machine and GPUs together, where both are priced."""
    of_machine = {(row.instance_type, row.market): row.cells for row in prices}
    columns = {
        "on-demand": ("usd_per_gpu_hour", ATTACHED_LIST.id),
        "spot": ("spot_usd_per_gpu_hour", ATTACHED_SPOT.id),
    }
    listed = read_source("catalog/gcp_attachable_gpus.csv")
    rows = []
    for name, machine, card, count in _attached():
        for market, (column, basis) in columns.items():
            host_usd = of_machine[machine, market]
            usd = {
                row["region"]: f"{float(host_usd[row['region']].price) + count * float(row[column]):.6g}"
                for row in listed
                if row["gpu"] == card and row["region"] in host_usd and row[column]
            }
            rows.append(price_row(name, market, usd, basis))
    return rows


def _type(row: Row) -> Row:
    name = row["machine_type"]
    series = name.partition("-")[0]
    count = float(row["gpu_count"])
    ssd = {"instance_store_nvme": "1"}
    if row["bundled_local_ssd"]:
        gb = _local_gb(row["bundled_local_ssd"])
        ssd |= {"instance_store_gb": gb, "assumed": LOCAL_READ_IOPS_PER_GB}
    card = gpu("gcp", row["gpu_name"], str(max(1, round(count))), min(1.0, count)) if count else {}
    return host("gcp", name, (name, series), row["vcpus"], row["memory_gb"]) | ssd | (card or no_gpu())


def _local_gb(gib: str) -> str:
    """Bundled local SSDs are sold as 375 GiB each; the types table has GB of 10**9 bytes."""
    return number(str(float(gib) * 2**30 / 1e9))


def _hourly(cells: Mapping[str, str]) -> dict[str, str]:
    return {r: f"{float(usd) / HOURS_PER_MONTH:.6g}" if usd else "" for r, usd in cells.items()}


def _disk_prices() -> list[tuple[str, ...]]:
    """Disk prices; a persistent disk is priced by size only."""
    return [
        (row["region"], row["disk_type"], number(row["usd_per_gb_month"]), "0:0", "0", DISK_PRICES.id)
        for row in read_source("catalog/gcp_disk_prices.csv")
    ]


def _limits() -> list[tuple[str, ...]]:
    """Limits of instances to disk traffic."""
    rows = read_source("catalog/gcp_disk_limits.csv")
    return [tuple(row[column] for column in LIMIT_HEADER) for row in rows]
