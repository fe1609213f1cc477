"""An adaptive sweep: chooses the next trials from the stored measurements.

Each batch is derived from the measurements of the batches before it. A killed sweep therefore continues with
the trials that it would have run anyway, and measures none of them twice."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from advisor.catalog import load_catalog, resources_of
from advisor.catalog.gpus import sheet_of
from advisor.domain import (
    ON_CPU,
    CacheState,
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
from advisor.models.performance import load_model, paced_gpu
from advisor.models.performance.memory.steps import host_memory_mib
from advisor.models.performance.networks import bundled_networks
from advisor.models.performance.physical_form import Trials, modelled_on_cpu
from advisor.models.performance.pipeline import PipelineRequest, pipeline_columns
from advisor.models.performance.surface import USUAL_NOISE, Belief, Choice, Question, Surface, next_trials
from advisor.questions.network import NetworkQuestion
from advisor.questions.settled import DEFAULT_CLOUD, DEFAULT_REGION
from advisor.runs.fields import Budget, seconds_of
from advisor.runs.fitting import cpu_of_machine
from advisor.runs.sweep_questions import PlannedSweep, SweepRun
from advisor.runs.sweeps.sweeping import host_usd_per_hour, measuring_here, probed_machine, step_seconds
from advisor.sweeps.anchors import observed
from advisor.sweeps.measurement_store import MeasurementStore
from advisor.sweeps.planning.plan import usual_seconds
from advisor.sweeps.quality.rates import rate_interval
from advisor.sweeps.run.runner import Progress, current_rows, run_sweep
from advisor.sweeps.trial.trial_process import REPEATS_WHEN_SPOILED


def run_adaptive(
    sweep: AdaptiveSweep,
    question: SweepRun,
    store: MeasurementStore,
    *,
    on_progress: Callable[[Progress], None],
    on_batch: Callable[[SweepStatus], None],
    clock: Callable[[], float] = time.monotonic,
    since: datetime | None = None,
) -> SweepStatus:
    """Measure batches until the sweep stops; returns its final status. Rows from before `since` are ignored.

    All state is in the store: a second call continues, and measures nothing twice. A used-up budget ends the
    sweep between two batches. `MeasuringError` if this machine cannot measure, or while another sweep runs
    on it."""
    rows = current_rows(sweep.trials, store, since=since)
    status = sweep.status(rows)
    if not status.next:
        return status
    earlier, begun, machine = status.spent_seconds, clock(), probed_machine(question)
    runs: dict[str, int] = {}
    with measuring_here(sweep.trials, question) as chosen:
        while status.next:
            on_batch(status)
            if sweep.budget.seconds_left(earlier + clock() - begun) <= 0:
                return replace(status, next=(), stopped=f"the budget of {sweep.budget.text} is used up")
            # One more good run of each trial, under leases; contaminated runs do not count.
            for trial_id in (item.trial.trial_id for item in status.next):
                runs[trial_id] = 2 + len(rows[trial_id].repeats) if trial_id in rows else 1
            run_sweep(
                [item.trial for item in status.next],
                chosen,
                store,
                on_progress=on_progress,
                machine=machine,
                runs_of=lambda trial: runs[trial.trial_id],
                since=since,
            )
            rows = current_rows(sweep.trials, store, since=since)
            before, status = status, sweep.status(rows)
            if status.next == before.next:
                return replace(status, next=(), stopped="its trials left nothing in the store")
    return status


BATCH = 4
_MOST_RUNS = 3


class Item(NamedTuple):
    """Run number `run` (from 1) of a trial."""

    trial: Trial
    run: int


class SweepStatus(Struct, frozen=True, kw_only=True):
    """Progress of an adaptive sweep: runs `done`, the `next` ones (empty once `stopped` has a reason), the
    uncertainty of the answer (`doubt`, a share; None before the first batch), and the time of the trials."""

    done: tuple[Item, ...]
    next: tuple[Item, ...]
    doubt: float | None
    spent_seconds: float
    stopped: str


class AdaptiveSweep(Struct):
    """Candidate trials, their specs and budget; `refused` trials lack memory, `gpu` is the GPU of all."""

    trials: tuple[Trial, ...]
    refused: tuple[Trial, ...]
    budget: Budget
    rows: tuple[Row, ...]
    specs: Specs | None
    target: float | None
    gpu: str | None = None
    _choices: dict[tuple[tuple[int, int, float], ...], Choice] = field(default_factory=dict)

    def status(self, measured: Mapping[str, Measurement]) -> SweepStatus:
        """The status after the `measured` rows (by trial id)."""
        stored = (measured[trial.trial_id] for trial in self.trials if trial.trial_id in measured)
        surface = surface_of(self._all_rows, (row for row in stored if row.status is Status.OK))
        done: list[int] = []
        # The first batch is planned without rows, so that a continued sweep plans the same one.
        choice = self._choose(surface_of(self._all_rows, ()), (), measured)
        while True:
            seconds = self._seconds(done, measured)
            usual = mean([*seconds, usual_seconds(*self.trials)])
            rows = choice.rows[: self.budget.trials_left(len(done), sum(seconds), usual)]
            waiting = self._waiting(done, rows, measured)
            if waiting or not rows:
                runs = [done[: index + 1].count(row) for index, row in enumerate(done)]
                return SweepStatus(
                    done=tuple(Item(self.trials[row], run) for row, run in zip(done, runs, strict=True)),
                    next=waiting,
                    doubt=choice.doubt if done else None,
                    spent_seconds=sum(seconds),
                    stopped="" if waiting else choice.stopped or self.budget.ending,
                )
            done.extend(rows)
            choice = self._choose(surface, done, measured)

    def _choose(self, surface: Surface, done: Sequence[int], measured: Mapping[str, Measurement]) -> Choice:
        rates = [(row, *self._rate_after(done, row, measured)) for row in dict.fromkeys(done)]
        good = [(row, rate, noise) for row, rate, noise in rates if rate > 0]
        # A failed repeat changes no rate, but counts as a run.
        key = tuple((row, done.count(row), rate) for row, rate, _ in rates)
        if key not in self._choices:
            good_rows = [row for row, _, _ in good]
            if self.gpu is not None:
                # Only rows of earlier batches, so that a killed sweep continues with the same choices.
                steps = (measured[self.trials[row].trial_id] for row in good_rows)
                surface = with_gpu_steps(surface, self._all_rows, steps, self.gpu)
            logs = np.log([rate for _, rate, _ in good])
            belief = Belief.after(surface, good_rows, logs, np.array([noise for *_, noise in good]))
            candidates = [*self._left(done, measured)]
            again = {row: noise for row, _, noise in good if done.count(row) < _MOST_RUNS}
            question = Question(tuple(range(len(self.trials))))
            if self.specs is not None and self.target is not None:  # which spec reaches the target?
                places = tuple(range(len(self.trials), len(self._all_rows)))
                question = Question(places, self.target, self.specs.usd_per_hour, self.specs.groups)
            self._choices[key] = next_trials(belief, question, candidates, repeats=again, count=BATCH)
        return self._choices[key]

    @property
    def _all_rows(self) -> list[Row]:
        return [*self.rows, *(self.specs.rows if self.specs else ())]

    def _rate_after(
        self, done: Sequence[int], row: int, measured: Mapping[str, Measurement]
    ) -> tuple[float, float]:
        """Rate of a cell after its runs in `done`, and the variance of its logarithm; zeros if it failed."""
        runs = done.count(row)
        stored = measured[self.trials[row].trial_id]
        cut = replace(stored, repeats=stored.repeats[: runs - 1])
        rate = cut.throughput_samples_per_second if cut.status is Status.OK else None
        if not rate:
            return 0.0, 0.0
        interval = rate_interval(cut)
        return rate, interval.standard_error**2 if interval else USUAL_NOISE**2 / (1 + len(cut.repeats))

    def _left(self, done: Sequence[int], measured: Mapping[str, Measurement]) -> Iterator[int]:
        """Unmeasured cells, except those where the same trial with at least as much memory ran out of it."""
        tried = [self.trials[row] for row in dict.fromkeys(done)]
        killed = [trial for trial in tried if measured[trial.trial_id].status is Status.OUT_OF_MEMORY]
        for row, trial in enumerate(self.trials):
            if row not in done and not any(
                trial.workload == other.workload
                and trial.accelerator == other.accelerator
                and trial.resources.memory_mib <= other.resources.memory_mib
                and trial.resources.vcpus >= other.resources.vcpus
                for other in killed
            ):
                yield row

    def _seconds(self, done: Sequence[int], measured: Mapping[str, Measurement]) -> list[float]:
        """Duration of each run in `done`, as the mean of its cell's runs."""
        return [
            seconds_of(measured[self.trials[row].trial_id]) / runs
            for row, runs in Counter(done).items()
            for _ in range(runs)
        ]

    def _waiting(
        self, done: Sequence[int], rows: Sequence[int], measured: Mapping[str, Measurement]
    ) -> tuple[Item, ...]:
        """The runs of a batch that are not measured yet."""
        items = [Item(self.trials[row], done.count(row) + 1) for row in rows]
        return tuple(
            item
            for item in items
            if (row := measured.get(item.trial.trial_id)) is None
            or (row.status is Status.OK and _tries(row) < item.run)
        )


