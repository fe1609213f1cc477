"""Predictions prepared up to the disk, since one question compares hundreds of disks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from advisor.domain import CacheState, DiskRate, Gpu, Precision, Prediction, Provenance, Resources, Stage
from advisor.errors import STILL_WANTED, SpentError
from advisor.messages import Message
from advisor.models.bayes import Floats
from advisor.models.performance.cpu_step_times import bundled_cpu_step_times
from advisor.models.performance.estimates import Estimates, Spread, estimates
from advisor.models.performance.machines import (
    SAME_SCORE,
    Columns,
    DiskTable,
    Integers,
    assumed_copy_gb_per_second,
)
from advisor.models.performance.pipeline import (
    STAGES,
    Pipeline,
    PipelineColumns,
    PipelineRequest,
    storage_rate,
)
from advisor.models.performance.scaling import Scaling
from advisor.models.performance.step_times import GpuRate

_STORAGE = STAGES.index(Stage.STORAGE)
# A stage with a smaller weight in the rate is not mentioned.
MATTERS = 0.05
# GPUs with a lower efficiency over nodes wait for gradients longer than they compute.
MOSTLY_WAITING = 0.5
# Bits of stages, in the order of `STAGES`.
_ACCELERATOR, _HOST, _TRANSFER = 1, 2, 8
_WORSE = list(Provenance)

Objects = NDArray[np.object_]


class Words(Columns, frozen=True):
    """What provenance and notes of n predictions follow from: columns (n,) of `PipelineRequest`, `Resources`,
    `GpuRate` (None without a GPU) and `Scaling`."""

    loads: Objects
    machines: Objects
    gpu_rates: Objects
    scalings: Objects

    def of(self, row: int, matters: int, pipeline: Pipeline) -> tuple[Provenance, tuple[Message, ...]]:
        """The weakest provenance among the stages that matter in a row, and notes on facts outside the
        measured range that matter for its rate; bit k of `matters` is stage k."""
        load: PipelineRequest = self.loads[row]
        resources: Resources = self.machines[row]
        scaling: Scaling = self.scalings[row]
        kinds: list[Provenance] = []
        notes: list[Message] = []
        if matters & _ACCELERATOR and (rate := self.gpu_rates[row]):
            is_several = scaling.gpus > 1 or scaling.nodes > 1
            kinds.append(Provenance.MODELLED if is_several else rate.provenance)
            notes += [*rate.notes, *scaling.notes()]
        if matters & _HOST or load.on_cpu:
            of_host, more = _host(resources, pipeline)
            kinds.append(of_host)
            notes += more
        if load.on_cpu:
            workload, key = load.workload, f"{load.workload.network}/{load.workload.task}"
            is_own = key in pipeline.cpu_networks
            kinds += [] if is_own else [Provenance.MODELLED]  # a core was measured, not this machine
            existing = is_own or key in bundled_cpu_step_times().networks
            if workload.precision is not Precision.FP32 or not existing:
                network = workload.network
                notes.append(Message("{network} was not measured on a CPU like this", network=network))
        if matters & _TRANSFER and resources.host_to_gpu_gb_per_second is None:
            notes.append(copy_assumed_note(resources.gpu))
        return max(kinds, key=_WORSE.index, default=Provenance.MODELLED), tuple(notes)


# Rows joined at once, which bounds memory: joining takes about a kilobyte per row.
_ROWS_AT_ONCE = 16_384


class PreparedRows(Struct, frozen=True, kw_only=True):
    """n prepared predictions; `rates` (n, 4) are the stages' rates with the requests' disks."""

    columns: PipelineColumns
    rates: Floats
    spread: Spread
    pipeline: Pipeline
    confidence: float
    words: Words

    def estimates(self) -> Estimates:
        """Predictions of all rows, in their order."""
        return estimates(self.columns, self.rates, self.spread, self.pipeline, self.confidence)

    def predictions(self) -> list[Prediction]:
        """Each row's prediction as a record, with provenance and notes."""
        return self._worded(range(len(self.rates)), self.estimates())

    def beside(self, other: PreparedRows) -> PreparedRows:
        """These rows, followed by those of `other`, which has the same confidence."""
        return replace(
            self,
            columns=PipelineColumns.joined([self.columns, other.columns]),
            rates=np.concatenate([self.rates, other.rates]),
            spread=Spread.joined([self.spread, other.spread]),
            words=Words.joined([self.words, other.words]),
        )

    def columns_with(self, rows: Integers, disks: DiskTable, cache: CacheState | None = None) -> Estimates:
        """Predictions of `rows`, each with one of `disks`, without notes; `cache` None: as prepared."""
        parts = []
        for first in range(0, max(len(rows), 1), _ROWS_AT_ONCE):
            if not STILL_WANTED.get()():
                raise SpentError
            part = slice(first, first + _ROWS_AT_ONCE)
            parts.append(self._with_disks(rows[part], disks.take(part), cache))
        return Estimates.joined(parts)

    def with_disks(self, rows: Sequence[int], disks: Sequence[DiskRate]) -> list[Prediction]:
        """Predictions of `rows`, each with the disk of the same place in `disks`, as records with notes."""
        if not rows:
            return []
        places = np.array(rows, dtype=np.intp)
        return self._worded(rows, self._with_disks(places, DiskTable.of(disks)))

    def _with_disks(self, rows: Integers, disks: DiskTable, cache: CacheState | None = None) -> Estimates:
        columns = self.columns.with_disks(rows, disks)
        if cache is CacheState.COLD:  # nothing of the data set lies in the page cache yet
            columns = replace(columns, cached_share=np.zeros(len(rows)))
        rates = self.rates[rows]
        rates[:, _STORAGE] = storage_rate(columns, self.pipeline.parameters)
        return estimates(columns, rates, self.spread.take(rows), self.pipeline, self.confidence)

    def _worded(self, rows: Iterable[int], results: Estimates) -> list[Prediction]:
        """The results as records of plain Python numbers, with provenance and notes."""
        columns = (results.lower, results.median, results.upper, results.stage_rates, results.calibrated)
        numbers = (column.tolist() for column in columns)
        # The stages that weigh enough: bit k stands for the k-th of `STAGES`.
        matters = ((results.weights >= MATTERS) @ (1 << np.arange(len(STAGES)))).tolist()
        predictions = []
        for row, lower, median, upper, rates, calibrated, stage, bits in zip(
            rows, *numbers, results.bottleneck.tolist(), matters, strict=True
        ):
            provenance, notes = self.words.of(row, bits, self.pipeline)
            bottleneck, scaling, rate = STAGES[stage], self.words.scalings[row], self.words.gpu_rates[row]
            predictions.append(
                Prediction(
                    lower=lower,
                    median=median,
                    upper=upper,
                    confidence=self.confidence,
                    stage_rates={
                        name: each for name, each in zip(STAGES, rates, strict=True) if each < np.inf
                    },
                    # The network between nodes, if GPUs wait for it longer than they compute.
                    bottleneck=(
                        Stage.NETWORK
                        if bottleneck is Stage.ACCELERATOR and scaling.node_efficiency < MOSTLY_WAITING
                        else bottleneck
                    ),
                    provenance=provenance,
                    extrapolation=notes,
                    calibrated=calibrated,
                    gpus_used=scaling.gpus,
                    gpu_efficiency=scaling.efficiency,
                    node_efficiency=scaling.node_efficiency,
                    bare_step=rate and rate.bare_step,
                    withheld=rate.withheld if rate and bits & _ACCELERATOR else None,
                )
            )
        return predictions


