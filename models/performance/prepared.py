"""Workloads on machines, predicted but for the disk: one question asks for hundreds of disks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from advisor.domain import CacheState, DiskRate, Prediction, Provenance, Resources, Stage
from advisor.messages import Message
from advisor.records import dataclass, replace
from models.performance.estimates import Estimates, Spread, estimates, log_lower
from models.performance.machines import DiskTable, Integers
from models.performance.networks import Floats
from models.performance.pipeline import STAGES, Load, Pipeline, PipelineColumns, storage_rate
from models.performance.scaling import Scaling
from models.performance.step_times import GpuRate
from models.performance.wording import MATTERS, Wording

_STORAGE = STAGES.index(Stage.STORAGE)


class Words(NamedTuple):
    """What a prediction's words are about, each of length n: loads, machines, rates of a GPU."""

    loads: Sequence[Load]
    machines: Sequence[Resources]
    gpu_rates: Sequence[GpuRate | None]
    scalings: Sequence[Scaling]
    wording: Wording

    def of(self, row: int, matters: int) -> tuple[Provenance, tuple[Message, ...]]:
        """Where a row's rate comes from, and notes on it."""
        return self.wording.of(
            self.loads[row], self.machines[row], self.gpu_rates[row], self.scalings[row], matters
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRows:
    """n rows; `rates` (n, 4) are those of the stages with the disks that the rows came with."""

    columns: PipelineColumns
    rates: Floats
    spread: Spread
    pipeline: Pipeline
    confidence: float
    words: Words

    def estimates(self) -> Estimates:
        """What is predicted of the rows as they came."""
        return estimates(self.columns, self.rates, self.spread, self.pipeline)

    def predictions(self) -> list[Prediction]:
        """The same as records, with their words."""
        return self._worded(range(len(self.rates)), self.estimates())

    def columns_with(
        self, rows: Integers, disks: DiskTable, cache: CacheState | None = None
    ) -> Estimates:
        """What is predicted of some rows, each with a disk of its own, without their words;
        `cache` None: as the rows came."""
        columns, rates = self._with_disks(rows, disks, cache)
        return estimates(columns, rates, self.spread.take(rows), self.pipeline)

    def log_lowers(
        self, rows: Integers, disks: DiskTable, cache: CacheState | None = None
    ) -> Floats:
        """Logarithms of lower bounds of some rows, each with its own disk (shape of `rows`)."""
        columns, rates = self._with_disks(rows, disks, cache)
        return log_lower(columns, rates, self.spread.take(rows), self.pipeline)

    def with_disks(self, rows: Sequence[int], disks: Sequence[DiskRate]) -> list[Prediction]:
        """Predictions of some rows, each with a disk of its own."""
        if not rows:
            return []
        places = np.array(rows, dtype=np.intp)
        columns, rates = self._with_disks(places, DiskTable.of(disks))
        result = estimates(columns, rates, self.spread.take(places), self.pipeline)
        return self._worded(rows, result)

    def _with_disks(
        self, rows: Integers, disks: DiskTable, cache: CacheState | None = None
    ) -> tuple[PipelineColumns, Floats]:
        columns = self.columns.with_disks(rows, disks)
        if cache is CacheState.COLD:  # nothing of the data set lies in the page cache yet
            columns = replace(columns, cached_share=np.zeros(len(rows)))
        rates = self.rates[rows]
        rates[:, _STORAGE] = storage_rate(columns, self.pipeline.parameters)
        return columns, rates

    def _worded(self, rows: Iterable[int], results: Estimates) -> list[Prediction]:
        """Rows of plain Python numbers, with their words."""
        columns = (
            results.lower,
            results.median,
            results.upper,
            results.stage_rates,
            results.calibrated,
        )
        numbers = (column.tolist() for column in columns)
        names, matters = results.bottleneck_names(), results.mattering(MATTERS).tolist()
        predictions = []
        for row, lower, median, upper, rates, calibrated, bottleneck, bits in zip(
            rows, *numbers, names, matters, strict=True
        ):
            provenance, notes = self.words.of(row, bits)
            scaling = self.words.scalings[row]
            predictions.append(
                Prediction(
                    lower=lower,
                    median=median,
                    upper=upper,
                    confidence=self.confidence,
                    stage_rates=_finite(rates),
                    bottleneck=bottleneck,
                    provenance=provenance,
                    extrapolation=notes,
                    calibrated=calibrated,
                    gpus_used=scaling.gpus,
                    gpu_efficiency=scaling.efficiency,
                )
            )
        return predictions


def _finite(rates: list[float]) -> dict[Stage, float]:
    """By stage, those that there are: others are infinite."""
    if np.inf not in rates:
        return dict(zip(STAGES, rates, strict=True))
    return {stage: rate for stage, rate in zip(STAGES, rates, strict=True) if rate < np.inf}


def stacked(parts: Sequence[PreparedRows]) -> PreparedRows:
    """The rows of several, one after the other, for `columns_with` and `log_lowers` alone: they may
    be of several confidences, and words about them are those of the first."""
    columns = {name: np.concatenate([getattr(part.columns, name) for part in parts])
               for name in PipelineColumns.__slots__}  # fmt: skip
    return replace(
        parts[0],
        columns=PipelineColumns(**columns),
        rates=np.concatenate([part.rates for part in parts]),
        spread=Spread.joined([part.spread for part in parts]),
    )
