"""Alibaba: types and prices in CNY, of 2024, with the rules of its disks."""

from __future__ import annotations

import re
from collections.abc import Mapping

from infra.catalog_build import disks
from infra.catalog_build.hosts import cloud_part, gpu, host, no_gpu
from infra.catalog_build.provenance import LIST_DAYS, Source
from infra.catalog_build.tables import number, read_source
from infra.catalog_build.wide import Basis, CloudPart, price_row, wide_prices

Row = Mapping[str, str]
_MB_IN_MIB = 1e6 / 2**20

SOURCE = Source(
    "alibaba-60cef47f",
    "2024-10-09",
    "Apache-2.0",
    "cloudpilot-ai/priceserver@60cef47f (Alibaba Cloud price list in CNY)",
    "Alibaba types and prices",
    LIST_DAYS,
)
DISK_RULES = Source(
    "alibaba-disk-rules", "2021-07-19", "MIT", "AlibabaCloudDocs/ecs@41c0f515", "Alibaba disk types"
)
LIST = Basis("ali", "list", "CNY", SOURCE.id)
SPOT = Basis("alispot", "observed", "CNY", SOURCE.id)
_BASES = {"on-demand": LIST, "spot": SPOT}


def build() -> CloudPart:
    """Everything of Alibaba; what the list says costs 0 has no known price."""
    prices = wide_prices(read_source("catalog/alibaba_prices.csv"), ("instance_type", "market"))
    rows = []
    for key, cells in prices.items():
        name, market = key.split("/")
        rows.append(price_row(name, market, cells, _BASES[market].id))
    types = [_type(row) for row in read_source("catalog/alibaba_instance_types.csv")]
    return cloud_part(
        *("alibaba", SOURCE, types, rows, (LIST, SPOT)),
        disks=disks.disk_tables("alibaba", _disk_rules(), []),
        sources=(DISK_RULES,),
    )


def _type(row: Row) -> Row:
    name = row["instance_type"]
    family = re.split(r"[-.]", name.removeprefix("ecs."))[0]
    facts = host("alibaba", name, (family,), row["vcpus"], row["memory_gib"])
    # The list counts whole GPUs even where a share is sold; the families say which.
    return facts | (gpu("alibaba", family, row["gpus"]) if row["gpus"] != "0" else no_gpu())


def _disk_rules() -> list[dict[str, str]]:
    """Alibaba states rates in MB/s of 10**6 bytes; no price is at hand."""
    rules = []
    for row in read_source("catalog/alibaba_disk_rules.csv"):
        own = {name: row[name] for name in disks.RULE_COLUMNS if name in row}
        for name in ("base", "per_gib", "cap"):
            own[f"mib_s_{name}"] = number(str(float(row[f"mb_s_{name}"]) * _MB_IN_MIB))
        own["typical_read_latency_ms"] = row["typical_latency_ms"]
        rules.append(dict.fromkeys(disks.RULE_COLUMNS, "") | own)
    return rules
