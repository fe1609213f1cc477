"""The one seam between the scorer and the predictor: asks what ships, or the same refitted; and what a
measured step belongs to, told alike of a row to score and of a row of the fit."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache

from msgspec import Struct

from advisor.catalog import OfferQuery, load_catalog
from advisor.catalog.gpus import cheapest_by_gpu
from advisor.domain import Gpu, Market, MemoryFormat, Precision, Stack, Task, Tf32, Workload
from advisor.domain.gpu_names import gpus_named
from advisor.errors import AdvisorError
from advisor.infra.build.fitting.observations import MeasuredStep
from advisor.infra.build.performance_sources.peaks import peak_of, reason_against
from advisor.models.performance import PerformanceModel, load_model
from advisor.models.performance.networks import NetworkFacts
from advisor.models.performance.prepared import alone
from advisor.models.performance.step_times import StepTimes, arithmetic_of, chip
from benchmarks.truth.rows import Row

# A step of fewer seconds a kernel is as long as its launching takes: it tells of a source's host.
_LAUNCH_SECONDS = 50e-6
_WHO = ("source", "host")
_TF32 = {"none": Tf32.OFF, "conv": Tf32.CONVOLUTIONS, "all": Tf32.ON}


class Answer(Struct, frozen=True):
    """A median with one-sided bounds at the confidence asked: samples per second, or MiB."""

    lower: float
    median: float
    upper: float


class RefusalError(Exception):
    """Why a row cannot be asked."""


class ScoredModel:
    """A model, asked as `advisor predict` asks it; rows it cannot answer are told in words."""

    def __init__(
        self, model: PerformanceModel | None = None, confidence: float = 0.9, *, tells_source: bool = False
    ) -> None:
        """`model` None: the one that ships. `tells_source`: questions say who measured, and where."""
        self.model = model or load_model()
        self.confidence = confidence
        self.tells_source = tells_source
        self._sheets = load_catalog().gpus
        self._facts: dict[tuple[str, str], NetworkFacts | None] = {}
        self._gpus: dict[str, Gpu | None] = {}

    def rates(self, rows: Sequence[Row], times: StepTimes | None = None) -> list[Answer | str]:
        """Samples per second of each row's step by `times` (None: the model's own), or why there is none."""
        found: list[Answer | str] = [""] * len(rows)
        alike: dict[tuple[str, str, str], list[int]] = defaultdict(list)
        cells: dict[int, tuple[Workload, Gpu]] = {}
        for index, row in enumerate(rows):
            try:
                cells[index] = self.cell(row)
                alike[row.network, row.input, row.task].append(index)
            except RefusalError as refusal:
                found[index] = str(refusal)
        for indices in alike.values():
            predicted = self._answers([cells[index] for index in indices], times or self.model.step_times)
            put(found, indices, predicted)
        return found

    def _answers(self, cells: Sequence[tuple[Workload, Gpu]], times: StepTimes) -> Sequence[Answer | str]:
        """What `PerformanceModel.predict_gpu` tells, of several GPUs in one call."""
        try:
            rates = times.rates(cells, self.model.table, self.confidence)
        except AdvisorError as error:
            return [_reason(error)] * len(cells)
        predicted = [alone(rate, self.confidence) for rate in rates]
        return [Answer(one.lower, one.median, one.upper) for one in predicted]

    def cell(self, row: Row) -> tuple[Workload, Gpu]:
        """The row as a question. Raises `RefusalError` where it cannot be one."""
        gpu, facts = self.gpu(row.gpu), self.facts(row)
        if gpu is None:
            raise RefusalError("GPU unknown")
        if facts is None:
            raise RefusalError("network unknown")
        workload = self.workload(row)
        if workload.task not in facts.kernels:
            raise RefusalError("the network cannot be trained")
        return workload, gpu

    def workload(self, row: Row) -> Workload:
        """The row's workload under its protocol, without its source unless that is told."""
        try:
            precision = Precision(row.precision)
        except ValueError:
            raise RefusalError(f"precision {row.precision}") from None
        return Workload(
            network=row.network,
            task=Task(row.task),
            batch_size=row.batch_size,
            precision=precision,
            stack=Stack(row.stack),
            memory_format=MemoryFormat(row.memory_format),
            tf32=_TF32[row.tf32],
            input=row.input or None,
            conditions=tuple(each for each in row.conditions if self.tells_source or each[0] not in _WHO),
        )

    def facts(self, row: Row) -> NetworkFacts | None:
        """What the table has of the row's network at its input, None where it does not know it."""
        key = (row.network, row.input)
        if key not in self._facts:
            try:
                self._facts[key] = self.model.table.find(row.network, row.input or None)
            except AdvisorError:
                self._facts[key] = None
        return self._facts[key]

    def peaks(self, rows: Sequence[Row]) -> list[Answer | str]:
        """MiB of GPU memory at the peak of each row's step, or why there is no answer."""
        return [self._peak(row) for row in rows]

    def _peak(self, row: Row) -> Answer | str:
        facts = self.facts(row)
        try:
            if facts is None:
                raise RefusalError("network unknown")
            if reason := reason_against(row.source, facts.name):
                raise RefusalError(reason)
            return Answer(*peak_of(row.source, facts, self.workload(row), self.confidence, row.counts))
        except RefusalError as refusal:
            return f"memory: {refusal}"
        except AdvisorError as error:
            return f"memory: {_reason(error)}"

    def gpu(self, name: str) -> Gpu | None:
        """The data sheet that a table's name of a GPU means; of several, the usual one."""
        if name not in self._gpus:
            named = gpus_named(name, list(self._sheets))
            self._gpus[name] = self._sheets[named[0]] if named else None
        return self._gpus[name]

    def chip(self, name: str) -> str:
        """What cards of one chip have in common: 'A100' of each A100; unknown names stay."""
        gpu = self.gpu(name)
        return chip(gpu.name) if gpu else name