def adaptive_from(trials: Sequence[Trial], sweep: PlannedSweep) -> AdaptiveSweep:
    """The adaptive sweep over these trials, with the question's budget and target."""
    assert sweep.budget is not None
    budget = replace(sweep.budget, usd_per_hour=host_usd_per_hour(sweep))
    return adaptive_sweep(trials, budget, sweep.target_throughput)


def adaptive_sweep(trials: Sequence[Trial], budget: Budget, target: float | None = None) -> AdaptiveSweep:
    """An adaptive sweep over the trials that have enough memory. `UsageError` for networks unknown to the
    model, for repeats, and for a target that no instance on sale reaches."""
    if any(trial.plan.get("repeats", 1) > 1 for trial in trials):
        raise UsageError("--adaptive decides about repeats", field="adaptive", hint="leave --repeats out")
    if len({trial.accelerator for trial in trials} - {ON_CPU}) > 1:
        raise UsageError("--adaptive learns one accelerator at a time", field="adaptive", hint="name one")
    gpu = gpu_of(trials)
    rows = {trial.trial_id: row_of(trial, gpu) for trial in trials}
    surface_of(list(rows.values()), ())  # raises for networks unknown to the model
    judged = [(trial, fits_memory(rows[trial.trial_id])) for trial in trials]
    able = [trial for trial, fits in judged if fits]
    if not able:
        raise UsageError("none of these trials has the memory that it needs", hint="give --memory more")
    return AdaptiveSweep(
        trials=tuple(able),
        refused=tuple(trial for trial, fits in judged if not fits),
        budget=budget,
        rows=tuple(rows[trial.trial_id] for trial in able),
        specs=specs_for(able, gpu, target) if target else None,
        target=target,
        gpu=gpu,
    )


