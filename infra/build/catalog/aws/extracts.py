"""AWS's public price lists, cut down to what the build reads: packed, one column a region."""

from __future__ import annotations

from collections.abc import Callable

from advisor.infra.build.catalog.tables import OutputTable, number

Rows = list[dict[str, str]]

# What the build reads <- the public snapshot.
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
# Regions of the US government: nothing tells which types can be had there.
_LEFT_OUT = "us-gov-"
_EBS = (
    *("region", "volume_type", "usd_per_gib_month", "usd_per_iops_month_tier1"),
    *("usd_per_iops_month_above_32000", "usd_per_iops_month_above_64000", "usd_per_gibps_month"),
)


def aws_extracts(read: Callable[[str], Rows]) -> list[OutputTable]:
    """All extracts; `read` gives the rows of a snapshot by its file name."""
    return [
        *(_wide(path, read(f"{snapshot}.csv")) for path, snapshot in WIDE.items()),
        _columns("catalog/aws_ebs_prices.csv", read("aws_ebs_prices_2024-07-18.csv"), _EBS),
        _columns(
            "sparecores/aws_instance_store_iops.csv",
            read("aws_instance_store_iops.csv"),
            ("instance_type", "random_read_iops_4k"),
        ),
    ]


def _wide(path: str, rows: Rows) -> OutputTable:
    """Prices as short as they can be written; a type without any is left out."""
    key, *columns = rows[0]
    regions = sorted(name for name in columns if not name.startswith(_LEFT_OUT))
    lines = sorted((row[key], *(number(row[region]) for region in regions)) for row in rows)
    kept = tuple(line for line in lines if any(line[1:]))
    if len({line[0] for line in kept}) < len(kept):
        raise ValueError(f"{path}: two rows of one type")
    return OutputTable(f"catalog/{path}.csv.gz", (key, *regions), kept)


def _columns(path: str, rows: Rows, columns: tuple[str, ...]) -> OutputTable:
    lines = sorted(tuple(row[column] for column in columns) for row in rows)
    return OutputTable(path, columns, tuple(lines))
