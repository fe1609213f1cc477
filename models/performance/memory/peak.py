"""From a traced step to what a GPU shows: context, allocator and workspaces, with their doubt.

The trace knows every tensor; it knows nothing of the CUDA context, of memory that the caching
allocator holds in blocks larger than the tensors in them, and of cuDNN's workspaces. Those are
what `PeakModel` adds. The one that ships has two constants (see `fit.fit_from_limits`); one that
is fitted on measured peaks has a slope a term and a learnt remainder. NumPy only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol

import numpy as np

from advisor.errors import DataError, UsageError
from advisor.records import dataclass, replace
from models.performance.bundled import read_bundled
from models.performance.memory.rows import StepRows
from models.performance.networks import Floats

SCHEMA = "advisor.memory-model/1"
BUNDLED = "memory_model.json"
# The driver keeps 1.5 to 2.5 % of a card for itself: a T4 of 15,360 MiB offers 15,095.
_OFFERED_SHARE = 0.98


class Remainder(Protocol):
    """What is learnt on top of the straight lines."""

    def correction(self, rows: StepRows) -> tuple[Floats, Floats]:
        """Log correction of the peak, and the scale of its doubt in log, each of shape (n,)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakModel:
    """Peak = context + slopes . terms, times the remainder's correction.

    `slopes` belong to `StepRows.terms`. `errors` are sorted log(measured / predicted) of
    networks that were not fitted, divided by the scale of their doubt.
    """

    context_mib: float
    slopes: tuple[float, ...]
    errors: tuple[float, ...]
    trained_on: str
    remainder: Remainder | None = None

    def median_mib(self, rows: StepRows) -> Floats:
        """The peak that is as likely too low as too high, shape (n,)."""
        return self._median_and_scale(rows)[0]

    def bounds_mib(self, rows: StepRows, confidence: float) -> tuple[Floats, Floats]:
        """Lower and upper one-sided bounds, shape (n,) each.

        Normalised split conformal: the ceil((n + 1) confidence)-th of n held-out errors (or the
        largest, where there are too few for the confidence). `UsageError` outside 0.5..1.
        """
        if not 0.5 <= confidence < 1:
            raise UsageError(f"confidence must lie between 0.5 and 1, not {confidence}")
        median, scale = self._median_and_scale(rows)
        count = len(self.errors)
        rank = min(count, math.ceil((count + 1) * confidence - 1e-9)) - 1
        high, low = max(0.0, self.errors[rank]), min(0.0, self.errors[count - 1 - rank])
        return median * np.exp(scale * low), median * np.exp(scale * high)

    def probability_within(self, rows: StepRows, mib: float) -> Floats:
        """How likely the peak stays within `mib`, shape (n,), never 0 or 1."""
        median, scale = self._median_and_scale(rows)
        margin = np.log(mib / median) / scale
        count = len(self.errors)
        ranks = np.arange(1, count + 1) / (count + 1)
        least = 0.5 / (count + 1)
        return np.interp(margin, self.errors, ranks, left=least, right=1 - least)

    def widened(self, factor: float) -> PeakModel:
        """The same with errors `factor` times as large: for what it was not calibrated on."""
        return replace(self, errors=tuple(factor * one for one in self.errors))

    def _median_and_scale(self, rows: StepRows) -> tuple[Floats, Floats]:
        straight = self.context_mib + rows.terms() @ np.array(self.slopes)
        if self.remainder is None:
            return straight, np.ones(len(rows))
        log, scale = self.remainder.correction(rows)
        return straight * np.exp(log), scale


def usable_mib(card_mib: float) -> float:
    """What a process can take of a card with `card_mib` in its data sheet or nvidia-smi."""
    return _OFFERED_SHARE * card_mib


def card_mib(usable: float) -> float:
    """The card that offers so much: the inverse of `usable_mib`."""
    return usable / _OFFERED_SHARE


def peak_model_from(document: Mapping[str, Any]) -> PeakModel:
    """The model of memory_model.json; KeyError, TypeError or ValueError when it is none."""
    return PeakModel(
        context_mib=float(document["context_mib"]),
        slopes=tuple(map(float, document["slopes"])),
        errors=tuple(map(float, document["errors"])),
        trained_on=str(document["trained_on"]),
    )


@cache
def bundled_peak_model() -> PeakModel:
    """The one that ships; `DataError` when the file is missing or damaged."""
    try:
        document = json.loads(read_bundled(BUNDLED))
        if document["schema"] != SCHEMA:
            raise DataError(f"{BUNDLED} has schema {document['schema']}, not {SCHEMA}")
        return peak_model_from(document)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{BUNDLED} cannot be read ({error}); install the package again") from error