def _tries(measurement: Measurement) -> int:
    """How often a trial was run, failures included. A contaminated attempt and its automatic repeats count
    as one."""
    spoiled = sum(attempt.get("status") == Status.CONTAMINATED for attempt in measurement.attempts)
    failed: int = len(measurement.attempts) - spoiled + spoiled // (1 + REPEATS_WHEN_SPOILED)
    return 1 + len(measurement.repeats) + failed


class Row(Struct, frozen=True):
    """A cell of a surface: a workload on resources, and the accelerator's rate (samples/s; nan on a CPU)."""

    request: PipelineRequest
    accelerator_rate: float


def row_of(trial: Trial, gpu: str | None) -> Row:
    """The cell of a trial; `gpu` names the GPU of `cuda` trials."""
    return Row(PipelineRequest.of(trial), _accelerator_rate(trial, gpu))


def _accelerator_rate(trial: Trial, gpu: str | None) -> float:
    if trial.workload.task is Task.PREPROCESSING:
        return float("inf")
    if trial.emulated_step_seconds is not None:
        return trial.samples_per_step / trial.emulated_step_seconds
    if trial.accelerator.is_cpu:
        return float("nan")
    return trial.samples_per_step / step_seconds(trial.workload, gpu or "")


def surface_of(rows: Sequence[Row], measured: Iterable[Measurement]) -> Surface:
    """The surface over cells, for the CPU of the earliest measurement, or without one for this machine's."""
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
    cpu = requests[0].resources.cpu
    machine: Mapping[str, Any] = {"cpu_model": cpu.model, "architecture": cpu.architecture} if cpu else {}
    if earliest := min(measured, key=lambda row: row.started_at, default=None):
        machine = earliest.environment
    trials = Trials(
        columns=pipeline_columns(requests, networks),
        cells=tuple((request.workload.network, request.workload.task) for request in requests),
        accelerator=np.array(rates),
        modelled=np.array([request.on_cpu for request in requests]),
        cpus=(cpu_of_machine(machine),),
    )
    return Surface.of(trials)


