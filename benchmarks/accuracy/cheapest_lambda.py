"""The cheapest GPU of lambda_tf for a target, from a network measured on one of them.

Nothing was profiled there, and few networks were measured: the log ratio of two GPUs is learned
over phase, precision and weight of a step, without all rows of the asked network.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.accuracy.cheapest_questions import LOWER, Asked, Workloads, answers
from benchmarks.accuracy.figures import NothingToScore
from benchmarks.accuracy.gpu_prices import all_prices, price_of, price_slope, sold_gpu_prices
from models.performance.networks import Floats
from models.performance.transfer.few_networks import fit_ratio_of_gpus

RATES = Path("perfmodel/lambda_tf/lambda_tf_cnn_benchmarks.csv")
_KEY = ["model", "phase", "precision"]
_NEEDED = {*_KEY, "system", "data", "num_gpus", "images_per_sec"}
# A rate this many times off what network and GPU have in common is a wrong row of the source.
_WRONG = np.log(3.0)
_SOFTWARE = re.compile(r"(_NVLink|_HP16|_XLA|_trt\d*|_TF\d+[_.]\d+)+$")


@dataclass(frozen=True, slots=True)
class _Rates:
    """Log seconds a sample, one row a network, phase and precision, one column a GPU."""

    table: pd.DataFrame
    notes: tuple[str, ...] = ()

    def without(self, network: str) -> pd.DataFrame:
        return self.table[self.table.index.get_level_values("model") != network]

    def of(self, network: str) -> pd.DataFrame:
        return self.table[self.table.index.get_level_values("model") == network]


def lambda_answers(train: Path, score: Path) -> tuple[dict[str, Any], list[str]]:
    """Percentages by policy, from the GPU of median speed; and what was left out."""
    taught, asked = _read(train), _read(score)
    gpus = [name for name in taught.table.columns if name in asked.table.columns]
    speeds = {name: float(np.exp(-taught.table[name].mean())) for name in gpus}
    sold = sold_gpu_prices(train)
    prices = all_prices(speeds, sold, price_slope(train))
    if len(prices) < 2:
        raise NothingToScore("no GPU of lambda_tf has a price in the catalogue")
    names = sorted(prices, key=lambda name: prices[name])
    usd = np.array([prices[name] for name in names])
    anchor = _typical(speeds)
    networks = asked.table.index.get_level_values("model").unique()
    parts = []
    for network in networks:
        rest = taught.without(network)[names]
        if not _teaches(rest, anchor):
            continue
        scored = _workloads(rest, asked.of(network)[names], anchor, usd)
        parts.append(_calibrated(scored, _held_out(rest, anchor, usd)))
    if not parts:
        raise NothingToScore("too few networks of lambda_tf under --train")
    unsold = [name for name in names if price_of(name, sold) is None]
    note = f"no catalogue sells {', '.join(unsold)}: priced by speed like those sold"
    found = {"gpus": len(names), "from": anchor, "usd_per_hour": _rounded(prices), **answers(parts)}
    return found, [*taught.notes, *([note] if unsold else [])]


def _read(folder: Path) -> _Rates:
    path = folder / RATES
    if not path.is_file():
        raise NothingToScore(f"no {RATES} under {folder}")
    table = pd.read_csv(path)
    if not set(table.columns) >= _NEEDED:
        raise NothingToScore(f"{RATES} lacks {', '.join(sorted(_NEEDED - set(table.columns)))}")
    rate = pd.to_numeric(table["images_per_sec"], errors="coerce")
    single = (table["data"] == "syn") & (pd.to_numeric(table["num_gpus"], errors="coerce") == 1)
    rows = table[single & (rate > 0) & np.isfinite(rate)].assign(
        log_seconds=-np.log(rate), gpu=table["system"].map(_gpu), plain=~table["system"].map(_xla)
    )
    # Software stacks are not pooled: a GPU's plain runs where it has any, else its XLA runs.
    stack = rows.groupby("gpu")["plain"].transform("any")
    rows = rows[rows["plain"] | ~stack]
    wide = rows.pivot_table(index=_KEY, columns="gpu", values="log_seconds", aggfunc="median")
    return _without_wrong(wide)


def _without_wrong(wide: pd.DataFrame) -> _Rates:
    """Rates far off what workload and GPU have in common are a source's mistakes."""
    level = wide.sub(wide.median(axis=1), axis=0)
    wrong = (level - level.median(axis=0)).abs() > _WRONG
    cells = [
        f"{'/'.join(map(str, wide.index[row]))} on {wide.columns[column]}"
        for row, column in np.argwhere(wrong.to_numpy())
    ]
    notes = (f"wrong rates of lambda_tf left out: {'; '.join(cells)}",) if cells else ()
    return _Rates(wide.mask(wrong), notes)


