"""GCP, Azure and Alibaba: types with the facts that are known, and their prices.

A fact that no file at hand gives stays empty, and a type that lacks one is listed, never ranked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from advisor.catalog.instances import TYPE_COLUMNS
from infra.catalog_build import wide
from infra.catalog_build.tables import OutputTable, number, read_source, table
from infra.catalog_build.wide import Basis, PriceRow, price_table, region_sets, wide_prices

Row = Mapping[str, str]
Prices = Mapping[str, Mapping[str, str]]
HOURS_PER_MONTH = 730
# A GPU that no file at hand names.
UNNAMED = "unnamed GPU"
# Standard_NC4as_T4_v3: sub-family NC, 4 vCPUs, features, then the card and the version.
_AZURE_HOST = re.compile(r"^Standard_(N[A-Z]+?)(\d+)")
_AZURE_CARD = re.compile(r"_([A-Z]{1,6}\d{1,4}[A-Z]*)(?:_v\d+)?$")
_AZURE_VERSION = re.compile(r"_v\d+$")
# Cards that are not NVIDIA's.
_AMD = ("MI300X", "V620", "V710")


@dataclass(frozen=True, slots=True)
class CloudPart:
    """Everything of one cloud but its disks."""

    name: str
    tables: tuple[OutputTable, ...]


def build_gcp() -> CloudPart:
    """Machine types with list, spot and commitment prices; a commitment's month is 730 hours."""
    prices = wide_prices(read_source("catalog/gcp_prices.csv"), ("machine_type", "market"))
    hourly = {k: _hourly(cells) if "/month-" in k else cells for k, cells in prices.items()}
    rows = [_gcp_type(row) for row in read_source("catalog/gcp_machine_types.csv")]
    return _part("gcp", rows, hourly, wide.GCP)


def build_alibaba() -> CloudPart:
    """Types and prices in CNY; what the list says costs 0 has no known price."""
    prices = wide_prices(read_source("catalog/alibaba_prices.csv"), ("instance_type", "market"))
    rows = [_alibaba_type(row) for row in read_source("catalog/alibaba_instance_types.csv")]
    return _part("alibaba", rows, prices, wide.ALIBABA)


def build_azure() -> CloudPart:
    """GPU sizes: the name has vCPUs and often the card; RAM and the GPU count are not known."""
    by_size = wide_prices(read_source("catalog/azure_prices.csv"), ("vm_size",))
    prices = {f"{size}/on-demand": cells for size, cells in by_size.items()}
    return _part("azure", [_azure_type(s) for s in by_size], prices, wide.AZURE)


def _part(
    cloud: str, types: Iterable[Row], prices: Prices, by_market: Mapping[str, Basis]
) -> CloudPart:
    price_rows = [
        PriceRow(name, by_market[market], prices[f"{name}/{market}"])
        for name, market in (key.split("/") for key in prices)
    ]
    offered: dict[str, set[str]] = {}
    for row in price_rows:
        regions = {region for region, cell in row.cells.items() if cell}
        offered.setdefault(row.instance_type, set()).update(regions)
    sets, set_of = region_sets(f"catalog/{cloud}_region_sets.csv", offered)
    source = by_market["on-demand"].source
    placed = [
        dict(row) | {"region_set": set_of[row["instance_type"]], "source": source}
        for row in types
        if row["instance_type"] in set_of
    ]
    type_rows = [tuple(row.get(column, "") for column in TYPE_COLUMNS) for row in placed]
    return CloudPart(
        cloud,
        (
            table(f"catalog/{cloud}_instance_types.csv", TYPE_COLUMNS, type_rows),
            sets,
            price_table(f"catalog/{cloud}_prices.csv", price_rows),
        ),
    )


def _gcp_type(row: Row) -> Row:
    name = row["machine_type"]
    series = name.partition("-")[0]
    count = float(row["gpu_count"])
    gpu = _gpu("gcp", row["gpu_name"], str(max(1, round(count))), min(1.0, count)) if count else {}
    return (
        _host("gcp", name, (name, series), row["vcpus"], row["memory_gb"])
        | {"instance_store_gb": _local_gb(row["bundled_local_ssd"]), "instance_store_nvme": "1"}
        | (gpu or _no_gpu())
    )


