"""Suite `gpu_memory`: peaks of networks that were not fitted, from fake tensors; leave one
network out. The card's fits and crashes are in `gpu_memory_grid`.

For a scored row only its network's batches and `fake_*` columns are seen; GPUMemNet's measured
peaks (status ok) are what is predicted. Its licence is unknown: nothing of it ships.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.accuracy.figures import Figures, NothingToScore, SuiteResult, figures
from benchmarks.accuracy.gpu_memory_baselines import baselines
from benchmarks.accuracy.gpu_memory_grid import oom_grid
from models.performance.memory.fit import FittedPeaks, contradicted, fit_peaks
from models.performance.memory.probing import ProbeCorrection
from models.performance.memory.rows import StepRows, joined, rows_of

FILE = Path("articles", "gpumemnet_timm_measured_vs_faketensor.csv")
NUMBERS = ("batch", "gpu_mem_mib", "fake_fwd_mb", "fake_bwd_mb")
# Networks are left out in so many groups, which is harder than one by one, and quicker.
GROUPS = 8
PROBES = (8.0, 16.0)
CONFIDENCE = 0.95
# A peak cannot exceed the card: a row traced close to the largest peak seen is no witness.
_WITNESS_SHARE = 0.9
CARDS_GIB = (8, 12, 16, 24, 32)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with their columns; `measured` is MiB, `wrong` marks contradicted rows."""

    networks: np.ndarray
    rows: StepRows
    measured: np.ndarray
    raw: np.ndarray
    wrong: np.ndarray

    def take(self, chosen: np.ndarray) -> Table:
        """The rows of a mask."""
        return Table(
            self.networks[chosen],
            self.rows.take(chosen),
            self.measured[chosen],
            self.raw[chosen],
            self.wrong[chosen],
        )


@dataclass(frozen=True, slots=True)
class Predicted:
    """What one group of scored networks got: medians, upper bounds, and medians by probe."""

    table: Table
    median: np.ndarray
    upper: np.ndarray
    probed: dict[float, np.ndarray]
    baselines: dict[str, np.ndarray]


def run(train: Path, score: Path) -> SuiteResult:
    """Fit on the training side's networks that are not scored, predict the scored ones."""
    known, said = _read(train)
    asked, said = (known, said) if train == score else _read(score)
    if len(asked.measured) == 0:
        raise NothingToScore(f"{FILE} under --score has no usable row")
    parts = [_predict(known, group) for group in _groups(asked, train == score)]
    grid, unanswered = oom_grid(score)
    return _result(parts, [*said, *unanswered], grid)


def _read(folder: Path) -> tuple[Table, list[str]]:
    """Rows marked ok; rows of crashes only bear witness against others."""
    path = folder / FILE
    if not path.is_file():
        raise NothingToScore(f"no {FILE}")
    frame = pd.read_csv(path)
    missing = {"model", *NUMBERS} - set(frame.columns)
    if missing:
        raise NothingToScore(f"{FILE} lacks {', '.join(sorted(missing))}")
    for name in NUMBERS:
        frame[name] = pd.to_numeric(frame[name], errors="coerce")
    usable = frame["model"].notna() & (frame[list(NUMBERS)] > 0).all(axis=1)
    usable &= np.isfinite(frame[list(NUMBERS)]).all(axis=1)
    kept = frame[usable].drop_duplicates(["model", "batch"]).sort_values(["model", "batch"])
    said = [f"{len(frame) - len(kept)} rows without positive numbers or repeated"]
    table = _table(kept.reset_index(drop=True))
    good = (kept["status"] == "ok").to_numpy() if "status" in kept else table.measured > 0
    said.append(f"{int((~good).sum())} rows marked as out of memory or crashed")
    return table.take(good), said


def _table(frame: pd.DataFrame) -> Table:
    points = frame[["batch", "fake_fwd_mb", "fake_bwd_mb"]].to_numpy(float)
    names = frame["model"].astype(str).to_numpy()
    measured = frame["gpu_mem_mib"].to_numpy(float)
    parts = []
    for start, end in _runs(names):
        mine = [(b, f, max(f, w)) for b, f, w in points[start:end].tolist()]
        parts.append(rows_of(mine, [batch for batch, *_ in mine]))
    witness = points[:, 2] < _WITNESS_SHARE * measured.max() if len(measured) else names == ""
    wrong = np.zeros(len(names), dtype=bool)
    wrong[witness] = contradicted(points[witness, 0], measured[witness], names[witness])
    rows = joined(parts) if parts else rows_of([(1.0, 1.0, 1.0)], [])
    return Table(names, rows, measured, points[:, 2], wrong)