def with_gpu_steps(
    surface: Surface, rows: Sequence[Row], measured: Iterable[Measurement], gpu: str
) -> Surface:
    """The surface with rates conditioned on measured steps of a real GPU; unchanged for an emulated one."""
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


def fits_memory(row: Row) -> bool:
    """True if the trial has the memory that it needs."""
    request = row.request
    facts = bundled_networks()[request.workload.network]
    needed = host_memory_mib(facts, request.workload, request.resources, request.on_cpu)
    return needed <= request.resources.memory_mib


class Specs(Struct, frozen=True):
    """Specs on sale: their cells, prices (shape (m,)), and groups (network and task) that each serves."""

    rows: tuple[Row, ...]
    usd_per_hour: Floats
    groups: tuple[str, ...]


def specs_for(trials: Sequence[Trial], gpu: str | None, target: float) -> Specs:
    """The specs on sale with the trials' GPU, for each candidate disk; `UsageError` if there is none."""
    sold: list[tuple[Row, float, str]] = []
    for workload, rate in {trial.workload: _accelerator_rate(trial, gpu) for trial in trials}.items():
        on_cpu = gpu is None and workload.task is not Task.PREPROCESSING
        cache = CacheState.WARM if workload.task is Task.TRAINING else CacheState.COLD
        sold += (
            (
                Row(PipelineRequest(workload, resources, on_cpu, cache), rate),
                price,
                f"{workload.network}/{workload.task}",
            )
            for resources, price in _sold(workload, gpu, target, on_cpu=on_cpu)
        )
    if not sold:
        raise UsageError(
            "no instance of the catalogue with {value} can run this",
            value=gpu or "no GPU",
            hint="leave --target-throughput out to learn the whole surface",
        )
    rows, prices, groups = zip(*sold, strict=True)
    return Specs(rows, np.array(prices), groups)


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
                resources = resources_of(catalog, option.offer, disk, request.max_gpus)
                yield resources, Spec(offer=option.offer, disk=disk).total_usd_per_hour


def gpu_of(trials: Sequence[Trial]) -> str | None:
    """The GPU on which the trials run, or which they emulate; None on a CPU."""
    for trial in trials:
        if trial.accelerator.gpu:
            return trial.accelerator.gpu
        if trial.accelerator.is_gpu:
            from advisor.runs.verification.verdict import gpus_of_this_machine

            return next(iter(gpus_of_this_machine()), None)
    return None