def _alibaba_type(row: Row) -> Row:
    name = row["instance_type"]
    family = re.split(r"[-.]", name.removeprefix("ecs."))[0]
    facts = _host("alibaba", name, (family,), row["vcpus"], row["memory_gib"])
    # The list counts whole GPUs even where a share is sold; the families say which.
    return facts | (_gpu("alibaba", family, row["gpus"]) if row["gpus"] != "0" else _no_gpu())


def _azure_type(size: str) -> Row:
    host, card = _AZURE_HOST.match(size), _AZURE_CARD.search(size)
    version = _AZURE_VERSION.search(size)
    group, vcpus = host.groups() if host else ("", "")
    named = [group, card.group(1) if card else "", version.group()[1:] if version else "v1"]
    sheet = _gpu_families().get(("azure", "_".join(part for part in named if part)), {})
    return {
        "instance_type": size,
        "vcpus": vcpus,
        "cpu_architecture": "arm64" if "GB200" in size else "x86_64",
        "gpu_vendor": "AMD" if named[1] in _AMD or group == "NG" else "NVIDIA",
        "gpu_name": sheet.get("sheet") or named[1] or UNNAMED,
        "current": "1",
    }


def _host(
    cloud: str, name: str, keys: Iterable[str], vcpus: str, memory_gib: str
) -> dict[str, str]:
    families = _cpu_families()
    family = next((families[cloud, key] for key in keys if (cloud, key) in families), {})
    threads = int(family.get("threads_per_core", 2))
    whole = max(1, int(float(vcpus)))
    return {
        "instance_type": name,
        "vcpus": str(whole),
        "physical_cores": str(max(1, whole // threads)),
        "memory_mib": str(round(float(memory_gib) * 1024)),
        "cpu_architecture": family.get("cpu_architecture", "x86_64"),
        "burstable": family.get("shared", "0"),
        "current": "1",
    }


def _gpu(cloud: str, key: str, count: str, share: float = 1.0) -> dict[str, str]:
    """An unknown card keeps the cloud's name; a share of unknown size has no count."""
    existing = _gpu_families().get((cloud, key))
    if existing is None:
        named = key if cloud == "gcp" else UNNAMED
        return {"gpu_vendor": "NVIDIA", "gpu_name": named, "gpu_count": count} | {
            "gpu_fraction": number(str(share))
        }
    whole = existing["whole"] == "1"
    memory = round(_sheet_gib()[existing["sheet"]] * 1024 * share)
    return {
        "gpu_vendor": "NVIDIA",
        "gpu_name": existing["sheet"],
        "gpu_count": count if whole else "",
        "gpu_fraction": number(str(share)) if whole else "",
        "gpu_memory_mib": str(memory) if whole else "",
    }


def _no_gpu() -> dict[str, str]:
    return {"gpu_count": "0"}


def _local_gb(gib: str) -> str:
    """Bundled local SSDs are sold as 375 GiB each; the types table has GB of 10**9 bytes."""
    return number(str(float(gib) * 2**30 / 1e9)) if gib else ""


def _hourly(cells: Mapping[str, str]) -> dict[str, str]:
    return {r: f"{float(usd) / HOURS_PER_MONTH:.6g}" if usd else "" for r, usd in cells.items()}


@cache
def _cpu_families() -> dict[tuple[str, str], dict[str, str]]:
    rows = read_source("catalog/cpu_families.csv")
    return {(row["cloud"], row["family"]): row for row in rows}


@cache
def _gpu_families() -> dict[tuple[str, str], dict[str, str]]:
    rows = read_source("catalog/gpu_families.csv")
    return {(row["cloud"], row["family"]): row for row in rows}


@cache
def _sheet_gib() -> dict[str, float]:
    rows = read_source("catalog/gpu_specs.csv")
    return {row["gpu"]: float(row["memory_gb"]) for row in rows}
