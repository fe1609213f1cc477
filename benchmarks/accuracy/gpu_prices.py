"""What an hour of one GPU costs on demand, by the catalogue files of a directory.

GPUs that no catalogue sells get the price that their speed would have there: the slope of log price
over log speed is that of AWS's GPUs (speed by data sheet), its level that of the sold GPUs that
were measured. Such prices order candidates plausibly; nobody can pay them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.accuracy.aws_prices import on_demand_prices
from benchmarks.accuracy.data_sheets import read_family_sheets

_TYPES = Path("catalog/aws_instance_types.csv")
_GCP = Path("catalog/gcp_prices_2026-07-30.csv")
# With too few prices to fit it, price goes with the square root of speed.
_DEFAULT_SLOPE, _FEWEST_SOLD = 0.5, 3


def sold_gpu_prices(folder: Path) -> dict[str, float]:
    """The least price per GPU and hour by the GPU's name as AWS and Google Cloud give it."""
    prices: dict[str, float] = {}
    amazon = [(gpu, price) for _, gpu, price in _aws(folder)]
    for name, price in (*amazon, *_google(folder)):
        if np.isfinite(price) and price > 0:
            prices[name] = min(price, prices.get(name, np.inf))
    return prices


def price_of(measured: str, sold: Mapping[str, float]) -> float | None:
    """The price of a GPU as a benchmark's system names it ("7502-A100-PCIE-40GB").

    All words of the sold name must stand in it; the longest such name counts.
    """
    words = _words(measured)
    found = [name for name in sold if _words(name) <= words]
    return sold[max(found, key=len)] if found else None


def all_prices(
    speeds: Mapping[str, float], sold: Mapping[str, float], slope: float
) -> dict[str, float]:
    """Prices of all GPUs in `speeds`; those not sold by a line in logs through those sold."""
    known = {name: price for name in speeds if (price := price_of(name, sold)) is not None}
    if not known:
        return {}
    levels = [np.log(price) - slope * np.log(speeds[name]) for name, price in known.items()]
    level = float(np.mean(levels))
    return {
        name: known.get(name, float(np.exp(level + slope * np.log(speed))))
        for name, speed in speeds.items()
    }


def price_slope(folder: Path) -> float:
    """Slope of log price per GPU over log speed; speed is the mean of fp32 rate and bandwidth."""
    sheets, cheapest = read_family_sheets(folder), dict[str, float]()
    for kind, _, price in _aws(folder):
        family = kind.partition(".")[0]
        if family in sheets and price > 0:
            cheapest[family] = min(price, cheapest.get(family, np.inf))
    if len(cheapest) < _FEWEST_SOLD:
        return _DEFAULT_SLOPE
    speeds = [
        0.5 * np.log(sheets[name].fp32_tflops * sheets[name].memory_gb_per_second)
        for name in cheapest
    ]
    prices = np.log(list(cheapest.values()))
    return float(np.cov(speeds, prices)[0, 1] / np.var(speeds, ddof=1))


def _aws(folder: Path) -> list[tuple[str, str, float]]:
    path = folder / _TYPES
    if not path.is_file():
        return []
    table, prices = pd.read_csv(path), on_demand_prices(folder)
    if not {"instance_type", "gpu_name", "gpu_count"} <= set(table.columns):
        return []
    rows = _with_counts(table)
    columns = zip(rows["instance_type"], rows["gpu_name"], rows["gpu_count"], strict=True)
    return [(str(kind), str(gpu), prices.get(kind, np.nan) / n) for kind, gpu, n in columns]


def _google(folder: Path) -> list[tuple[str, float]]:
    path = folder / _GCP
    if not path.is_file():
        return []
    table = pd.read_csv(path)
    if not {"gpu_name", "gpu_count", "usd_per_hour"} <= set(table.columns):
        return []
    rows = _with_counts(table)
    usd = pd.to_numeric(rows["usd_per_hour"], errors="coerce")
    columns = zip(rows["gpu_name"], rows["gpu_count"], usd, strict=True)
    return [(str(gpu), float(price) / count) for gpu, count, price in columns]


def _with_counts(table: pd.DataFrame) -> pd.DataFrame:
    """The rows with at least one GPU, `gpu_count` a number."""
    counts = pd.to_numeric(table["gpu_count"], errors="coerce").astype(float)
    known = (counts >= 1) & (counts < np.inf)
    return table[known].assign(gpu_count=counts[known])


def _words(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", name.casefold()))
