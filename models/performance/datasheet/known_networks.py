"""What a network's rates on other GPUs say of its steps on one that it was not measured on.

A fitted `DataSheetModel` as numbers by name, so that predicting needs no fit: an effect that no
row told stays at its prior's mean.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from advisor.domain import Gpu, Precision, Workload
from advisor.records import dataclass
from models.performance.datasheet.effects import prior, row_effects
from models.performance.datasheet.records import RateRow, Software
from models.performance.networks import Floats
from models.performance.step_work import capability, chip

if TYPE_CHECKING:
    from models.performance.published import PublishedRow

_OF_SOURCES = ("offset/source/", "offset/libraries/")
_DIGITS = 5


@dataclass(frozen=True, slots=True)
class KnownNetworks:
    """Effects by name, and the workloads ('resnet50/training/fp32') that they tell of."""

    effects: Mapping[str, float]
    workloads: frozenset[str]

    def step_seconds(self, row: RateRow, batch_sizes: Floats) -> Floats | None:
        """Seconds of a step at each batch size, shape (b,), whatever the row's own batch size.

        None where the network was measured nowhere with that task and precision.
        """
        if row.gpu is None or row.workload not in self.workloads:
            return None
        told = row_effects(row)
        compute, memory, launch, offset = (
            sum(self._value(name) for name in names) for names in told.names
        )
        constants = told.constants
        each = math.exp(compute + constants[0]) + math.exp(memory + constants[1])
        milliseconds: Floats = (batch_sizes * each + math.exp(launch)) * math.exp(offset)
        return milliseconds / 1000

    def only(self, networks: Collection[str]) -> KnownNetworks:
        """What predictions of these networks with today's PyTorch need."""
        workloads = frozenset(w for w in self.workloads if w.split("/")[0] in networks)
        others = {w.split("/")[0] for w in self.workloads} - set(networks)
        effects = {
            name: value
            for name, value in self.effects.items()
            if not name.startswith(_OF_SOURCES) and not others & set(name.split("/"))
        }
        return KnownNetworks(effects, workloads)

    def _value(self, name: str) -> float:
        return self.effects[name] if name in self.effects else prior(name).mean


def fit_known_networks(rows: Sequence[PublishedRow]) -> KnownNetworks:
    """From all rows that tell whole networks; raises `NothingKnown` without any."""
    from models.performance.datasheet.model import DataSheetModel  # nobody predicts with it

    model = DataSheetModel().fit([published_rate(row) for row in rows if row.is_eager])
    effects = {name: round(value, _DIGITS) for name, value in model.effects().items()}
    return KnownNetworks(effects, model.workloads)


def published_rate(row: PublishedRow) -> RateRow:
    """A published step as the data-sheet form has it."""
    stack = row.stack
    return RateRow(
        gpu_name=chip(row.gpu.name),
        gpu=row.gpu,
        network=row.network,
        task=row.task,
        precision=row.precision,
        batch_size=row.batch_size,
        software=Software(name=stack.name, libraries=stack.name, tf32=stack.tf32),
        source=f"{stack.name}/{stack.host}",
        samples_per_second=row.batch_size / row.step_seconds,
    )


def asked_rate(workload: Workload, gpu: Gpu) -> RateRow:
    """What is asked of a workload in today's PyTorch.

    Nobody published bf16: it computes and moves what fp16 does, or fp32 without units for it.
    """
    precision = workload.precision
    if precision is Precision.BF16:
        precision = Precision.AMP if capability(gpu) >= 8 else Precision.FP32
    return RateRow(
        gpu_name=chip(gpu.name),
        gpu=gpu,
        network=workload.network,
        task=workload.task,
        precision=precision,
        batch_size=workload.batch_size,
        software=Software(name="", tf32=True),
        source="",
    )
