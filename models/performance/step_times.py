"""The accelerator stage: the rate of a GPU alone, from one posterior over step times.

The posterior was fitted to published rows. A user's anchors, sweeps, verifications and probes condition it.
`published`, `measured` and `modelled` only say what a rate is based on."""

from __future__ import annotations

import math
import re
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from advisor.domain import Gpu, Observation, Precision, Protocol, Provenance, Stack, Task, Withheld, Workload
from advisor.domain.results import UNMEASURED_FORMAT, UNMEASURED_GPU, UNMEASURED_NETWORK
from advisor.messages import Message
from advisor.models.bayes import Floats, Gaussian, HalfWidths, Parameters, multipliers
from advisor.models.bundled import IdentityCache, withheld_tests
from advisor.models.network_columns import KINDS
from advisor.models.performance.gpu_observations import ProbedLayer
from advisor.models.performance.networks import NetworkFacts, NetworkTable
from advisor.models.performance.posterior import Cell, Kinship, Posterior, step_features
from advisor.models.performance.step_parameters import AMPERE, Conditions, Step, script_bits
from advisor.models.performance.step_time import least_seconds, steps_of

# Log standard deviation of steps of one cell around the best model of them.
ROW_SIGMA = 0.04
# Networks are compared on one card and batch size, so that only the network differs.
REFERENCE_BATCH = 64.0
REFERENCE = Gpu(
    name="A100-SXM4-40GB",
    vendor="NVIDIA",
    architecture="Ampere",
    compute_capability="8.0",
    memory_mib=40960,
    memory_gb_per_second=1555,
    fp32_tflops=19.5,
    tf32_tflops=156,
    fp16_tflops=312,
    bf16_tflops=312,
    sms=108,
    l2_mib=40,
    boost_mhz=1410,
    watts=400,
)
# Log standard deviations for a network of unknown operations: of its step, and of each GPU's deviation.
_ANY_NETWORK_SIGMA, _ANY_GPU_SIGMA = 2.0, 0.25
# A card whose bandwidth differs more is another card of the same chip.
_SAME_CARD = 0.02
# Clocks go above a data sheet's where a card is cool enough.
_ABOVE_THE_SHEET = 1.2
# Seconds of a step of which nothing is known.
_NO_TIME = 1e-9
# Scripts have one group: they are few, and differ more than what is known about their cells explains.
SCRIPT_REGIME = "script"
# The user counts as a further source: this group has rows of sources that were held out as a whole.
OTHERS = "others/known/known"
# A step counts as bound by kernel launches if their share is larger than this.
_LAUNCHING = 0.3
# An observation that is off by more standard deviations contradicts the rest.
_CONTRADICTS = 3.0
# A card that the user measured with so many networks counts as known, like a published one
# (`--keep probes` of benchmarks.truth scores this).
_ENOUGH_NETWORKS = 6


# What a step's time depends on, of a workload.
_OF_A_STEP = ["task", "batch_size", "precision", "stack", "memory_format", "tf32", "protocol", "conditions"]
# One answer asks for the same cells several times: with other disks, at other confidences.
_ESTIMATED: IdentityCache[dict[tuple[object, ...], list[float]]] = IdentityCache(64)
_DEVIATIONS: IdentityCache[tuple[float, float]] = IdentityCache(64)


class CellTimes(NamedTuple):
    """Log seconds of a step of n cells: means and variances (n,); the share of the step that kernel launches
    bound; and the seconds below which the hardware cannot compute it."""

    mean: Floats
    variance: Floats
    launching: Floats
    least: Floats


class GpuRate(Struct, frozen=True):
    """The rate of one cell at one batch size. `room` is the log of the GPU's peak rate over it. `bare_step`
    is the rate without a script's time around a step, None if there is none. `withheld` is the test most
    similar to the cell."""

    samples_per_second: float
    widths: HalfWidths
    provenance: Provenance
    notes: tuple[Message, ...]
    room: float = math.inf
    bare_step: float | None = None
    withheld: Withheld | None = None


