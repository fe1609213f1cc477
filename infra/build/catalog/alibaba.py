"""Alibaba: types and prices in CNY from 2024, and disks with estimated prices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from advisor.catalog.instances import NETWORK_COLUMNS, NETWORKS_FILE
from advisor.infra.build.catalog import tables
from advisor.infra.build.catalog.hosts import cloud_part, host, no_gpu, sheet_gib
from advisor.infra.build.catalog.tables import OutputTable, number, read_source, table
from advisor.infra.build.catalog.wide import (
    LIST_DAYS,
    SPOT_DAYS,
    Basis,
    CloudPart,
    Source,
    price_row,
    wide_prices,
)

Row = Mapping[str, str]
HOURS_PER_MONTH = 730
_MB_IN_MIB = 1e6 / 2**20
# 'A10*1/6' and 'T4/4' are fractions of a GPU.
_SHARE = re.compile(r"(?:\*1)?(?:/(\d+))?$")
# First characters of the API's processor names: 8269CY is Intel's, 9T24 AMD's, YiTian Alibaba's.
_MAKERS = (("8", "Intel"), ("6", "Intel"), ("9", "AMD"), ("YiTian", "Alibaba"))

SOURCE = Source(
    "alibaba-60cef47f",
    "2024-10-09",
    "Apache-2.0",
    "cloudpilot-ai/priceserver@60cef47f (Alibaba Cloud price list in CNY)",
    "Alibaba types and prices",
    LIST_DAYS,
    "prices of Alibaba after 2024-10 are not known offline",
)
SPOT_SOURCE = Source(
    "alibaba-spot-60cef47f",
    SOURCE.as_of,
    SOURCE.licence,
    "cloudpilot-ai/priceserver@60cef47f (Alibaba Cloud price list in CNY; spot)",
    "Alibaba spot prices",
    SPOT_DAYS,
    SOURCE.note,
)
GPU_TYPES = Source(
    "alibaba-gpu-types",
    "2026-01-15",
    "CC BY-SA 4.0",
    "SpareCores' sparecores-data 0.3.4 (Alibaba's API)",
    "Alibaba GPU types",
)
DISK_RULES = Source(
    "alibaba-disk-rules", "2021-07-19", "MIT", "AlibabaCloudDocs/ecs@41c0f515", "Alibaba disk types"
)
DISK_PRICES = Source(
    "alibaba-disks",
    "2021-07-19",
    "MIT; plain facts",
    "AlibabaCloudDocs/ecs@322eaab8 (an example for Hangzhou); half of what ClickHouse of Alibaba "
    "charges for two copies",
    "Alibaba disk prices (estimated)",
    note="prices of Alibaba's disks are estimated: no list of them by region is known offline",
)
NETWORKS = Source(
    "alibaba-networks",
    "2021-07-19",
    "MIT",
    "AlibabaCloudDocs/ecs@322eaab8",
    "Alibaba networks between instances",
)
LIST = Basis("ali", "list", "CNY", SOURCE.id)
SPOT = Basis("alispot", "observed", "CNY", SPOT_SOURCE.id)
_BASES = {"on-demand": LIST, "spot": SPOT}
# PolarDB's monthly prices of the same disks, converted to hours by the ratio of both prices in Hangzhou
# (0.2336 / 0.153), over the estimates: 0.98 to 1.05 on the mainland; abroad 0.63 to 1.21 for PL1 and 1.20 to
# 2.47 for PL0. The bounds are wider than that, since one of the lists is from 2021.
_BOUNDS = {"cloud_essd_pl0": (0.9, 2.5), "cloud_essd_pl1": (0.6, 1.25)}
_MAINLAND, _MAINLAND_BOUNDS = "cn-", (0.85, 1.15)
_ABROAD = ("cn-hongkong",)


def build() -> CloudPart:
    """Build Alibaba's part; a listed price of 0 counts as unknown."""
    prices = wide_prices(read_source("catalog/alibaba_prices.csv"), ("instance_type", "market"))
    rows = []
    for key, cells in prices.items():
        name, market = key.split("/")
        rows.append(price_row(name, market, cells, _BASES[market].id))
    plain = read_source("catalog/alibaba_instance_types.csv")
    types = [_type(row) for row in plain if row["gpus"] == "0"]
    return cloud_part(
        *("alibaba", SOURCE, types, rows, (LIST, SPOT)),
        apart=[_gpu_type(row) for row in read_source("sparecores/alibaba_gpu_types.csv")],
        more=[*tables.disk_tables("alibaba", _disk_rules(), _disk_prices()), _networks()],
        sources=(SPOT_SOURCE, GPU_TYPES, DISK_RULES, DISK_PRICES, NETWORKS),
    )


