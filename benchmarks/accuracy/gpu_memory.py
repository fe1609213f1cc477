"""Suite `gpu_memory`: what `advisor memory` says, against measured peaks and a grid of crashes.

Peaks are those below --score, articles/gpumemnet_timm_measured_vs_faketensor.csv, their networks
found by name in the table that ships. Nothing is fitted on them. Nothing under --train is used.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from advisor.domain import Task
from advisor.errors import UsageError
from advisor.models.bayes import Floats
from advisor.models.performance.memory import Conditions, MemoryProfile, bundled_profile, step_memory
from advisor.models.performance.memory.peak import PeakModel, bundled_peak_model
from advisor.models.performance.network_table import network_table
from benchmarks.accuracy.figures import NothingToScore, SuiteResult, figures
from benchmarks.accuracy.gpu_memory_grid import oom_grid

CONFIDENCE = 0.95
CARDS_GIB = (8, 12, 16, 24, 32)
CARD_MIB = 40_363.0  # the largest peak that was seen: no step that ran can show more
_PEAKS = Path("articles") / "gpumemnet_timm_measured_vs_faketensor.csv"


class Peaks(NamedTuple):
    """Measured and replayed MiB (without the context) of rows, and their families, (n,) each."""

    measured: Floats
    reserved: Floats
    families: np.ndarray[Any, Any]


def read_peaks(folder: Path) -> Peaks:
    """Rows whose network the table knows; momentum is taken for the optimiser."""
    with (folder / _PEAKS).open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["status"] == "ok"]
    found = {name: _profile(name) for name in {row["model"] for row in rows}}
    known = [(row, *one) for row in rows if (one := found[row["model"]])]
    return Peaks(
        np.array([float(row["gpu_mem_mib"]) for row, *_ in known]),
        np.array([_reserved(profile, int(row["batch"])) for row, profile, _ in known]),
        np.array([family for *_, family in known]),
    )


def _profile(network: str) -> tuple[MemoryProfile, str] | None:
    try:
        return bundled_profile(f"timm/{network}"), network_table().find(f"timm/{network}").family
    except UsageError:  # the table is made with another timm
        return None


def _reserved(profile: MemoryProfile, batch: int) -> float:
    return step_memory(profile, Conditions(task=Task.TRAINING, batch_size=batch)).reserved_mib


class Told(Struct, frozen=True):
    """Medians and upper bounds of rows, MiB of shape (n,)."""

    median: np.ndarray
    upper: np.ndarray


def run(train: Path, score: Path) -> SuiteResult:  # noqa: ARG001 (every suite has it)
    """Score what ships."""
    if not (score / _PEAKS).exists():
        raise NothingToScore(f"no {_PEAKS} there")
    peaks = read_peaks(score)
    if len(peaks.measured) == 0:
        raise NothingToScore("no measured network is in the table")
    shipped = _told(peaks, bundled_peak_model())
    grid, said = oom_grid(score)
    families = [str(one) for one in peaks.families]
    return SuiteResult(
        suite="gpu_memory",
        main=figures("as it ships", shipped.median, peaks.measured, families),
        variants=[],
        coverage=_coverage(peaks, shipped),
        extra={"simulated_cards": _cards(peaks.measured, shipped.upper), "oom_grid": grid},
        skipped=said,
    )


def _told(peaks: Peaks, model: PeakModel) -> Told:
    median = np.minimum(peaks.reserved + model.context_mib, CARD_MIB)
    return Told(median, median * model.bounds(CONFIDENCE)[1])


def _coverage(peaks: Peaks, told: Told) -> dict[str, Any]:
    below = peaks.measured <= told.upper
    families = {
        str(family): round(100 * float(below[peaks.families == family].mean()), 1)
        for family in np.unique(peaks.families)
    }
    worst = sorted(families.items(), key=lambda one: one[1])[:5]
    return {
        "upper_confidence": CONFIDENCE,
        "below_upper_percent": round(100 * float(below.mean()), 2),
        "below_upper_percent_mean_of_families": round(float(np.mean(list(families.values()))), 2),
        "worst_families": dict(worst),
        "median_over_provision_percent": round(100 * float(np.median(told.upper / told.median - 1)), 2),
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