# What all batch sizes of a cell share: multipliers of the spread, provenance, notes, the similar test, and a
# bare step's rate over a script's.
_Standing = tuple[HalfWidths, Provenance, tuple[Message, ...], Withheld, float]
# What was withheld in the test most similar to a cell, by the cell's group of residuals and, for a new
# network, by task.
_WITHHELD = {
    "cell": "your batch size",
    "known/known": "your network, not others of its class",
    "known/new": "a GPU that clouds sell, PyTorch 2",
    "new/known/inference": "every network of its class, inference",
    "new/known/training": "every network of its class, training",
    "new/new": "the GPU and every network of the class",
}
_SCRIPT, _ANY_GPU = "the source of a training script", "any GPU"
_CONSUMER = re.compile(r"(GeForce |GTX |RTX [2-5]0[5-9]0|Titan )", re.IGNORECASE)


class OwnCell(Struct, frozen=True):
    """A cell that the user measured, at any batch size; another stack or input makes another cell."""

    network: str
    task: str
    arithmetic: str
    gpu: str
    stack: str
    input: str


class StepTimes(Struct, frozen=True, kw_only=True):
    """The posterior over step times, the kinship of networks, and standardised held-out residuals.

    `quantiles` holds sorted residuals by group, as `known/known` for (network seen?) x (GPU seen in that
    precision?), by group and `regime`, and of all scripts. `networks` ("resnet50/training"), `gpus`
    ("T4/amp") and `cells` ("resnet50/training/amp/T4") were measured with PyTorch. `own` are a user's cells,
    `probed` GPUs whose layers a user timed, `id` stands for the file that all of it was read from."""

    posterior: Posterior
    kinship: Kinship
    quantiles: Mapping[str, tuple[float, ...]]
    networks: frozenset[str]
    gpus: frozenset[str]
    cells: frozenset[str]
    capabilities: frozenset[str]
    own: frozenset[OwnCell] = frozenset()
    probed: frozenset[str] = frozenset()
    id: str = ""

    def estimates(self, cells: Sequence[tuple[Workload, Gpu]], facts: NetworkFacts) -> CellTimes:
        """The time of a step of each workload, all of one network and task, on its GPU. Each cell is
        estimated once: the last bits of results depend on the cells that it was first asked with."""
        keys = [(*(getattr(workload, name) for name in _OF_A_STEP), gpu.name) for workload, gpu in cells]
        known = _ESTIMATED.get((self.posterior, facts), "", dict)
        missing = {key: cell for key, cell in zip(keys, cells, strict=True) if key not in known}
        if missing:
            numbers = self._estimated(list(missing.values()), facts).T.tolist()
            known.update(zip(missing, numbers, strict=True))
        return CellTimes(*np.array([known[key] for key in keys]).T)

    def _estimated(self, cells: Sequence[tuple[Workload, Gpu]], facts: NetworkFacts) -> Floats:
        """The columns of `CellTimes`."""
        task, steps = cells[0][0].task, [cell_of(workload, gpu, facts) for workload, gpu in cells]
        centre, doubt = self._deviation(facts, task)
        estimates = self.posterior.predict(steps)
        known = task in facts.kernels
        least = [least_seconds(cell.step) if known else _NO_TIME for cell in steps]
        return np.array([estimates.mean + centre, estimates.variance + doubt, estimates.launching, least])

    def step_seconds(self, workload: Workload, gpu: Gpu, batch_sizes: Floats, table: NetworkTable) -> Floats:
        """Seconds of one step at each batch size."""
        cells = [(replace(workload, batch_size=int(size)), gpu) for size in batch_sizes]
        seconds: Floats = np.exp(self.estimates(cells, table.of(workload)).mean)
        return seconds

    def rates(
        self, cells: Sequence[tuple[Workload, Gpu]], table: NetworkTable, confidence: float
    ) -> list[GpuRate]:
        """Samples per second with interval and origin for workloads of one network and task."""
        facts = table.of(cells[0][0])
        result = self.estimates(cells, facts)
        standing: dict[tuple[str, ...], _Standing] = {}
        rates = []
        for (workload, gpu), mean, variance, launching, least in zip(
            cells, *(column.tolist() for column in result), strict=True
        ):
            seconds, spread = max(math.exp(mean), least), math.sqrt(variance + ROW_SIGMA**2)
            most = math.log(seconds / least)
            told = dict(workload.conditions)
            alike = regime(told.get("script", _is_script(workload)), told.get("era", ""), launching)
            key = gpu.name, workload.precision, workload.stack, alike
            if key not in standing:
                standing[key] = self._standing(workload, gpu, facts, alike, confidence)
            by, provenance, notes, withheld, bare_factor = standing[key]
            widths = HalfWidths(by.lower * spread, min(by.upper * spread, most), by.calibrated)
            rate = workload.batch_size / seconds / workload.dataset.passes
            bare = min(rate * bare_factor, rate * math.exp(most))
            bare_step = bare if bare > rate else None
            rates.append(GpuRate(rate, widths, provenance, notes, most, bare_step, withheld))
        return rates

    def _script_factor(self, workload: Workload) -> float:
        """A bare step's rate over that of a typical script."""
        if not _is_script(workload):
            return 1.0
        name, posterior = f"script/{script_bits(workload.precision)}", self.posterior
        return math.exp(posterior.mean[posterior.names.index(name)]) if name in posterior.names else 1.0

    def _standing(
        self, workload: Workload, gpu: Gpu, facts: NetworkFacts, regime: str, confidence: float
    ) -> _Standing:
        group = self.group(workload, gpu, facts)
        # More is known about a network or a card that the user measured.
        if group == "known/known" and not any(
            entry.network == facts.key or chip(entry.gpu) == chip(gpu.name) for entry in self.own
        ):
            group = OTHERS
        alike = SCRIPT_REGIME if regime == SCRIPT_REGIME else f"{group}/{regime}"
        if group == "known/known" and not self._is_published_card(gpu, workload.precision):
            alike = group  # a card that the user alone measured is no surer than cards of any age
        by = multipliers(self.quantiles.get(alike, ()), confidence)
        if not by.calibrated:
            by = multipliers(self.quantiles.get(group, ()), confidence)
        notes, withheld = tuple(self.notes(workload, gpu, facts)), self._withheld(workload, gpu, facts)
        factor = self._script_factor(workload)
        return by, self.provenance(workload, gpu, facts), notes, withheld, factor

    def _withheld(self, workload: Workload, gpu: Gpu, facts: NetworkFacts) -> Withheld:
        """The withheld test most similar to the cell; for a script, that of scripts if it is worse."""
        group, tests = self.group(workload, gpu, facts), withheld_tests()
        what = _WITHHELD.get(group) or _WITHHELD[f"{group}/{workload.task}"]
        if group == "known/new" and is_consumer_card(gpu.name):
            what = _ANY_GPU
        test = tests["rate", what]
        if _is_script(workload) and not self._is_own(facts, workload, gpu):
            test = max(test, tests["rate", _SCRIPT], key=lambda each: each.median_percent)
        return test

    def condition(
        self, observations: Sequence[Observation], table: NetworkTable, layers: Sequence[ProbedLayer] = ()
    ) -> StepTimes:
        """The step times conditioned on these observations too: steps of any networks, layers of any GPUs.

        `UsageError` for a network that the table does not have, or not at that input."""
        if not (observations or layers):
            return self
        cells, centres = self._cells_of(observations, table)
        measured = [(observation.seconds, observation.sigma) for observation in observations]
        # Seconds that any step takes outside its kernels.
        constant = math.exp(self.posterior.mean[self.posterior.names.index("constant")])
        measured += [layer.as_step(constant) for layer in layers]
        cells += [layer.cell() for layer in layers]
        seconds, sigmas = np.array(measured).T
        centres += [0.0] * len(layers)
        posterior = self.posterior.condition(cells, np.log(seconds) - np.array(centres), sigmas)
        own = {_own_cell(table.of(o.workload), o.workload, o.gpu) for o in observations}
        probed = {layer.gpu.name for layer in layers}
        return replace(self, posterior=posterior, own=self.own | own, probed=self.probed | probed)

    def _cells_of(
        self, observations: Sequence[Observation], table: NetworkTable
    ) -> tuple[list[Cell], list[float]]:
        """The cells of the observations, and the mean deviation of networks like each one's."""
        cells, centres = [], []
        for observation in observations:
            facts, task = table.of(observation.workload), observation.workload.task
            cells.append(cell_of(observation.workload, observation.gpu, facts))
            centres.append(self._deviation(facts, task)[0])
        return cells, centres

    def of_any_network(self, facts: NetworkFacts, gpus: Iterable[str]) -> StepTimes:
        """The step times for a network of unknown operations, which then only predict ratios of GPUs."""
        names = ("network", *(f"gpu/{name}" for name in gpus))
        sigmas = np.array([_ANY_NETWORK_SIGMA, *[_ANY_GPU_SIGMA] * (len(names) - 1)])
        own = Gaussian(names, np.zeros(len(names)), np.diag(np.square(sigmas)))
        others: Any = self.posterior.effects  # only looked into
        effects = ChainMap({facts.key: own}, others)
        return replace(self, posterior=replace(self.posterior, effects=effects))

    def residuals(self, observations: Sequence[Observation], table: NetworkTable) -> Floats:
        """log(measured / predicted seconds) of each observation (n,), predicted without all of these."""
        return self._expected(observations, table)[0] if observations else np.zeros(0)

    def contradicting(self, observations: Sequence[Observation], table: NetworkTable) -> list[Observation]:
        """The observations that are very unlikely given all the others, or given those on other GPUs."""
        if not observations:
            return []
        surprises = _surprises(observations, *self._expected(observations, table)).tolist()
        return [each for each, by in zip(observations, surprises, strict=True) if by > _CONTRADICTS]

    def _expected(self, observations: Sequence[Observation], table: NetworkTable) -> tuple[Floats, Floats]:
        """Residuals (n,) and the covariance (n, n) that they are expected to have."""
        cells, centres = self._cells_of(observations, table)
        mean, covariance = self.posterior.joint_estimates(cells)
        off = np.log([observation.seconds for observation in observations]) - mean - np.array(centres)
        noise = [observation.sigma**2 + ROW_SIGMA**2 for observation in observations]
        return off, covariance + np.diag(noise)

    def group(self, workload: Workload, gpu: Gpu, facts: NetworkFacts) -> str:
        """The group of held-out residuals that the cell's error is taken from."""
        if self._is_own(facts, workload, gpu) or _cell_key(facts, workload, gpu) in self.cells:
            return "cell"
        network = "known" if self.knows(facts, workload) else "new"
        card = "known" if self._knows_card(gpu, workload.precision) else "new"
        return f"{network}/{card}"

    def provenance(self, workload: Workload, gpu: Gpu, facts: NetworkFacts) -> Provenance:
        """The provenance of a cell's rate."""
        if self._is_own(facts, workload, gpu):
            return Provenance.MEASURED
        usual = workload.stack is Stack.EAGER and not facts.scaled
        is_published = usual and _cell_key(facts, workload, gpu) in self.cells
        return Provenance.PUBLISHED if is_published else Provenance.MODELLED

    def notes(self, workload: Workload, gpu: Gpu, facts: NetworkFacts) -> Iterator[Message]:
        """Notes on facts outside the measurements."""
        measured = self.measured_in(gpu)
        if not measured:
            follows = Message("its rate follows from its data sheet")
            if gpu.name in self.probed:
                follows = Message("its rate follows from what its layers took")
            if gpu.compute_capability in self.capabilities:
                yield Message(
                    "{gpu} was not measured: {follows}", code=UNMEASURED_GPU, gpu=gpu.name, follows=follows
                )
            else:
                yield Message(
                    "{gpu} was not measured, nor any GPU of its architecture ({architecture}): {follows}",
                    code=UNMEASURED_GPU,
                    gpu=gpu.name,
                    architecture=gpu.architecture,
                    follows=follows,
                )
        elif arithmetic_of(workload.precision) not in measured:
            yield Message(
                "{gpu} was never measured in {precision}",
                code=UNMEASURED_FORMAT,
                gpu=gpu.name,
                precision=workload.precision,
            )
        if not self.knows(facts, workload):
            yield Message(
                "{network} was not measured in {task}: its rate follows from what it computes",
                code=UNMEASURED_NETWORK,
                network=facts.name,
                task=Message(str(workload.task)),
            )
        if workload.precision is Precision.BF16 and (gpu.capability or 0.0) < AMPERE:
            yield Message("{gpu} has no bf16 units: its fp32 rate is assumed", gpu=gpu.name)

    def measured_in(self, gpu: Gpu) -> set[str]:
        """The settings among fp32, fp16 and amp in which a card of this chip was measured with PyTorch."""
        own = {entry.arithmetic for entry in self.own if chip(entry.gpu) == chip(gpu.name)}
        return own | {entry for entry in ("fp32", "fp16", "amp") if f"{chip(gpu.name)}/{entry}" in self.gpus}

    def knows(self, facts: NetworkFacts, workload: Workload) -> bool:
        """True if the network was measured in that task, by anybody or by the user."""
        seen = f"{facts.key}/{workload.task}" in self.networks
        return seen or self._has_own(facts, workload.task)

    def _has_own(self, facts: NetworkFacts, task: Task) -> bool:
        return any((entry.network, entry.task) == (facts.key, task) for entry in self.own)

    def _is_own(self, facts: NetworkFacts, workload: Workload, gpu: Gpu) -> bool:
        return bool(self.own) and _own_cell(facts, workload, gpu) in self.own

    def _knows_card(self, gpu: Gpu, precision: str) -> bool:
        """True if the card's rates in that arithmetic were published or measured by the user."""
        own = {
            entry.network
            for entry in self.own
            if entry.arithmetic == arithmetic_of(precision) and chip(entry.gpu) == chip(gpu.name)
        }
        return self._is_published_card(gpu, precision) or len(own) >= _ENOUGH_NETWORKS

    def _is_published_card(self, gpu: Gpu, precision: str) -> bool:
        return f"{chip(gpu.name)}/{arithmetic_of(precision)}" in self.gpus

    def _deviation(self, facts: NetworkFacts, task: Task) -> tuple[float, float]:
        """Mean and variance of the deviation of networks like this one; 0 for a published network.

        The variance is 0 if the user measured the network, since that measurement has replaced it."""
        if f"{facts.key}/{task}" in self.networks:
            return 0.0, 0.0

        def likeness() -> tuple[float, float]:
            return self.kinship.deviation(features_of([facts], [task], self.posterior)[0])

        centre, doubt = _DEVIATIONS.get((self.posterior, facts), task, likeness)
        return centre, 0.0 if self._has_own(facts, task) else doubt


