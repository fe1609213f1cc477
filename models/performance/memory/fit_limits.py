"""Fits the constants that ship on which batches ran on a card, and which did not.

Each network tells an interval: at the batch that ran its peak was within the card, at the next
larger one it was not. NumPy only.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from advisor.errors import DataError
from models.performance.intervals import gaussian_multiplier
from models.performance.memory.peak import SCHEMA, usable_mib
from models.performance.networks import Floats

# A CUDA context with its kernels (400 to 600 MiB), and the handles and scratch memory of cuDNN and
# cuBLAS at any batch. Set from what such contexts take, not fitted: all these runs fill the card,
# so a constant and a slope cannot be told apart.
CONTEXT_MIB = 600.0 + 1024.0
CARD_MIB = 24_576.0
_QUANTILES = 99
_FEWEST = 20
# timm's benchmark trains by SGD with momentum: one more copy of what is trained.
_COPIES = 1
_KINDS = ("ran", "failed")


@dataclass(frozen=True, slots=True)
class Limits:
    """Allocated MiB by the trace at the batch that ran and at the one that failed, shape (n,)."""

    ran: Floats
    failed: Floats


def read_limits(path: Path) -> Limits:
    """From batch_limits.csv; `DataError` when it cannot be read."""
    try:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        ran, failed = (np.array([_allocated(row, kind) for row in rows]) for kind in _KINDS)
    except (OSError, KeyError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error})") from error
    return Limits(ran, failed)


def _allocated(row: Mapping[str, str], kind: str) -> float:
    state = float(row["weights_mib"]) + _COPIES * float(row["trained_mib"])
    return state + float(row[f"{kind}_peak_mib"])


def fit_limits(limits: Limits, trained_on: str) -> dict[str, Any]:
    """The document of memory_model.json: a slope on all tensors, and quantiles of its log errors.

    The log of a network's own slope is taken to be normal; mean and deviation are the likeliest
    for the intervals. Raises `DataError` with fewer than twenty networks.
    """
    if len(limits.ran) < _FEWEST:
        raise DataError(f"{len(limits.ran)} networks are too few to fit on; {_FEWEST} are not")
    room = usable_mib(CARD_MIB) - CONTEXT_MIB
    mean, deviation = likeliest_normal(np.log(room / limits.failed), np.log(room / limits.ran))
    # A full card is what is fitted, so the log error of the tensors is that of the whole peak
    # but for the context's share.
    share = room / usable_mib(CARD_MIB)
    ranks = np.arange(1, _QUANTILES + 1) / (_QUANTILES + 1)
    return {
        "schema": SCHEMA,
        "trained_on": trained_on,
        "context_mib": CONTEXT_MIB,
        "slopes": [round(math.exp(mean), 4)] * 4 + [0.0],
        "errors": [round(share * deviation * _normal_quantile(one), 4) for one in ranks],
    }


def likeliest_normal(low: Floats, high: Floats) -> tuple[float, float]:
    """Mean and deviation that make values within [low, high] (shape (n,) each) likeliest.

    Searched on a grid: the mean between the outermost middles, the deviation from 0.01 to 0.5.
    """
    middles = (low + high) / 2
    means = np.linspace(middles.min(), middles.max(), 101)
    deviations = np.geomspace(0.01, 0.5, 60)
    mean, deviation = (axis.ravel() for axis in np.meshgrid(means, deviations))
    inside = np.zeros(len(mean))
    for one, other in zip(low, high, strict=True):
        share = _normal_share((other - mean) / deviation) - _normal_share((one - mean) / deviation)
        inside += np.log(np.maximum(share, 1e-9))
    best = int(np.argmax(inside))
    return float(mean[best]), float(deviation[best])


def _normal_share(z: Floats) -> Floats:
    return np.array([0.5 * (1 + math.erf(one / math.sqrt(2))) for one in z])


def _normal_quantile(share: float) -> float:
    return gaussian_multiplier(share) if share >= 0.5 else -gaussian_multiplier(1 - share)