def _typical(speeds: dict[str, float]) -> str:
    """The GPU of median speed: what is measured there says most about all others."""
    ordered = sorted(speeds, key=lambda name: speeds[name])
    return ordered[len(ordered) // 2]


def _gpu(system: object) -> str:
    """'Gold_6230-Quadro_RTX_8000_XLA_trt2_TF2_2' -> 'Quadro_RTX_8000'."""
    return re.sub(r"^\d+x", "", _SOFTWARE.sub("", str(system).partition("-")[2]))


def _xla(system: object) -> bool:
    return "XLA" in str(system).split("_")


def _teaches(rest: pd.DataFrame, anchor: str) -> bool:
    return len(rest) and bool(rest[anchor].notna().sum() >= len(_KEY) + 1)


def _workloads(rest: pd.DataFrame, asked: pd.DataFrame, anchor: str, usd: Floats) -> Workloads:
    """Predictions of all candidates for the rows of `asked`, taught by `rest`."""
    asked = asked[asked[anchor].notna()]
    predicted, deviations = np.full(asked.shape, np.nan), np.full(asked.shape, np.nan)
    for column, gpu in enumerate(asked.columns):
        if gpu == anchor:
            predicted[:, column], deviations[:, column] = -asked[anchor].to_numpy(float), 0.0
            continue
        both = rest[[anchor, gpu]].dropna()
        try:
            model = fit_ratio_of_gpus(
                _features(both, anchor), np.exp(both[anchor]), np.exp(both[gpu])
            )
        except ValueError:
            continue
        here = np.exp(asked[anchor].to_numpy(float))
        seconds, deviation = model.predict(_features(asked, anchor), here)
        predicted[:, column], deviations[:, column] = -seconds, deviation
    true = np.where(np.isfinite(predicted), -asked.to_numpy(float), np.nan)
    return Workloads(predicted=predicted, deviations=deviations, true=true, usd_per_hour=usd)


def _features(table: pd.DataFrame, anchor: str) -> Floats:
    phase = table.index.get_level_values("phase") == "train"
    half = table.index.get_level_values("precision") == "fp16"
    return np.column_stack([table[anchor].to_numpy(float), phase, half, phase & half]).astype(float)


def _calibrated(scored: Workloads, held_out: Workloads | None) -> Asked:
    """Deviations stretched until a normal error's 80 % interval covers 80 % of held-out rows."""
    if held_out is None:
        return scored, None
    unsure = held_out.deviations > 0
    errors = np.abs(held_out.true - held_out.predicted)[unsure] / held_out.deviations[unsure]
    stretch = float(np.nanquantile(errors, 0.8)) / LOWER
    return (
        replace(scored, deviations=scored.deviations * stretch),
        replace(held_out, deviations=held_out.deviations * stretch),
    )


def _held_out(rest: pd.DataFrame, anchor: str, usd: Floats) -> Workloads | None:
    """The taught networks, each predicted by the others: what close calls are calibrated on."""
    names = rest.index.get_level_values("model")
    parts = []
    for name in names.unique():
        others = rest[names != name]
        if _teaches(others, anchor):
            parts.append(_workloads(others, rest[names == name], anchor, usd))
    if not parts:
        return None
    return Workloads(
        predicted=np.concatenate([part.predicted for part in parts]),
        deviations=np.concatenate([part.deviations for part in parts]),
        true=np.concatenate([part.true for part in parts]),
        usd_per_hour=usd,
    )


def _rounded(prices: dict[str, float]) -> dict[str, float]:
    return {name: round(price, 3) for name, price in prices.items()}
