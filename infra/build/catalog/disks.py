"""Volume types as numbers, and their monthly prices by region."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.catalog.disk_prices import LISTED_COLUMNS
from advisor.infra.build.catalog.tables import OutputTable, read_source, table

RULES_FILE = "catalog/{}_disk_types.csv"
# Of rules that are under CC BY-SA 4.0.
SHARED_RULES_FILE = "sparecores/{}_disk_types.csv"
PRICES_FILE = "catalog/{}_disk_prices.csv"
# The last four: how the price is known, between how many times it the true one lies, and what each
# of the sizes costs in which a type is sold.
PRICE_COLUMNS = (*LISTED_COLUMNS, "kind", "low", "high", "usd_per_size_month")
RULE_COLUMNS = tuple(read_source("sparecores/ebs_volume_rules.csv")[0])


def disk_tables(
    cloud: str,
    rules: Iterable[dict[str, str]],
    prices: Iterable[tuple[str, ...]],
    rules_file: str = RULES_FILE,
) -> list[OutputTable]:
    """The rules of a cloud's volume types, and what they cost (the first of `PRICE_COLUMNS`) where
    that is known."""
    rows = [tuple(rule[column] for column in RULE_COLUMNS) for rule in rules]
    costs = list(prices)
    header = PRICE_COLUMNS[: max(map(len, costs), default=len(LISTED_COLUMNS))]
    return [
        table(rules_file.format(cloud), RULE_COLUMNS, rows),
        table(PRICES_FILE.format(cloud), header, costs),
    ]
