"""What an hour of one GPU costs on demand, by the catalogue files of a directory.

GPUs that no catalogue sells get the price that their speed would have there: a line through log
price over log speed of those sold. Such prices order candidates plausibly; nobody can pay them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.accuracy.aws_prices import on_demand_prices

_TYPES = Path("catalog/aws_instance_types.csv")
_GCP = Path("catalog/gcp_prices_2026-07-30.csv")
# Without two prices to fit it, price goes with the square root of speed.
_DEFAULT_SLOPE = 0.5


def sold_gpu_prices(folder: Path) -> dict[str, float]:
    """The least price per GPU and hour by the GPU's name as AWS and Google Cloud give it."""
    prices: dict[str, float] = {}
    for name, price in (*_aws(folder), *_google(folder)):
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


def all_prices(speeds: Mapping[str, float], sold: Mapping[str, float]) -> dict[str, float]:
    """Prices of all GPUs in `speeds`; those not sold by a line in logs through those sold."""
    known = {name: price for name in speeds if (price := price_of(name, sold)) is not None}
    if not known:
        return {}
    x = np.log([speeds[name] for name in known])
    y = np.log(list(known.values()))
    spread = float(np.var(x))
    slope = float(np.cov(x, y, bias=True)[0, 1]) / spread if spread > 0 else _DEFAULT_SLOPE
    level = float(np.mean(y) - slope * np.mean(x))
    return {
        name: known.get(name, float(np.exp(level + slope * np.log(speed))))
        for name, speed in speeds.items()
    }


def _aws(folder: Path) -> list[tuple[str, float]]:
    path = folder / _TYPES
    if not path.is_file():
        return []
    table, prices = pd.read_csv(path), on_demand_prices(folder)
    if not {"instance_type", "gpu_name", "gpu_count"} <= set(table.columns):
        return []
    rows = table[pd.to_numeric(table["gpu_count"], errors="coerce") >= 1]
    columns = zip(rows["instance_type"], rows["gpu_name"], rows["gpu_count"], strict=True)
    return [(str(gpu), prices.get(kind, np.nan) / count) for kind, gpu, count in columns]


def _google(folder: Path) -> list[tuple[str, float]]:
    path = folder / _GCP
    if not path.is_file():
        return []
    table = pd.read_csv(path)
    if not {"gpu_name", "gpu_count", "usd_per_hour"} <= set(table.columns):
        return []
    rows = table[pd.to_numeric(table["gpu_count"], errors="coerce") >= 1]
    columns = zip(rows["gpu_name"], rows["gpu_count"], rows["usd_per_hour"], strict=True)
    return [(str(gpu), float(price) / count) for gpu, count, price in columns]


def _words(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", name.casefold()))
