"""Volume types as numbers, and their monthly prices by region."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.catalog.prices import LISTED_COLUMNS
from infra.catalog_build.tables import OutputTable, read_source, table

RULES_FILE = "catalog/{}_disk_types.csv"
PRICES_FILE = "catalog/{}_disk_prices.csv"
RULE_COLUMNS = tuple(read_source("catalog/ebs_volume_rules.csv")[0])


def disk_tables(
    cloud: str, rules: Iterable[dict[str, str]], prices: Iterable[tuple[str, ...]]
) -> list[OutputTable]:
    """The rules of a cloud's volume types, and what they cost (`LISTED_COLUMNS`) where known."""
    rows = [tuple(rule[column] for column in RULE_COLUMNS) for rule in rules]
    return [
        table(RULES_FILE.format(cloud), RULE_COLUMNS, rows),
        table(PRICES_FILE.format(cloud), LISTED_COLUMNS, prices),
    ]
