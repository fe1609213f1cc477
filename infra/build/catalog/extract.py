"""Cut the public price snapshots down to what the build reads, one column a region.

    python -m advisor.infra.build.catalog.extract DIR..

The folders hold the snapshots that `infra/sources/catalog/SOURCES.md` lists, by name. Needed
only when a snapshot is replaced: the extracts are committed.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from advisor.infra.build.catalog.tables import OutputTable, number, write_source

Rows = list[dict[str, str]]

# Extract that the build reads -> public snapshot that it is cut from.
WIDE = {
    "aws_on_demand_2026-02-17": "aws_ondemand_linux_2026-02-17",
    "aws_on_demand_accelerators_2026-01-21": "aws_gpu_ondemand_linux_2026-01-21",
    "aws_on_demand_2025-04-04": "aws_ondemand_linux_2025-04-04",
    "aws_commitment-1y_accelerators_2026-01-21": "aws_gpu_reserved_1y_no_upfront_2026-01-21",
    "aws_commitment-1y_2025-04-05": "aws_reserved_no_upfront_1y_2025-04-05",
    "aws_commitment-3y_2025-04-05": "aws_reserved_no_upfront_3y_2025-04-05",
    "aws_commitment-1y-convertible_2025-04-05": "aws_reserved_no_upfront_convertible-1y_2025-04-05",
    "aws_commitment-3y-convertible_2025-04-05": "aws_reserved_no_upfront_convertible-3y_2025-04-05",
    "aws_spot_2024-09-28": "aws_spot_linux_2024-09-28",
}
# Regions of the US government, left out: no source says which types are available there.
_LEFT_OUT = "us-gov-"
_EBS = (
    *("region", "volume_type", "usd_per_gib_month", "usd_per_iops_month_tier1"),
    *("usd_per_iops_month_above_32000", "usd_per_iops_month_above_64000", "usd_per_gibps_month"),
)


def aws_extracts(read: Callable[[str], Rows]) -> list[OutputTable]:
    """All extracts; `read` gives the rows of a snapshot by its file name."""
    return [
        *(_wide_table(path, read(f"{snapshot}.csv")) for path, snapshot in WIDE.items()),
        _regions_of("catalog/aws_ebs_prices.csv", read("aws_ebs_prices_2024-07-18.csv"), _EBS),
        _regions_of(
            "sparecores/aws_instance_store_iops.csv",
            read("aws_instance_store_iops.csv"),
            ("instance_type", "random_read_iops_4k"),
        ),
    ]


def _wide_table(path: str, rows: Rows) -> OutputTable:
    """A table of prices in their shortest form; types without any price are left out."""
    key, *columns = rows[0]
    regions = sorted(name for name in columns if not name.startswith(_LEFT_OUT))
    lines = sorted((row[key], *(number(row[region]) for region in regions)) for row in rows)
    kept = tuple(line for line in lines if any(line[1:]))
    if len({line[0] for line in kept}) < len(kept):
        raise ValueError(f"{path}: two rows of one type")
    return OutputTable(f"catalog/{path}.csv.gz", (key, *regions), kept)


def _regions_of(path: str, rows: Rows, columns: tuple[str, ...]) -> OutputTable:
    lines = sorted(tuple(row[column] for column in columns) for row in rows)
    return OutputTable(path, columns, tuple(lines))


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


def cloud_extracts(read: Read) -> list[OutputTable]:
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
    """A row per size and market, a column per region."""
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
    """'documented' for the one disk price that Alibaba's documentation states; 'derived' for prices that its
    other products charge for the same disk."""
    return "documented" if row["basis"] == _LIST_EXAMPLE else "derived"


GCP_MARKETS = {
    "on-demand": "usd_per_hour",
    "spot": "spot_usd_per_hour",
    "month-1y": "usd_per_month_cud_1y",
    "month-3y": "usd_per_month_cud_3y",
}
ALIBABA_MARKETS = {"on-demand": "ondemand_cny_per_hour", "spot": "spot_min_cny_per_hour"}


def main(folders: Iterable[Path]) -> None:
    """Write every extract to infra/sources."""
    paths = {path.name: path for folder in folders for path in folder.glob("*.csv")}

    def read(name: str) -> list[dict[str, str]]:
        with paths[name].open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    for extract in (*extracts(read), *extracts(read)):
        write_source(extract)


def extracts(read: Callable[[str], list[dict[str, str]]]) -> list[OutputTable]:
    """All extracts; `read` gives the rows of a snapshot by its file name."""
    gcp = [
        row
        for row in read("gcp_prices_2026-07-30.csv")
        if row["offered_in_region"] == "yes" and not row["machine_type"].startswith("custom-")
    ]
    alibaba = read("alibaba_ecs_prices_2024-10-09.csv")
    spot = [row | {"cell": _advice(row)} for row in read("aws_spot_advisor_2025-06-28.csv")]
    listed = [row for row in read("aws_ondemand_prices_karpenter.csv") if row["region"] == "us-east-1"]
    if any(row["currency"] != "USD" for row in listed):
        raise ValueError("a price list of AWS in another currency")
    azure = read("azure_gpu_ondemand_prices_2026-06-18.csv")
    return [
        *aws_extracts(read),
        _wide("aws_on_demand_2026-07-20.csv.gz", listed, "instance_type", {"": "price_per_hour"}),
        _wide("aws_spot_advisor_2025-06-28.csv.gz", spot, "instance_type", {"": "cell"}),
        _facts(
            "aws_offerings_2026-08-01.csv.gz",
            read("aws_offerings_by_region.csv"),
            ("instance_type", "regions"),
        ),
        _wide("gcp_prices.csv", gcp, "machine_type", GCP_MARKETS),
        _facts(
            "gcp_machine_types.csv",
            gcp,
            ("machine_type", "vcpus", "memory_gb", "gpu_name", "gpu_count", "bundled_local_ssd"),
        ),
        _wide("azure_gpu_prices.csv", azure, "vm_size", {"": "usd_per_hour"}),
        _wide("alibaba_prices.csv", alibaba, "instance_type", ALIBABA_MARKETS),
        _facts("alibaba_instance_types.csv", alibaba, ("instance_type", "vcpus", "memory_gib", "gpus")),
    ]


def _advice(row: Row) -> str:
    """'87~4': per cent off the on-demand price, and index of the interruption band."""
    return f"{row['savings_pct_over_ondemand']}~{row['interruption_band_index']}"


def _wide(path: str, rows: list[dict[str, str]], key: str, markets: Row) -> OutputTable:
    """A row per type and market, a column per region; `ValueError` if a cell has two values."""
    regions = sorted({row["region"] for row in rows})
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        for market, column in markets.items():
            cells = lines.setdefault((row[key], market), {})
            if row["region"] in cells:
                raise ValueError(f"{path}: two rows of {row[key]} in {row['region']}")
            cells[row["region"]] = row[column] if "~" in row[column] else number(row[column])
    keys = (key,) if tuple(markets) == ("",) else (key, "market")
    return OutputTable(
        f"catalog/{path}",
        (*keys, *regions),
        tuple(
            (*names[: len(keys)], *(cells.get(region, "") for region in regions))
            for names, cells in sorted(lines.items())
            if any(cells.values())
        ),
    )


def _facts(path: str, rows: Iterable[Row], columns: tuple[str, ...]) -> OutputTable:
    distinct = sorted({tuple(row[column] for column in columns) for row in rows})
    names = [row[0] for row in distinct]
    if len(names) != len(set(names)):
        raise ValueError(f"{path}: one type has two sets of facts")
    return OutputTable(f"catalog/{path}", columns, tuple(distinct))


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