def _surprises(observations: Sequence[Observation], off: Floats, expected: Floats) -> Floats:
    """Standard deviations of each residual (n,) from its prediction by all others, or by other cards'."""
    inverse = np.linalg.inv(expected)
    result = np.abs(inverse @ off) / np.sqrt(inverse.diagonal())
    for gpu in {observation.gpu.name: observation.gpu for observation in observations}.values():
        alike = np.array([is_same_card(other.gpu, gpu) for other in observations])
        here, there = np.flatnonzero(alike), np.flatnonzero(~alike)
        to = expected[np.ix_(here, there)]
        weights = np.linalg.solve(expected[np.ix_(there, there)], to.T).T
        left = off[here] - weights @ off[there]
        spread = np.sqrt((expected[np.ix_(here, here)] - weights @ to.T).diagonal())
        result[here] = np.maximum(result[here], np.abs(left) / spread)
    return np.asarray(result, dtype=float)


def features_of(facts: Sequence[NetworkFacts], tasks: Sequence[Task], posterior: Posterior) -> Floats:
    """Features of the networks' steps on the reference card, shape (n, d)."""
    steps = [
        Step(fact.step_rows(task), fact.parameters, 0.0, REFERENCE_BATCH, Conditions(REFERENCE, task, "amp"))
        for fact, task in zip(facts, tasks, strict=True)
    ]
    parameters = Parameters()
    columns = steps_of(steps, parameters)
    theta = parameters.values(posterior.names, posterior.mean)
    kinds: list[int] = []
    for step, task in zip(steps, tasks, strict=True):
        kinds += step.operations["kind"].tolist()
        if task is Task.TRAINING:
            kinds.append(KINDS.index("elementwise"))  # the optimiser's update
    return step_features(columns, np.array(kinds), [task is Task.TRAINING for task in tasks], theta)


