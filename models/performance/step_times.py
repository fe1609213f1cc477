"""The accelerator stage: what a GPU alone reaches, from one posterior over step times.

A published row, a user's anchor, a sweep's GPU stage and a verification are rows of one kind;
`published`, `measured` and `modelled` only say which of them a rate stands on.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from advisor.domain import Gpu, Precision, Provenance, Stack, Task, Workload, require_positive
from advisor.records import dataclass, replace
from models.performance.intervals import HalfWidths, multipliers
from models.performance.kinship import Kinship, step_features
from models.performance.networks import Floats, NetworkFacts, NetworkTable
from models.performance.posterior import Cell, Effects, Estimates, Posterior
from models.performance.step_time import KINDS, Conditions, Parameters, Step, steps_of

# What steps of one cell scatter by about the best model of them.
ROW_SIGMA = 0.04
# What one who times steps differs by from another, who names neither in a question.
SOURCE_SIGMA = 0.1
# Standard error of a user's own measurement of a step.
TRIAL_SIGMA = 0.03
# Likeness is told on one card and batch, so that only the network differs.
REFERENCE_BATCH = 64.0
REFERENCE = Gpu(
    name="A100-SXM4-40GB", vendor="NVIDIA", architecture="Ampere", compute_capability="8.0",
    memory_mib=40960, memory_gb_per_second=1555, fp32_tflops=19.5, tf32_tflops=156,
    fp16_tflops=312, bf16_tflops=312, sms=108, l2_mib=40, boost_mhz=1410, watts=400,
)  # fmt: skip
# Log seconds of a step that may be any network's, and how differently cards take to networks.
_ANY_NETWORK_SIGMA, _ANY_GPU_SIGMA = 2.0, 0.25
# A card whose bandwidth differs more is another card of the same chip.
_SAME_CARD = 0.02
# More standard deviations than this, and a trial contradicts what else is known.
_CONTRADICTS = 3.0


class _Estimated(NamedTuple):
    posterior: Posterior
    facts: NetworkFacts
    estimates: Estimates


# One answer asks for the same cells several times: with other disks, at other confidences.
_ESTIMATED: dict[tuple[object, ...], _Estimated] = {}
_MOST_ESTIMATED = 64


def _identity(workload: Workload, gpu: Gpu) -> tuple[object, ...]:
    how = (workload.precision, workload.stack, workload.memory_format, workload.tf32)
    return (workload.task, workload.batch_size, *how, gpu.name)


class GpuRate(NamedTuple):
    """What is known of one cell at one batch size."""

    samples_per_second: float
    widths: HalfWidths
    provenance: Provenance
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTrial:
    """Seconds of one step of a network alone on `gpu`, as a user measured it.

    `peak_mib` is what torch took from the GPU (None: not known), `origin` the file and row that
    a message names.
    """

    task: Task
    precision: Precision
    batch_size: int
    step_seconds: float
    gpu: Gpu
    peak_mib: float | None
    origin: str

    def __post_init__(self) -> None:
        require_positive(
            batch_size=self.batch_size, step_seconds=self.step_seconds, peak_mib=self.peak_mib
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """Posterior, likeness of networks, and how standardised residuals of held-out rows lie.

    `quantiles` holds sorted residuals by group, as `known/known` for (network seen?) x (GPU seen
    in that precision?). `networks` ("resnet50/training"), `gpus` ("T4/amp") and `cells`
    ("resnet50/training/amp/T4") were measured with PyTorch. `own` are a user's cells, `id` stands
    for the file that all of it was read from.
    """

    posterior: Posterior
    kinship: Kinship
    quantiles: Mapping[str, tuple[float, ...]]
    networks: frozenset[str]
    gpus: frozenset[str]
    cells: frozenset[str]
    capabilities: frozenset[str]
    own: frozenset[str] = frozenset()
    id: str = ""

    def estimates(self, cells: Sequence[tuple[Workload, Gpu]], facts: NetworkFacts) -> Estimates:
        """Log seconds of a step of each workload, all of one network and task, on its GPU."""
        key = (id(self.posterior), id(facts), *(_identity(*cell) for cell in cells))
        known = _ESTIMATED.get(key)
        # The record holds what the key names by identity, so that nothing else can be meant.
        if known is None or known.posterior is not self.posterior or known.facts is not facts:
            steps = [cell_of(workload, gpu, facts) for workload, gpu in cells]
            centre, doubt = self._deviation(facts, cells[0][0].task)
            found = self.posterior.predict(steps, np.full(len(cells), centre))
            found = Estimates(found.mean, found.variance + doubt)
            if len(_ESTIMATED) >= _MOST_ESTIMATED:
                _ESTIMATED.clear()
            known = _ESTIMATED[key] = _Estimated(self.posterior, facts, found)
        return known.estimates

    def step_seconds(
        self, workload: Workload, gpu: Gpu, batch_sizes: Floats, table: NetworkTable
    ) -> Floats:
        """Seconds of one step at each batch size."""
        cells = [(replace(workload, batch_size=int(size)), gpu) for size in batch_sizes]
        seconds: Floats = np.exp(self.estimates(cells, table.of(workload)).mean)
        return seconds

    def rates(
        self, cells: Sequence[tuple[Workload, Gpu]], table: NetworkTable, confidence: float
    ) -> list[GpuRate]:
        """Samples per second with interval and origin for workloads of one network and task."""
        facts = table.of(cells[0][0])
        found = self.estimates(cells, facts)
        # Whose clock and code it is, is known where the user measured the network.
        is_own = any(key.startswith(f"{facts.key}/") for key in self.own)
        spread = np.sqrt(found.variance + ROW_SIGMA**2 + (0.0 if is_own else SOURCE_SIGMA**2))
        return [
            GpuRate(
                workload.batch_size / math.exp(mean),
                self._widths(self.group(workload, gpu, facts), scale, confidence),
                self.provenance(workload, gpu, facts),
                self.notes(workload, gpu, facts),
            )
            for (workload, gpu), mean, scale in zip(
                cells, found.mean.tolist(), spread.tolist(), strict=True
            )
        ]

    def condition(
        self, workload: Workload, trials: Sequence[GpuTrial], facts: NetworkFacts
    ) -> StepTimes:
        """What is known once a user's trials of the workload's network are, too."""
        workloads = [replace(workload, batch_size=trial.batch_size) for trial in trials]
        cells = [
            cell_of(one, trial.gpu, facts) for one, trial in zip(workloads, trials, strict=True)
        ]
        centre, _ = self._deviation(facts, workload.task)
        measured = np.log([trial.step_seconds for trial in trials])
        posterior = self.posterior.condition(
            cells, measured, np.full(len(trials), TRIAL_SIGMA), np.full(len(trials), centre)
        )
        own = {_cell_key(facts, workload, trial.gpu) for trial in trials}
        return replace(self, posterior=posterior, own=self.own | own)

    def of_any_network(self, facts: NetworkFacts, gpus: Iterable[str]) -> StepTimes:
        """What is known of steps whose operations nobody told: next to nothing but how GPUs
        compare, and that only as far as networks are alike."""
        names = ("network", *(f"gpu/{name}" for name in gpus))
        sigmas = np.array([_ANY_NETWORK_SIGMA, *[_ANY_GPU_SIGMA] * (len(names) - 1)])
        own = Effects(names, np.zeros(len(names)), np.diag(np.square(sigmas)))
        others: Any = self.posterior.effects  # only looked into
        effects = ChainMap({facts.key: own}, others)
        return replace(self, posterior=replace(self.posterior, effects=effects))

    def surprises(
        self, workload: Workload, trials: Sequence[GpuTrial], facts: NetworkFacts
    ) -> Floats:
        """How many standard deviations each trial lies off what is known without them."""
        cells = [(replace(workload, batch_size=trial.batch_size), trial.gpu) for trial in trials]
        found = self.estimates(cells, facts)
        off = np.log([trial.step_seconds for trial in trials]) - found.mean
        return np.asarray(off / np.sqrt(found.variance + TRIAL_SIGMA**2 + ROW_SIGMA**2))

    def contradicting(
        self, workload: Workload, trials: Sequence[GpuTrial], facts: NetworkFacts
    ) -> list[GpuTrial]:
        """Trials that the others, or the model and other GPUs alone, make very unlikely."""
        found = []
        for trial in trials:
            others = [one for one in trials if one is not trial]
            elsewhere = [one for one in others if not is_same_card(one.gpu, trial.gpu)]
            for known in (others, elsewhere):
                told = self.condition(workload, known, facts) if known else self
                if abs(float(told.surprises(workload, [trial], facts)[0])) > _CONTRADICTS:
                    found.append(trial)
                    break
        return found

    def group(self, workload: Workload, gpu: Gpu, facts: NetworkFacts) -> str:
        """Which held-out residuals the cell's doubt is like."""
        key = _cell_key(facts, workload, gpu)
        if key in self.own or key in self.cells:
            return "cell"
        network = "known" if self.knows(facts, workload) else "new"
        card = "known" if _gpu_key(gpu, workload.precision) in self.gpus else "new"
        return f"{network}/{card}"

    def provenance(self, workload: Workload, gpu: Gpu, facts: NetworkFacts) -> Provenance:
        """What the rate of a cell stands on."""
        key = _cell_key(facts, workload, gpu)
        if key in self.own:
            return Provenance.MEASURED
        usual = workload.stack is Stack.EAGER and not facts.scaled
        return Provenance.PUBLISHED if usual and key in self.cells else Provenance.MODELLED

    def notes(self, workload: Workload, gpu: Gpu, facts: NetworkFacts) -> tuple[str, ...]:
        """What lies outside the measurements, in words."""
        notes = []
        measured = self.measured_in(gpu)
        if not measured:
            like = gpu.compute_capability in self.capabilities
            far = "" if like else f", nor any GPU of its architecture ({gpu.architecture})"
            notes.append(f"{gpu.name} was not measured{far}: its rate follows from its data sheet")
        elif arithmetic_of(workload.precision) not in measured:
            notes.append(f"{gpu.name} was never measured in {workload.precision}")
        if not self.knows(facts, workload):
            notes.append(
                f"{facts.name} was not measured in {workload.task}: its rate follows from what it "
                "computes"
            )
        if workload.precision is Precision.BF16 and (gpu.capability or 0) < 8:
            notes.append(f"{gpu.name} has no bf16 units: its fp32 rate is assumed")
        return tuple(notes)

    def measured_in(self, gpu: Gpu) -> set[str]:
        """Of fp32, fp16 and amp, what a card of this chip was measured in with PyTorch."""
        return {one for one in ("fp32", "fp16", "amp") if f"{chip(gpu.name)}/{one}" in self.gpus}

    def knows(self, facts: NetworkFacts, workload: Workload) -> bool:
        """Whether the network was measured in that task, by anybody or by the user."""
        seen = f"{facts.key}/{workload.task}" in self.networks
        return seen or self._has_own(facts, workload.task)

    def _has_own(self, facts: NetworkFacts, task: Task) -> bool:
        return any(key.startswith(f"{facts.key}/{task}/") for key in self.own)

    def _widths(self, group: str, scale: float, confidence: float) -> HalfWidths:
        """Distances from the median to the bounds, from residuals of rows held out alike."""
        by = multipliers(self.quantiles.get(group, ()), confidence)
        return HalfWidths(by.lower * scale, by.upper * scale, by.calibrated)

    def _deviation(self, facts: NetworkFacts, task: Task) -> tuple[float, float]:
        """What networks like this one deviate by; nothing more is to be learnt of a known one.

        A user's trials were read beside that, so they already tell what they can of its doubt.
        """
        if f"{facts.key}/{task}" in self.networks:
            return 0.0, 0.0
        centre, doubt = _deviation(self.kinship, self.posterior, facts, task)
        return centre, 0.0 if self._has_own(facts, task) else doubt


