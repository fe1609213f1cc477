"""One fold of `network_transfer`: fit to the rows to learn from, predict the rows to score."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.accuracy.network_rows import Row
from models.performance.layerwise import (
    LayerwiseModel,
    MeasuredStep,
    NetworkKey,
    OperationTable,
    Setting,
)
from models.performance.layerwise.choosing import choose_deviation
from models.performance.layerwise.form import Peaks, StepParts
from models.performance.layerwise.probing import fit_carrying, told_by_probe
from models.performance.networks import Floats


@dataclass(frozen=True, slots=True)
class Known:
    """A row with the capture that it is taken for."""

    row: Row
    key: NetworkKey

    @property
    def cell(self) -> tuple[str, int]:
        """Which network at which size: what a probe shares with the row it is for."""
        return self.row.network, self.key.pixels


class Fold:
    """A model of the rows to learn from, and what it says of other rows."""

    def __init__(
        self, learn: Sequence[Known], table: OperationTable, peaks: Mapping[Setting, Peaks]
    ) -> None:
        self._table = table
        self._learn: dict[Setting, list[Known]] = defaultdict(list)
        for known in learn:
            self._learn[known.row.setting].append(known)
        steps = [
            MeasuredStep(known.row.setting, known.key, known.row.batch_size, known.row.seconds)
            for known in learn
        ]
        between = choose_deviation(steps, [known.row.family for known in learn], table, peaks)
        self._model = LayerwiseModel.fit(steps, table, peaks, between)

    def knows(self, setting: Setting) -> bool:
        """Whether any row to learn from was measured there."""
        return setting in self._learn

    def parts(self, rows: Sequence[Known]) -> StepParts:
        """Predicted parts of rows of one setting."""
        setting = rows[0].row.setting
        operations = [self._table.step(one.key, compiled=setting.compiled) for one in rows]
        return self._model.parts(setting, operations, [one.row.batch_size for one in rows])

    def seconds(self, rows: Sequence[Known]) -> Floats:
        """Predicted seconds of rows of one setting, shape (len(rows),)."""
        return self.parts(rows).seconds

    def seconds_with_probes(self, rows: Sequence[Known], probes: Sequence[Known]) -> Floats:
        """The same, each row with one measured step of its network; probes are of one setting."""
        learnt = _pairs(self._learn[rows[0].row.setting], self._learn[probes[0].row.setting])
        told, residual = np.empty(0), np.empty(0)
        if learnt:
            first, second = zip(*learnt, strict=True)
            parts = self.parts(first)
            told = told_by_probe(self.parts(second), _seconds(second), parts)
            residual = np.log(_seconds(first) / parts.seconds)
        carrying = fit_carrying(told, residual)
        parts = self.parts(rows)
        told = told_by_probe(self.parts(probes), _seconds(probes), parts)
        return np.asarray(parts.seconds * np.exp(carrying.offset + carrying.share * told))


def _pairs(rows: Sequence[Known], probes: Sequence[Known]) -> list[tuple[Known, Known]]:
    by_cell = {probe.cell: probe for probe in probes}
    return [(row, by_cell[row.cell]) for row in rows if row.cell in by_cell]


def _seconds(rows: Sequence[Known]) -> Floats:
    return np.array([known.row.seconds for known in rows])


def probe_settings(settings: Sequence[Setting], peaks: Mapping[Setting, Peaks]) -> dict[
    Setting, list[Setting]
]:  # fmt: skip
    """For each setting the others that a probe may be measured in, the likest first.

    Another GPU, the same task, precision and form of software; likest is who shares most words of
    the source's name (layout, version), then who is nearest in the logarithms of the data sheet.
    """
    return {
        setting: sorted(
            (other for other in settings if _may_probe(other, setting, peaks)),
            key=lambda other: _unlikeness(other, setting, peaks),
        )
        for setting in settings
    }


def _may_probe(other: Setting, setting: Setting, peaks: Mapping[Setting, Peaks]) -> bool:
    same = all(
        getattr(other, name) == getattr(setting, name)
        for name in ("task", "precision", "compiled", "byte_width")
    )
    return same and not _same_gpu(peaks[other], peaks[setting])


def _same_gpu(one: Peaks, other: Peaks) -> bool:
    return one.bytes == other.bytes and bool(np.all(one.flops == other.flops))


def _unlikeness(
    other: Setting, setting: Setting, peaks: Mapping[Setting, Peaks]
) -> tuple[float, float, str]:
    words, others = set(setting.source.split("-")), set(other.source.split("-"))
    one, two = peaks[setting], peaks[other]
    distance = abs(np.log(one.bytes / two.bytes)) + np.abs(np.log(one.flops / two.flops)).max()
    return -len(words & others), float(distance), other.source
