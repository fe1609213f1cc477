"""Trials and specs as rows of a surface that the performance model describes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, partial

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog import load_catalog, resources_of
from advisor.catalog.gpus import sheet_of
from advisor.domain import (
    ON_CPU,
    CacheState,
    LimitedBy,
    Measurement,
    Observation,
    Resources,
    Spec,
    Status,
    Task,
    Trial,
    Workload,
)
from advisor.engine.candidates import Runnable, attached, query_of, runnable
from advisor.errors import NoOfferError, UsageError
from advisor.models.bayes import Floats
from advisor.models.performance import load_model, paced_gpu, published_step_seconds
from advisor.models.performance.memory.steps import host_memory_mib
from advisor.models.performance.networks import bundled_networks
from advisor.models.performance.physical_form import Trials, modelled_on_cpu
from advisor.models.performance.pipeline import PipelineRequest, pipeline_columns
from advisor.models.performance.surface import Question, Surface
from advisor.questions.network import NetworkQuestion
from advisor.questions.settled import DEFAULT_CLOUD, DEFAULT_REGION
from advisor.runs.fitting import reference_cpu
from advisor.sweeps.anchors.observing import observed


class Row(Struct, frozen=True):
    """One cell of a surface: what runs on what, and the accelerator's own rate there (nan: the CPU's)."""

    request: PipelineRequest
    accelerator_rate: float


def row_of(trial: Trial, gpu: str | None) -> Row:
    """A trial that may be measured; `gpu` names the card of `cuda` trials."""
    return Row(PipelineRequest.of(trial), _accelerator_rate(trial, gpu))


def _accelerator_rate(trial: Trial, gpu: str | None) -> float:
    if trial.workload.task is Task.PREPROCESSING:
        return float("inf")
    if trial.emulated_step_seconds is not None:
        return trial.samples_per_step / trial.emulated_step_seconds
    if trial.accelerator.is_cpu:
        return float("nan")
    workload = trial.workload
    seconds = published_step_seconds(
        workload.network, workload.task, workload.precision, workload.batch_size, gpu or ""
    )
    return trial.samples_per_step / seconds


def surface_of(rows: Sequence[Row], measured: Iterable[Measurement]) -> Surface:
    """The surface over rows; the CPU is the one of the earliest measurement, which later ones (of
    other nodes) do not change, else this machine's."""
    networks = bundled_networks()
    missing = {row.request.workload.network for row in rows} - set(networks.names)
    if missing:
        raise UsageError(
            "adaptive planning knows no operations of {unknown}",
            unknown=", ".join(sorted(missing)),
            hint="leave --adaptive out for it",
        )
    requests = [row.request for row in rows]
    rates = [
        modelled_on_cpu(row.request, networks) if row.request.on_cpu else row.accelerator_rate for row in rows
    ]
    earliest = min(measured, key=lambda row: row.started_at, default=None)
    trials = Trials(
        columns=pipeline_columns(requests, networks),
        cells=tuple((request.workload.network, request.workload.task) for request in requests),
        accelerator=np.array(rates),
        modelled=np.array([request.on_cpu for request in requests]),
        cpus=(reference_cpu(earliest or _unmeasured(requests[0])),),
    )
    return Surface.of(trials)


def with_gpu_steps(
    surface: Surface, rows: Sequence[Row], measured: Iterable[Measurement], gpu: str
) -> Surface:
    """The surface once the steps of the real GPU that were measured condition its rates. What was measured is
    known, other batches and networks move by what it tells. An emulated GPU's rates are what they are."""
    sheets, model = load_catalog().gpus, load_model()
    observations = (observed(row, "", partial(sheet_of, sheets=sheets)) for row in measured)
    steps = [each for each in observations if isinstance(each, Observation)]
    if not steps:
        return surface
    conditioned, card = model.step_times.condition(steps, model.table), paced_gpu(gpu)

    @cache
    def speed_up(workload: Workload) -> float:
        facts, asked = model.table.of(workload), [(workload, card)]
        before, after = (times.estimates(asked, facts).mean[0] for times in (model.step_times, conditioned))
        return float(np.exp(before - after))

    rates = surface.trials.accelerator.copy()
    for index, row in enumerate(rows):
        if np.isfinite(rates[index]):
            rates[index] *= speed_up(row.request.workload)
    return replace(surface, trials=replace(surface.trials, accelerator=rates))


