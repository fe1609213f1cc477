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

from advisor.infra.build.catalog import extract_clouds
from advisor.infra.build.catalog.aws.extracts import aws_extracts
from advisor.infra.build.catalog.tables import OutputTable, number, write_source

Row = Mapping[str, str]
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

    for extract in (*extracts(read), *extract_clouds.extracts(read)):
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
    """'87~4': per cent off the on-demand price, and the index of the interruption band."""
    return f"{row['savings_pct_over_ondemand']}~{row['interruption_band_index']}"


def _wide(path: str, rows: list[dict[str, str]], key: str, markets: Row) -> OutputTable:
    """One line a type and market, one column a region; two values for one cell are refused."""
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