def _networks() -> OutputTable:
    """Baseline network rates of types with GPUs, each with one network card."""
    rows = read_source("catalog/alibaba_networks.csv")
    cells = [(row["instance_type"], number(row["gbit_per_second"]), "1", NETWORKS.id) for row in rows]
    return table(NETWORKS_FILE.format("alibaba"), NETWORK_COLUMNS, cells)


def _type(row: Row) -> dict[str, str]:
    name = row["instance_type"]
    return host("alibaba", name, (_family(name),), row["vcpus"], row["memory_gib"]) | no_gpu()


def _gpu_type(row: Row) -> Row:
    """A type with a GPU or another accelerator; a GPU without a data sheet keeps Alibaba's name."""
    name, model = row["instance_type"], row["cpu_model"]
    facts = host("alibaba", name, (_family(name),), row["vcpus"], row["memory_gib"])
    makers = (maker for start, maker in _MAKERS if model.startswith(start))
    facts["cpu_manufacturer"] = next(makers, "")
    if facts["cpu_manufacturer"] == "Alibaba":
        facts |= {"cpu_architecture": "arm64", "physical_cores": facts["vcpus"]}
    facts |= {"instance_store_gb": row["local_storage_gb"], "source": GPU_TYPES.id}
    return facts | _card(row)


def _card(row: Row) -> dict[str, str]:
    whole = _SHARE.sub("", row["gpu_model"])
    parts = int(_SHARE.search(row["gpu_model"])[1] or 1)  # type: ignore[index]
    memory = row["gpu_memory_mib"] and str(int(row["gpu_memory_mib"]) * parts)
    card = _cards().get((whole, memory))
    if card is None:
        # The GPU is known, but no file states the size of this fraction.
        known = any(model == whole for model, _ in _cards())
        return {
            "gpu_vendor": "NVIDIA",
            "gpu_name": whole,
            "gpu_count": "" if known else row["gpu_count"],
            "gpu_memory_mib": row["gpu_memory_mib"],
        }
    if card["vendor"] == "accelerator":
        return {"accelerator": whole} | no_gpu()
    sheet = card["sheet"]
    told = str(round(sheet_gib()[sheet] * 1024 / parts)) if sheet else row["gpu_memory_mib"]
    return {
        "gpu_vendor": card["vendor"],
        "gpu_name": sheet or whole,
        "gpu_count": row["gpu_count"],
        "gpu_fraction": number(str(1 / parts)),
        "gpu_memory_mib": told,
    }


def _family(name: str) -> str:
    return re.split(r"[-.]", name.removeprefix("ecs."))[0]


@cache
def _cards() -> dict[tuple[str, str], dict[str, str]]:
    rows = read_source("catalog/alibaba_cards.csv")
    return {(row["gpu_model"], row["gpu_memory_mib"]): row for row in rows}


# Subscription prices of older disks are 1.00 and 0.35 CNY per GiB-month (an article), of PL1 and PL0 1.00 and
# 0.50 (Alibaba's documentation). Hourly prices are assumed to have the same ratios, with wider bounds.
_LIKE = {"cloud_essd_pl1": ("cloud_ssd", 1.0), "cloud_essd_pl0": ("cloud_efficiency", 0.7)}
_LOOSER = 1.25


def _disk_prices() -> list[tuple[str, ...]]:
    """Prices of a GiB-month; IOPS and MiB/s are included."""
    rows: list[tuple[str, ...]] = []
    for row in read_source("catalog/alibaba_disk_prices.csv"):
        region, kind = row["region"], row["disk_type"]
        mainland = region.startswith(_MAINLAND) and region not in _ABROAD
        low, high = _MAINLAND_BOUNDS if mainland else _BOUNDS[kind]
        usd = float(row["price_per_gib_hour_payg"]) * HOURS_PER_MONTH
        kinds = [(kind, 1.0, 1.0)]
        if kind in _LIKE:
            kinds.append((*_LIKE[kind], _LOOSER))
        for name, share, looser in kinds:
            told = (region, name, number(str(usd * share)), "0:0", "0", DISK_PRICES.id)
            rows.append((*told, "estimated", f"{low / looser:g}", f"{high * looser:g}"))
    return rows


def _disk_rules() -> list[dict[str, str]]:
    """Alibaba's disk rules, converted from MB/s of 10**6 bytes."""
    rules = []
    for row in read_source("catalog/alibaba_disk_rules.csv"):
        own = {name: row[name] for name in tables.RULE_COLUMNS if name in row}
        for name in ("base", "per_gib", "cap"):
            own[f"mib_s_{name}"] = number(str(float(row[f"mb_s_{name}"]) * _MB_IN_MIB))
        own["typical_read_latency_ms"] = row["typical_latency_ms"]
        rules.append(dict.fromkeys(tables.RULE_COLUMNS, "") | own)
    return rules