def alone(rate: GpuRate, confidence: float) -> Prediction:
    """A GPU's rate as the prediction of a machine on which nothing else limits."""
    median = rate.samples_per_second
    return Prediction(
        lower=median * math.exp(-rate.widths.lower),
        median=median,
        upper=median * math.exp(rate.widths.upper),
        confidence=confidence,
        stage_rates={Stage.ACCELERATOR: median},
        bottleneck=Stage.ACCELERATOR,
        provenance=rate.provenance,
        extrapolation=rate.notes,
        calibrated=rate.widths.calibrated,
        bare_step=rate.bare_step,
        withheld=rate.withheld,
    )


def copy_assumed_note(gpu: Gpu | None) -> Message:
    """The note that nobody measured the speed at which this type of instance copies to its GPU."""
    rate = assumed_copy_gb_per_second(gpu)
    return Message("the host-to-GPU rate is unknown: {rate:g} GB/s is assumed", rate=rate)


def _host(resources: Resources, pipeline: Pipeline) -> tuple[Provenance, list[Message]]:
    """The provenance of a machine's cores, and what of them was not measured."""
    own, cpu, notes = pipeline.measured_on(resources), resources.cpu, []
    largest = own.largest_vcpus if own else pipeline.largest_vcpus
    if resources.vcpus > largest:
        notes.append(
            Message(
                "preparing samples on {vcpus:g} vCPUs is extrapolated from {largest:g}",
                vcpus=resources.vcpus,
                largest=largest,
            )
        )
    measured = own is not None
    if not own:
        reference = pipeline.reference
        if not (cpu and cpu.single_thread_score):
            notes.append(Message("the CPU's speed is unknown: the measured CPU's is assumed"))
        elif cpu.architecture != reference.architecture:
            notes.append(
                Message(
                    "{architecture} cores were not measured: rates are carried from {reference} by a "
                    "single-thread mark, which tells little",
                    architecture=cpu.architecture,
                    reference=reference.architecture,
                )
            )
        else:
            measured = abs(cpu.single_thread_score / reference.score - 1) < SAME_SCORE
    measured = measured and resources.vcpus <= largest
    return Provenance.MEASURED if measured else Provenance.MODELLED, notes
