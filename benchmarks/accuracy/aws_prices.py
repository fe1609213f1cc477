"""On-demand prices of AWS instances from the catalogue files of a directory."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

REGION = "us-east-1"
# File and the names of its columns for type, price, and (where it has them) region and currency;
# the freshest file first.
_FILES = (
    ("aws_ondemand_prices_karpenter.csv", "price_per_hour"),
    ("aws_gpu_ondemand_price_history_us_east_1.csv", "price_usd_per_hour"),
    ("aws_ondemand_prices_allregions_2022-02.csv", "price_usd_per_hour"),
)


def on_demand_prices(folder: Path) -> dict[str, float]:
    """US dollars per hour by instance type in us-east-1; types without a price are missing."""
    prices: dict[str, float] = {}
    for name, column in _FILES:
        path = folder / "catalog" / name
        if not path.is_file():
            continue
        table = pd.read_csv(path)
        if not {"instance_type", column} <= set(table.columns):
            continue
        for key, only in (("region", REGION), ("currency", "USD")):
            table = table[table[key] == only] if key in table.columns else table
        values = pd.to_numeric(table[column], errors="coerce")
        # The history's last row of a type is its latest price.
        latest = dict(zip(table["instance_type"], values, strict=True))
        for kind, price in latest.items():
            if 0 < price < float("inf"):
                prices.setdefault(str(kind), float(price))
    return prices
