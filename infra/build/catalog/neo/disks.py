"""Disks of neo-clouds: few tell a rule or a price, so most of both is assumed."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.catalog.disk_prices import LISTED_COLUMNS
from advisor.infra.build.catalog.disks import PRICES_FILE, RULE_COLUMNS, RULES_FILE
from advisor.infra.build.catalog.neo import sources
from advisor.infra.build.catalog.tables import OutputTable, number, read_source, table

ASSUMED_FILE = "catalog/assumed_facts.csv"
ASSUMED_HEADER = ("cloud", "fact", "value", "low", "high", "why")
# Clouds with a network disk of a known rule or price; all others have an assumed one.
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
    """Every assumed fact of every cloud; `ValueError` where the value is out of its own range."""
    rows = read_source(ASSUMED_FILE)
    for row in rows:
        if not 0 < float(row["low"]) <= float(row["value"]) <= float(row["high"]):
            raise ValueError(f"{row['cloud']}: {row['fact']} is out of its range")
    return table(ASSUMED_FILE, ASSUMED_HEADER, [[row[c] for c in ASSUMED_HEADER] for row in rows])


def assumed_facts(cloud: str) -> dict[str, dict[str, str]]:
    """The rows of one cloud by the name of the fact."""
    rows = read_source(ASSUMED_FILE)
    return {row["fact"]: row for row in rows if cloud in row["cloud"].split()}


def _price(cloud: str, kind: str) -> tuple[str, ...]:
    """Columns of a price from USD a GiB-month on."""
    if cloud == "nebius":
        return (_NEBIUS_USD_PER_GIB_MONTH, "0:0", "0", sources.NEBIUS_DISKS.id, "list", "1", "1")
    row = assumed_facts(cloud)[f"{kind}.usd_per_gib_month"]
    value = float(row["value"])
    low, high = (number(f"{float(row[side]) / value:.6g}") for side in ("low", "high"))
    return (number(row["value"]), "0:0", "0", sources.ASSUMED.id, "estimated", low, high)
