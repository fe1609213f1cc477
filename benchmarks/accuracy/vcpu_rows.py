"""The curves of suite `vcpu_curve`, read from their files; duplicates are dropped and said."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.accuracy.curves.scaling import VcpuCurve
from benchmarks.accuracy.figures import NothingToScore
from models.performance.networks import Floats

_PRESTO = Path("perfmodel/presto/presto_thread_speedup.csv")
_SYNERGY = Path("perfmodel/synergy/synergy_cpu_mem_matrix.csv")
_THREADS = (1, 2, 4, 8)
_KEYS = ["notebook", "cell", "strategy", "sample_count", "dtype"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads:
    """Rates (3,) at 1, 2 and 4 threads with relative standard errors, and the rate at 8.

    `curve` is what tells a curve from its copies: the rates themselves.
    """

    workload: str
    rates: Floats
    errors: Floats
    at_eight: float
    curve: tuple[float, ...]


def presto(folder: Path, notes: list[str]) -> list[Threads]:
    """One curve a notebook, strategy and sample count that has all four thread counts.

    The workload is the notebook: `old-notebooks/x` and `x` are one.
    """
    rows = _read(folder / _PRESTO, ["notebook", "thread_count", "speedup"], notes)
    rows["thread_count"] = pd.to_numeric(rows["thread_count"], errors="coerce")
    keys = [name for name in _KEYS if name in rows]
    curves: dict[tuple[float, ...], Threads] = {}
    incomplete, copies = 0, 0
    for key, group in rows.groupby(keys, dropna=False):
        found = _threads(str(key[0]).rpartition("/")[2], group)
        if found is None:
            incomplete += 1
            continue
        copies += found.curve in curves
        curves.setdefault(found.curve, found)
    notes.append(f"Presto: {incomplete} curves lack a thread count, {copies} are copies")
    if not curves:
        raise NothingToScore(f"no curve over 1, 2, 4 and 8 threads in {folder / _PRESTO}")
    return list(curves.values())


def _threads(workload: str, rows: pd.DataFrame) -> Threads | None:
    by_count = rows.groupby("thread_count")["speedup"]
    medians, means = by_count.median(), by_count.mean()
    if not set(_THREADS) <= set(medians.index):
        return None
    errors = (by_count.std() / means / np.sqrt(by_count.count())).reindex(_THREADS[:3])
    rates = medians.reindex(_THREADS).to_numpy(float)
    return Threads(
        workload=workload,
        rates=rates[:3],
        errors=errors.to_numpy(float),
        at_eight=float(rates[3]),
        curve=tuple(np.round(rates, 5).tolist()),
    )


def synergy(folder: Path, notes: list[str]) -> list[VcpuCurve]:
    """Distinct curves over vCPUs, one a network, number of GPUs and memory column.

    The four server sizes repeat each other's curves; a throughput of 0 means not run.
    """
    needed = ["model", "cpus", "norm_throughput"]
    rows = _read(folder / _SYNERGY, needed, notes, value="norm_throughput")
    rows["cpus"] = pd.to_numeric(rows["cpus"], errors="coerce")
    keys = [name for name in ["model", "folder", "gpus", "mem_col"] if name in rows]
    curves: dict[tuple[object, ...], VcpuCurve] = {}
    copies = 0
    for key, group in rows[rows["cpus"] > 0].groupby(keys, dropna=False):
        rates = group.groupby("cpus")["norm_throughput"].median().sort_index()
        if len(rates) <= 3:
            continue
        vcpus, values = rates.index.to_numpy(float), rates.to_numpy(float)
        gpus = group["gpus"].iloc[0] if "gpus" in group else 1
        same = (key[0], gpus, tuple(vcpus), tuple(values))
        copies += same in curves
        curves.setdefault(same, VcpuCurve(workload=str(key[0]), vcpus=vcpus, rates=values))
    notes.append(f"Synergy: {copies} curves are copies")
    if not curves:
        raise NothingToScore(f"no curve of more than three points in {folder / _SYNERGY}")
    return list(curves.values())


def _read(
    path: Path, needed: list[str], notes: list[str], *, value: str = "speedup"
) -> pd.DataFrame:
    if not path.is_file():
        raise NothingToScore(f"no {path}")
    rows = pd.read_csv(path)
    if not set(needed) <= set(rows.columns):
        raise NothingToScore(f"{path} lacks columns {sorted(set(needed) - set(rows.columns))}")
    rows[value] = pd.to_numeric(rows[value], errors="coerce")
    usable = np.isfinite(rows[value]) & (rows[value] > 0) & rows[needed[0]].notna()
    if not usable.all():
        notes.append(f"{(~usable).sum()} rows of {path.name} without a positive rate")
    return rows[usable].copy()