def _deviation(
    kinship: Kinship, posterior: Posterior, facts: NetworkFacts, task: Task
) -> tuple[float, float]:
    means, variances = kinship.deviation(features_of([facts], [task], posterior))
    return float(means[0]), float(variances[0])


def features_of(
    facts: Sequence[NetworkFacts], tasks: Sequence[Task], posterior: Posterior
) -> Floats:
    """What steps of the networks are made of, on the reference card, shape (n, d)."""
    steps = [
        Step(one.step_rows(task), one.parameters, 0.0, REFERENCE_BATCH,
             Conditions(REFERENCE, task, "amp"))
        for one, task in zip(facts, tasks, strict=True)
    ]  # fmt: skip
    parameters = Parameters()
    columns = steps_of(steps, parameters)
    known = dict(zip(posterior.names, posterior.mean.tolist(), strict=True))
    theta = np.array([
        known.get(name, prior.mean)
        for name, prior in zip(parameters.names, parameters.priors, strict=True)
    ])  # fmt: skip
    optimizer = KINDS.index("elementwise")
    kinds = np.concatenate([
        np.append(step.operations["kind"], optimizer)
        if step.conditions.task == Task.TRAINING else step.operations["kind"]
        for step in steps
    ]).astype(np.intp)  # fmt: skip
    return step_features(columns, kinds, [task is Task.TRAINING for task in tasks], theta)