def _runs(names: np.ndarray) -> Iterator[tuple[int, int]]:
    """First and past-the-last index of each network in sorted rows."""
    edges = np.flatnonzero(names[1:] != names[:-1]) + 1 if len(names) else np.array([], int)
    bounds = [0, *edges.tolist(), len(names)]
    yield from (pair for pair in pairwise(bounds) if pair[1] > pair[0])


def _groups(asked: Table, same: bool) -> Iterator[Table]:
    """All at once where the training side is another folder, else groups of networks."""
    if not same:
        yield asked
        return
    distinct = np.random.default_rng(1).permutation(np.unique(asked.networks))
    for part in range(GROUPS):
        chosen = np.isin(asked.networks, distinct[part::GROUPS])
        if chosen.any():
            yield asked.take(chosen)


def _predict(known: Table, scored: Table) -> Predicted:
    """From the known rows of other networks that their own network does not contradict."""
    rest = known.take(~np.isin(known.networks, scored.networks))
    if len(rest.measured) == 0:
        raise NothingToScore(f"{FILE} under --train has no row of a network that is not scored")
    clean = rest.take(~rest.wrong)
    fitted = fit_peaks(clean.rows, clean.measured, clean.networks.tolist())
    # The largest peak that was measured fills the card; no step that ran can show more.
    median = np.minimum(fitted.model.median_mib(scored.rows), known.measured.max())
    return Predicted(
        scored,
        median,
        fitted.model.bounds_mib(scored.rows, CONFIDENCE)[1],
        {probe: _probed(fitted, clean, scored, median, probe) for probe in PROBES},
        baselines(rest.rows, rest.measured, scored.rows, scored.raw),
    )


def _probed(
    fitted: FittedPeaks, clean: Table, scored: Table, median: np.ndarray, probe: float
) -> np.ndarray:
    """Medians corrected by the network's own peak at batch `probe`; nan where it has none, and
    at the probe itself."""
    correction = ProbeCorrection.fit(
        clean.rows.batch, fitted.held_out_log, clean.networks.tolist(), probe
    )
    log = np.log(scored.measured / median)
    at = scored.rows.batch == probe
    seen = dict(zip(scored.networks[at], log[at].tolist(), strict=True))
    told = np.array([seen.get(name, np.nan) for name in scored.networks])
    told[scored.rows.batch <= probe] = np.nan
    share = correction.share(np.abs(np.log2(scored.rows.batch / probe)))
    return np.asarray(median * np.exp(share * told))


def _result(parts: list[Predicted], said: list[str], grid: dict[str, Any]) -> SuiteResult:
    measured = np.concatenate([part.table.measured for part in parts])
    names = [str(name) for part in parts for name in part.table.networks]
    median = np.concatenate([part.median for part in parts])
    upper = np.concatenate([part.upper for part in parts])
    wrong = np.concatenate([part.table.wrong for part in parts])
    variants = [_probe_figures(parts, measured, probe) for probe in PROBES]
    if (~wrong).any():
        label = "rows that another batch of their network does not contradict"
        variants.append(figures(label, median[~wrong], measured[~wrong]))
    kinds = parts[0].baselines
    return SuiteResult(
        suite="gpu_memory",
        main=figures("no probe", median, measured, names),
        variants=[one for one in variants if one is not None],
        baselines=[
            figures(kind, np.concatenate([part.baselines[kind] for part in parts]), measured)
            for kind in kinds
        ],
        coverage=_coverage(measured, median, upper),
        extra={"simulated_cards": _cards(measured, upper), "oom_grid": grid},
        skipped=said,
    )


def _probe_figures(parts: list[Predicted], measured: np.ndarray, probe: float) -> Figures | None:
    predicted = np.concatenate([part.probed[probe] for part in parts])
    known = np.isfinite(predicted)
    if not known.any():
        return None
    return figures(f"one probe at batch {probe:g}", predicted[known], measured[known])


def _coverage(measured: np.ndarray, median: np.ndarray, upper: np.ndarray) -> dict[str, Any]:
    return {
        "upper_confidence": CONFIDENCE,
        "below_upper_percent": round(100 * float(np.mean(measured <= upper)), 2),
        "median_over_provision_percent": round(100 * float(np.median(upper / median - 1)), 2),
    }


def _cards(measured: np.ndarray, upper: np.ndarray) -> dict[str, Any]:
    """Were these cards of so many GiB: how many answers "fits" would have crashed."""
    fits = [upper <= gib * 1024 for gib in CARDS_GIB]
    crashed = [told & (measured > gib * 1024) for told, gib in zip(fits, CARDS_GIB, strict=True)]
    told, wrong = sum(int(one.sum()) for one in fits), sum(int(one.sum()) for one in crashed)
    return {
        "cards_gib": list(CARDS_GIB),
        "fits": told,
        "fits_but_crashes": wrong,
        "fits_but_crashes_percent": round(100 * wrong / told, 2) if told else None,
    }