@lru_cache(maxsize=1024)
def chip(gpu_name: str) -> str:
    """The name of a GPU's chip, which several cards share: 'A100' for 'A100-SXM4-40GB'."""
    return gpu_name.removeprefix("NVIDIA ").removeprefix("Tesla ").split("-")[0].strip()


def is_same_card(gpu: Gpu, other: Gpu) -> bool:
    """True if two GPUs have the same chip and memory bandwidth, so that one's step is the other's."""
    ratio = gpu.memory_gb_per_second / other.memory_gb_per_second
    return chip(gpu.name).casefold() == chip(other.name).casefold() and (abs(ratio - 1) <= _SAME_CARD)


def is_consumer_card(name: str) -> bool:
    """True if a card is made for players' machines."""
    return _CONSUMER.match(name) is not None


def arithmetic_of(precision: str) -> str:
    """'fp32', 'fp16' or 'amp'; mixed precision in bf16 counts as 'amp' too."""
    return str(Precision.AMP) if precision == Precision.BF16 else str(precision)


def cell_of(workload: Workload, gpu: Gpu, facts: NetworkFacts) -> Cell:
    """The step of a workload on a GPU, as the posterior takes it."""
    measured: dict[str, Any] = {"script": _is_script(workload), **dict(workload.conditions)}
    # Units multiply both 16-bit formats at one rate where they have both; six rows of scripts in bf16 on one
    # chip, of which one has a twin in amp, do not tell the two apart.
    has_bf16 = (gpu.capability or 0.0) >= AMPERE
    how = Conditions(
        gpu=gpu,
        task=str(workload.task),
        precision=arithmetic_of(workload.precision) if has_bf16 else str(workload.precision),
        tf32=str(workload.tf32),
        memory_format=str(workload.memory_format),
        stack=str(workload.stack),
        **measured,
    )
    step = Step(
        facts.step_rows(workload.task), facts.parameters, facts.input_bytes, float(workload.batch_size), how
    )
    return Cell(facts.key, step)


def fastest_seconds(measured: Observation, facts: NetworkFacts) -> float:
    """Seconds below which the measured step cannot have been computed."""
    return least_seconds(cell_of(measured.workload, measured.gpu, facts).step) / _ABOVE_THE_SHEET


def regime(script: bool, era: str, launching: float) -> str:
    """The regime of a step, by which its error is calibrated: a script's, or else by the age of its software
    and by whether `launching`, the share of kernel launches, is large."""
    if script:
        return SCRIPT_REGIME
    return f"{'old' if era else 'today'}/{'launching' if launching > _LAUNCHING else 'computing'}"


def _is_script(workload: Workload) -> bool:
    return workload.protocol is Protocol.SCRIPT and workload.task is Task.TRAINING


def _cell_key(facts: NetworkFacts, workload: Workload, gpu: Gpu) -> str:
    return f"{facts.key}/{workload.task}/{arithmetic_of(workload.precision)}/{gpu.name}"


def _own_cell(facts: NetworkFacts, workload: Workload, gpu: Gpu) -> OwnCell:
    how = (arithmetic_of(workload.precision), gpu.name, str(workload.stack))
    return OwnCell(facts.key, str(workload.task), *how, facts.input)
