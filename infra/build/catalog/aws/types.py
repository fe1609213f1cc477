"""AWS instance types, the regions that offer them, and EBS."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from advisor.catalog.instances import (
    LOCAL_READ_COLUMNS,
    LOCAL_READS_FILE,
    NETWORK_COLUMNS,
    NETWORKS_FILE,
    TYPE_COLUMNS,
)
from advisor.infra.build.catalog.aws import sources
from advisor.infra.build.catalog.aws.lists import Cells, family
from advisor.infra.build.catalog.aws.sources import moto
from advisor.infra.build.catalog.gpus import sheet_names
from advisor.infra.build.catalog.tables import (
    SHARED_RULES_FILE,
    OutputTable,
    disk_tables,
    flag,
    number,
    read_source,
    table,
)
from advisor.infra.build.catalog.wide import Source, region_sets

TYPES_FILE = "catalog/aws_instance_types.csv"
REGION_SETS_FILE = "catalog/aws_region_sets.csv"


def read_types() -> list[dict[str, str]]:
    """The source rows of every instance type, retired ones included."""
    return read_source("catalog/aws_instance_types.csv")


def build_types(offered: Mapping[str, Sequence[str]]) -> tuple[list[OutputTable], list[Source]]:
    """The type table, the region sets it refers to, and the sources of its rows. `offered` maps types to
    their regions (none if retired)."""
    current = {name: regions for name, regions in offered.items() if regions}
    sets, set_of = region_sets(REGION_SETS_FILE, current)
    accelerators = {row["family"]: row["accelerator"] for row in read_source("catalog/aws_accelerators.csv")}
    sheets = sheet_names("aws")
    rows = read_types()
    table_rows = [_type_row(row, sheets, accelerators, set_of.get(row["instance_type"], "")) for row in rows]
    origins = {origin.id: origin for origin in (moto(r["source_commit"], r["source_date"]) for r in rows)}
    types = table(TYPES_FILE, TYPE_COLUMNS, table_rows)
    return [types, sets, _local_reads(rows), _networks()], list(origins.values())


def _local_reads(types: Sequence[Mapping[str, str]]) -> OutputTable:
    """Read rates of local disks by type, from a text under CC BY-SA 4.0."""
    known = {row["instance_type"] for row in types}
    told = read_source("sparecores/aws_instance_store_iops.csv")
    rows = [(row["instance_type"], row["random_read_iops_4k"]) for row in told]
    return table(LOCAL_READS_FILE.format("aws"), LOCAL_READ_COLUMNS, [r for r in rows if r[0] in known])


def _networks() -> OutputTable:
    """Sustained network rates between instances, for types with GPUs."""
    rows = [
        (row["instance_type"], number(str(_sustained(row))), row["cards"], moto(row["source_commit"], "").id)
        for row in read_source("catalog/aws_networks.csv")
    ]
    return table(NETWORKS_FILE.format("aws"), NETWORK_COLUMNS, rows)


def _sustained(row: Mapping[str, str]) -> float:
    """Gbit/s: the sum over all network cards, or the rate in EC2's text if that is less. The cards of
    g6e.48xlarge add up to 1600, but it is sold with "400 Gigabit"."""
    cards = float(row["baseline_gbit_per_second"])
    told = re.fullmatch(r"(?:(\d+)x )?(\d+) Gigabit", row["performance"])
    return min(cards, int(told[1] or 1) * float(told[2])) if told else cards


def _type_row(
    row: Mapping[str, str],
    sheets: Mapping[tuple[str, str, int], str],
    accelerators: Mapping[str, str],
    region_set: str,
) -> tuple[str, ...]:
    name = row["instance_type"]
    facts = {
        "instance_type": name,
        "vcpus": row["vcpus"],
        "physical_cores": row["cores"],
        "memory_mib": str(round(float(row["memory_gib"]) * 1024)),
        "cpu_architecture": row["arch"].rpartition("|")[2],
        "cpu_manufacturer": row["cpu_manufacturer"],
        "accelerator": accelerators.get(family(name), ""),
        "ebs_baseline_mbps": number(row["ebs_base_mbps"]),
        "ebs_baseline_iops": number(row["ebs_base_iops"]),
        "ebs_burst_mbps": number(row["ebs_max_mbps"]),
        "ebs_burst_iops": number(row["ebs_max_iops"]),
        "instance_store_gb": number(row["instance_store_gb"]),
        "instance_store_disks": row["instance_store_disks"],
        "instance_store_nvme": "1" if row["instance_store_nvme"] == "required" else "0",
        "burstable": flag(row["burstable"]),
        # Offered somewhere today. AWS's "current generation" flag is not used: it only means "recommended".
        "current": "1" if row["in_latest_snapshot"] == "True" and region_set else "0",
        "region_set": region_set,
        "source": f"moto-{row['source_commit']}",
    } | _gpu_facts(row, sheets)
    return tuple(facts.get(column, "") for column in TYPE_COLUMNS)


def _gpu_facts(row: Mapping[str, str], sheets: Mapping[tuple[str, str, int], str]) -> dict[str, str]:
    """GPU columns. For a fraction of a GPU, EC2 counts 0 GPUs; here it is one GPU and its share."""
    if not row["gpu_name"]:
        names = ("gpu_vendor", "gpu_name", "gpu_fraction", "gpu_memory_mib")
        return dict.fromkeys(names, "") | {"gpu_count": "0"}
    share = float(row["gpu_partition_size"] or 1)
    memory = int(float(row["gpu_mem_mib"]))
    whole = round(memory / share)
    key = (row["gpu_manufacturer"], row["gpu_name"], whole)
    return {
        "gpu_vendor": row["gpu_manufacturer"],
        "gpu_name": sheets.get(key, row["gpu_name"]),
        "gpu_count": str(max(1, int(row["gpu_count"]))),
        "gpu_fraction": number(str(share)),
        "gpu_memory_mib": str(memory),
    }


def offered_regions(listed: Cells) -> dict[str, tuple[str, ...]]:
    """Every known type with the regions that offer it (none if retired). In a region that the offerings lack
    entirely, every listed type counts as offered."""
    rows = read_source("catalog/aws_offerings_2026-08-01.csv.gz")
    offered = {row["instance_type"]: row["regions"].split("|") for row in rows}
    covered = {region for regions in offered.values() for region in regions}
    return {
        row["instance_type"]: tuple(
            sorted({*offered[name], *(at for at in listed.get(name, {}) if at not in covered)})
            if (name := row["instance_type"]) in offered
            else ()
        )
        for row in read_types()
    }


_MIB_IN_GIB = 1024
# Lower limits of the IOPS tiers, and the columns with their prices.
_TIERS = {
    0: "usd_per_iops_month_tier1",
    32000: "usd_per_iops_month_above_32000",
    64000: "usd_per_iops_month_above_64000",
}


def build_disks() -> list[OutputTable]:
    """Rules and regional prices of EBS's volume types."""
    rules = read_source("sparecores/ebs_volume_rules.csv")
    types = frozenset(rule["type"] for rule in rules)
    rows = read_source("catalog/aws_ebs_prices.csv")
    prices = [_price_row(row) for row in rows if row["volume_type"] in types]
    return disk_tables("aws", rules, prices, SHARED_RULES_FILE)


def _price_row(row: Mapping[str, str]) -> tuple[str, ...]:
    """Price columns; throughput is listed per GiB/s; '0:0.065|32000:0.0455' are IOPS prices by tier."""
    tiers = [f"{start}:{number(row[column])}" for start, column in _TIERS.items() if row[column]]
    per_gib_s = float(row["usd_per_gibps_month"] or 0)
    return (
        row["region"],
        row["volume_type"],
        number(row["usd_per_gib_month"]),
        "|".join(tiers) or "0:0",
        number(str(per_gib_s / _MIB_IN_GIB)),
        sources.DISK_PRICES.id,
    )