def put(answers: list[Answer | str], indices: Sequence[int], others: Iterable[Answer | str]) -> None:
    """Make these the answers at these places."""
    for index, answer in zip(indices, others, strict=True):
        answers[index] = answer


def _reason(error: AdvisorError) -> str:
    """The error without the names in it, so that alike refusals count together."""
    return re.split(r"['(;:,]", str(error))[0].strip()


def is_gpu_bound(scored_model: ScoredModel, row: Row) -> bool:
    """Whether a step takes longer than launching its kernels, one by one, on a slow host."""
    facts = scored_model.facts(row)
    rows = facts.kernels.get(Task(row.task)) if facts else None
    if rows is None or row.seconds is None:
        return True
    return row.seconds > _LAUNCH_SECONDS * float(rows["count"].sum(dtype=float))


def groups(scored_model: ScoredModel, row: Row) -> dict[str, str]:
    """What the row belongs to, by each kind of group. Cards of one chip are one GPU."""
    facts = scored_model.facts(row)
    found = _groups(
        facts.key if facts else row.network,
        facts.family if facts else "unknown",
        row.precision,
        row.task,
        scored_model.gpu(row.gpu) or row.gpu,
    )
    found["cell"] += f" {facts.input_bytes:g}" if facts else f" {row.input}"
    found["batch"] = f"{found['cell']} @ {row.batch_size}"
    found["source"] = _source(row.source)
    found["bound"] = "GPU" if is_gpu_bound(scored_model, row) else "host"
    conditions = dict(row.conditions)
    found["age"] = "old" if conditions.get("era") else "modern"
    found["sold"] = "cloud" if found["gpu"] in _sold_chips() else "other"
    found["protocol"] = "script" if conditions.get("script") else "bench"
    return found


@cache
def _sold_chips() -> frozenset[str]:
    """Chips that some cloud lists on demand."""
    offers = load_catalog().offers(OfferQuery(cloud="any", market=Market.ON_DEMAND))
    return frozenset(map(chip, cheapest_by_gpu(offer for offer in offers if offer.instance.gpu_count)))


def groups_of_fit(row: MeasuredStep) -> dict[str, str]:
    """As `groups`, of a row that the predictor learns from."""
    step = row.cell.step
    how = step.conditions
    found = _groups(row.cell.network, row.family, how.precision, how.task, how.gpu)
    found["cell"] += f" {step.input_bytes:g}"
    found["batch"] = f"{found['cell']} @ {step.batch_size:g}"
    found["source"] = _source(row.source)
    return found


def _groups(network: str, family: str, precision: str, task: str, gpu: Gpu | str) -> dict[str, str]:
    name = gpu if isinstance(gpu, str) else chip(gpu.name)
    sheet = gpu if isinstance(gpu, str) else gpu.name
    return {
        "network": network,
        "family": family,
        "gpu": name,
        "precision": precision,
        "gpu+precision": f"{name} {arithmetic_of(precision)}",
        "architecture": "unknown" if isinstance(gpu, str) else gpu.architecture,
        "family+gpu": f"{family} on {name}",
        "task": task,
        "cell": f"{network} {task} {precision} {sheet}",
    }


def _source(name: str) -> str:
    return name.partition("-v")[0] if name.startswith("mlperf") else name