@lru_cache(maxsize=1024)
def chip(gpu_name: str) -> str:
    """'A100-SXM4-40GB' -> 'A100': what cards of one chip have in common."""
    return gpu_name.removeprefix("NVIDIA ").removeprefix("Tesla ").split("-")[0].strip()


def is_same_card(one: Gpu, other: Gpu) -> bool:
    """Whether a step on one tells the other's: same chip and memory."""
    ratio = one.memory_gb_per_second / other.memory_gb_per_second
    return chip(one.name).casefold() == chip(other.name).casefold() and (
        abs(ratio - 1) <= _SAME_CARD
    )


def arithmetic_of(precision: str) -> str:
    """'fp32', 'fp16' or 'amp': mixed precision is one whichever its 16-bit format is."""
    return str(Precision.AMP) if precision == Precision.BF16 else str(precision)


def cell_of(workload: Workload, gpu: Gpu, facts: NetworkFacts) -> Cell:
    """The step of a workload on a GPU, as the posterior takes it."""
    how = Conditions(
        gpu=gpu,
        task=str(workload.task),
        precision=str(workload.precision),
        tf32=str(workload.tf32),
        memory_format=str(workload.memory_format),
        stack=str(workload.stack),
    )
    step = Step(
        facts.step_rows(workload.task), facts.parameters, facts.input_bytes,
        float(workload.batch_size), how,
    )  # fmt: skip
    return Cell(facts.key, step)


def _gpu_key(gpu: Gpu, precision: str) -> str:
    return f"{chip(gpu.name)}/{arithmetic_of(precision)}"


def _cell_key(facts: NetworkFacts, workload: Workload, gpu: Gpu) -> str:
    return f"{facts.key}/{workload.task}/{arithmetic_of(workload.precision)}/{gpu.name}"
