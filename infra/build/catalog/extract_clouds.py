"""Cut the snapshots of Azure, GCP and Alibaba that came after the first price lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from advisor.infra.build.catalog.tables import OutputTable, number

Row = Mapping[str, str]
Read = Callable[[str], list[dict[str, str]]]
_AZURE_LISTS = {
    "on-demand": [f"azure_{kind}_ondemand_linux_2026-05-20.csv" for kind in ("gpu", "cpu")],
    "spot": [f"azure_{kind}_spot_linux_2026-05-20.csv" for kind in ("gpu", "cpu")],
}
_AZURE_FACTS = (
    *("instance_type", "vcpus", "memory_gib", "gpu", "gpu_count", "gpu_memory_gb"),
    *("temp_disk_gb", "nvme_gb", "uncached_iops", "uncached_mb_per_s", "source"),
)
_AZURE_SIZES = (*("disk_type", "size", "gib", "iops", "mb_per_s", "burst_iops", "burst_mb_per_s"),)
_ALIBABA_FACTS = (
    *("instance_type", "vcpus", "memory_gib", "cpu_model", "gpu_model", "gpu_count"),
    *("gpu_memory_mib", "local_storage_gb"),
)
_LIST_EXAMPLE = "list example 2021-07"


def extracts(read: Read) -> list[OutputTable]:
    """Prices, sizes and disks; `read` gives the rows of a snapshot by its file name."""
    fixed = [row for row in read("azure_disk_rules.csv") if row["size"] != "any"]
    disks = read("azure_managed_disk_prices_2026-08-22.csv")
    alibaba = [row for row in read("alibaba_disk_prices.csv") if _is_hourly_in_usd(row)]
    attachable = read("gcp_attachable_gpu_prices_2026-05-20.csv")
    return [
        _azure_prices(read),
        _columns("sparecores/azure_gpu_sizes.csv", read("azure_gpu_sizes.csv"), _AZURE_FACTS),
        _columns("catalog/azure_disk_sizes.csv", fixed, _AZURE_SIZES),
        _columns("catalog/azure_disk_prices.csv", disks, tuple(disks[0])),
        _columns("sparecores/alibaba_gpu_types.csv", read("alibaba_gpu_types_2026-01.csv"), _ALIBABA_FACTS),
        _columns(
            "catalog/alibaba_disk_prices.csv",
            [row | {"basis": _alibaba_basis(row)} for row in alibaba],
            ("region", "disk_type", "price_per_gib_hour_payg", "basis"),
        ),
        _columns("catalog/gcp_attachable_gpus.csv", attachable, tuple(attachable[0])[:4]),
    ]


def _azure_prices(read: Read) -> OutputTable:
    """A line a size and market, a column a region."""
    lines = {
        (row.pop("instance_type"), market): row
        for market, names in _AZURE_LISTS.items()
        for name in names
        for row in read(name)
    }
    regions = sorted({region for cells in lines.values() for region in cells})
    rows = (
        (*key, *(number(cells.get(region, "")) for region in regions)) for key, cells in sorted(lines.items())
    )
    return OutputTable("catalog/azure_prices.csv.gz", ("instance_type", "market", *regions), tuple(rows))


def _columns(path: str, rows: Iterable[Row], columns: tuple[str, ...]) -> OutputTable:
    return OutputTable(path, columns, tuple(tuple(row[c] for c in columns) for row in rows))


def _is_hourly_in_usd(row: Row) -> bool:
    return bool(row["price_per_gib_hour_payg"]) and row["currency"] == "USD"


def _alibaba_basis(row: Row) -> str:
    """The one price that Alibaba's documentation of the disks has, or what its other products
    charge for the same disk."""
    return "documented" if row["basis"] == _LIST_EXAMPLE else "derived"
