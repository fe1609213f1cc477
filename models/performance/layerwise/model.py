"""A layer-wise model of the settings (GPU, precision, task, software) that were measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from advisor.domain import Task
from advisor.errors import DataError, UsageError
from models.performance.layerwise.fitting import fit_parameters
from models.performance.layerwise.form import (
    NAMES,
    PRIOR,
    Peaks,
    Prior,
    StepParts,
    Steps,
    step_parts,
    steps_of,
)
from models.performance.layerwise.operations import NetworkKey, OperationTable, StepOperations
from models.performance.networks import Floats

SCHEMA = "advisor.layerwise/1"
# With fewer measured steps a setting leans on the others of its task and precision.
ENOUGH_OF_ITS_OWN = 200
# Log deviation of a parameter between settings, where nobody chose another.
BETWEEN_SETTINGS = 0.5


class Setting(NamedTuple):
    """Where steps were measured; settings share nothing but their priors.

    `source` tells software, memory layout and machine apart. `byte_width` is bytes of a number
    over those of the captured step (0.5: an fp32 capture that runs wholly in fp16).
    """

    source: str
    gpu: str
    precision: str
    task: Task
    compiled: bool = False
    byte_width: float = 1.0


class MeasuredStep(NamedTuple):
    """One measured step of a network."""

    setting: Setting
    network: NetworkKey
    batch_size: float
    seconds: float


class LayerwiseModel:
    """Step seconds of any captured network in the settings that it was fitted to."""

    def __init__(self, peaks: Mapping[Setting, Peaks], parameters: Mapping[Setting, Floats]):
        self.peaks = dict(peaks)
        self.parameters = dict(parameters)

    @classmethod
    def fit(
        cls,
        measured: Sequence[MeasuredStep],
        table: OperationTable,
        peaks: Mapping[Setting, Peaks],
        between_settings: float = BETWEEN_SETTINGS,
    ) -> LayerwiseModel:
        """Parameters of each setting from its steps; few steps lean on settings like theirs.

        `peaks` has the data sheet of every setting. Steps must be in `table` and their seconds
        above 0. `between_settings` is the log deviation of parameters between settings
        (`choosing.choose_deviation` finds it).
        """
        by_setting: dict[Setting, list[MeasuredStep]] = defaultdict(list)
        for step in measured:
            by_setting[step.setting].append(step)
        alone = {
            setting: _fitted(steps, table, peaks[setting], PRIOR)
            for setting, steps in by_setting.items()
        }
        parameters = {
            setting: _fitted(
                steps, table, peaks[setting], _prior_of_others(setting, alone, between_settings)
            )
            if len(steps) < ENOUGH_OF_ITS_OWN
            else alone[setting]
            for setting, steps in by_setting.items()
        }
        return cls({setting: peaks[setting] for setting in by_setting}, parameters)

    @property
    def settings(self) -> tuple[Setting, ...]:
        """What it can predict for."""
        return tuple(self.parameters)

    def parts(
        self, setting: Setting, operations: Sequence[StepOperations], batch_sizes: Sequence[float]
    ) -> StepParts:
        """Where the time of each step goes; a `UsageError` for a setting never measured."""
        if setting not in self.parameters:
            raise UsageError(
                f"no steps were measured with {setting.source} on {setting.gpu} in "
                f"{setting.precision} {setting.task}; measure a few networks there first"
            )
        steps = _steps(setting, operations, batch_sizes, self.peaks[setting])
        return step_parts(steps, self.parameters[setting])

    def seconds(
        self, setting: Setting, operations: Sequence[StepOperations], batch_sizes: Sequence[float]
    ) -> Floats:
        """Seconds of a step of each network at its batch size, shape (len(operations),)."""
        return self.parts(setting, operations, batch_sizes).seconds

    def as_document(self) -> dict[str, Any]:
        """The model as JSON has it."""
        settings = [
            {
                **setting._asdict(),
                "peak_flops": self.peaks[setting].flops.tolist(),
                "peak_bytes": self.peaks[setting].bytes,
                "multiprocessors": self.peaks[setting].multiprocessors,
                "parameters": dict(zip(NAMES, parameters.tolist(), strict=True)),
            }
            for setting, parameters in self.parameters.items()
        ]
        return {"schema": SCHEMA, "settings": settings}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> LayerwiseModel:
        """The model that `as_document` told; `DataError` for anything else."""
        peaks: dict[Setting, Peaks] = {}
        parameters: dict[Setting, Floats] = {}
        try:
            if document["schema"] != SCHEMA:
                raise DataError(f"schema {document['schema']} is not {SCHEMA}; fit it again")
            for one in document["settings"]:
                named = {name: one[name] for name in Setting._fields}
                setting = Setting(**{**named, "task": Task(one["task"])})
                flops = np.array(one["peak_flops"], dtype=float)
                peaks[setting] = Peaks(flops, one["peak_bytes"], one["multiprocessors"])
                parameters[setting] = np.array([one["parameters"][name] for name in NAMES])
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"no layer-wise model ({error}); fit it again") from error
        return cls(peaks, parameters)


def _fitted(
    measured: Sequence[MeasuredStep], table: OperationTable, peaks: Peaks, prior: Prior
) -> Floats:
    setting = measured[0].setting
    operations = [table.step(step.network, compiled=setting.compiled) for step in measured]
    steps = _steps(setting, operations, [step.batch_size for step in measured], peaks)
    return fit_parameters(steps, np.array([step.seconds for step in measured]), prior)


def _steps(
    setting: Setting,
    operations: Sequence[StepOperations],
    batch_sizes: Sequence[float],
    peaks: Peaks,
) -> Steps:
    widened = [one.in_bytes(setting.byte_width) for one in operations]
    return steps_of(widened, batch_sizes, peaks)


def _prior_of_others(setting: Setting, alone: Mapping[Setting, Floats], between: float) -> Prior:
    """What the settings of the same task and precision, this one among them, have in common."""
    like = [
        parameters
        for other, parameters in alone.items()
        if (other.task, other.precision) == (setting.task, setting.precision)
    ]
    if len(like) < 2:
        return PRIOR
    return Prior(np.mean(like, axis=0), np.minimum(PRIOR.deviation, between))