def _unmeasured(request: PipelineRequest) -> Measurement:
    """A record that names this machine's CPU, for what is asked before the first trial."""
    cpu = request.resources.cpu
    facts = {"cpu_model": cpu.model, "architecture": cpu.architecture} if cpu else {}
    trial = Trial(workload=request.workload, resources=request.resources, accelerator=ON_CPU)
    return Measurement(trial=trial, status=Status.FAILED, limited_by=LimitedBy.NONE, environment=facts)


def fits_memory(row: Row) -> bool:
    """Whether the trial has the memory without which it is killed."""
    request = row.request
    facts = bundled_networks()[request.workload.network]
    needed = host_memory_mib(facts, request.workload, request.resources, request.on_cpu)
    return needed <= request.resources.memory_mib


class Specs(Struct, frozen=True):
    """The specs that money buys for a target: rows, their prices (m,) and whose question each answers."""

    rows: tuple[Row, ...]
    usd_per_hour: Floats
    groups: tuple[str, ...]

    def question(self, target: float, first: int) -> Question:
        """Which spec reaches `target`; the specs' rows begin at `first` in the surface."""
        places = tuple(range(first, first + len(self.rows)))
        return Question(places, target, self.usd_per_hour, self.groups)


def specs_for(trials: Sequence[Trial], gpu: str | None, target: float) -> Specs:
    """Instances with the trials' GPU and each disk worth a look, from the catalogue. `UsageError` where none
    is sold."""
    rates = {trial.workload: _accelerator_rate(trial, gpu) for trial in trials}
    rows: list[Row] = []
    prices: list[float] = []
    groups: list[str] = []
    for workload, rate in rates.items():
        on_cpu = gpu is None and workload.task is not Task.PREPROCESSING
        cache = CacheState.WARM if workload.task is Task.TRAINING else CacheState.COLD
        for resources, price in _sold(workload, gpu, target, on_cpu=on_cpu):
            rows.append(Row(PipelineRequest(workload, resources, on_cpu, cache), rate))
            prices.append(price)
            groups.append(f"{workload.network}/{workload.task}")
    if not rows:
        raise UsageError(
            "no instance of the catalogue with {value} can run this",
            value=gpu or "no GPU",
            hint="leave --target-throughput out to learn the whole surface",
        )
    return Specs(tuple(rows), np.array(prices), tuple(groups))


def _sold(
    workload: Workload, gpu: str | None, target: float, *, on_cpu: bool
) -> Iterable[tuple[Resources, float]]:
    catalog, model = load_catalog(), load_model()
    request = NetworkQuestion(
        network=workload.network,
        task=workload.task,
        target_throughput=target,
        batch_size=workload.batch_size,
        precision=workload.precision,
        dataset=workload.dataset,
        gpus=(gpu,) if gpu else (),
        region=DEFAULT_REGION[DEFAULT_CLOUD],
        max_gpus=1,  # as the trials use
    )
    try:
        offers = catalog.offers(replace(query_of(request), accelerated=not on_cpu))
    except NoOfferError:
        return
    for option in runnable(request, catalog, model, [attached(request, catalog, offer) for offer in offers]):
        if isinstance(option, Runnable):
            for disk in option.disks:
                spec = Spec(offer=option.offer, disk=disk)
                resources = resources_of(catalog, spec.offer, disk, request.max_gpus)
                yield resources, spec.total_usd_per_hour


def gpu_of(trials: Sequence[Trial]) -> str | None:
    """The GPU that the trials run on, or emulate; None on the CPU."""
    for trial in trials:
        if trial.accelerator.gpu:
            return trial.accelerator.gpu
        if trial.accelerator.is_gpu:
            from advisor.runs.verification.machine import gpus_of_this_machine

            return next(iter(gpus_of_this_machine()), None)
    return None
