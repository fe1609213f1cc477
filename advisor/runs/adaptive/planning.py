"""The trials of a sweep that plans itself, as a pure function of what is stored.

Batch after batch is derived from the measurements of the batches before it. A sweep that was killed therefore
goes on with the trials that it would have run, and what is measured already is taken as it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from advisor.domain import ON_CPU, Measurement, Status, Trial
from advisor.errors import UsageError
from advisor.models.performance.next_trials import Choice, anchor_trials, next_trials
from advisor.models.performance.surface import USUAL_NOISE, Belief, Question, Surface
from advisor.runs.adaptive.cells import (
    Row,
    Specs,
    fits_memory,
    gpu_of,
    row_of,
    specs_for,
    surface_of,
    with_gpu_steps,
)
from advisor.runs.fields import Budget, expected_seconds, seconds_of
from advisor.runs.sweep_questions import PlannedSweep
from advisor.runs.sweeps.sweeping import host_usd_per_hour, measuring_here, probed_machine
from advisor.sweeps.measurement_store import MeasurementStore
from advisor.sweeps.planning.plan import usual_seconds
from advisor.sweeps.quality.rates import rate_interval
from advisor.sweeps.run.runner import Progress, current_rows, run_sweep
from advisor.sweeps.trial.trial_process import REPEATS_WHEN_SPOILED, WAIT


def run_adaptive(
    sweep: AdaptiveSweep,
    store: MeasurementStore,
    *,
    executor: str | None,
    ray_address: str | None,
    on_progress: Callable[[Progress], None],
    on_batch: Callable[[SweepStatus], None],
    clock: Callable[[], float] = time.monotonic,
    since: datetime | None = None,
    when_busy: str = WAIT,
) -> SweepStatus:
    """Measure until the sweep stops; returns where it stands then. What was measured before `since` does not
    count.

    The store is the state: run again it goes on, and nothing that is stored is measured twice. A trial that
    takes longer than expected ends the sweep when time is up, never in its middle. Raises `MeasuringError`
    when this machine cannot, or while another sweep runs on it."""
    rows = current_rows(sweep.trials, store, since=since)
    status = sweep.status(rows)
    if not status.next:
        return status
    earlier, begun = status.spent_seconds, clock()
    machine = {} if ray_address else probed_machine()
    with measuring_here(sweep.trials, executor, ray_address, when_busy) as chosen:
        while status.next:
            on_batch(status)
            if sweep.budget.seconds_left(earlier + clock() - begun) <= 0:
                return replace(status, next=(), stopped=f"the budget of {sweep.budget.text} is used up")
            # One more good run of each trial, under leases; runs that were spoiled do not count.
            runs = {item.trial.trial_id: 1 for item in status.next}
            runs |= {trial_id: 2 + len(rows[trial_id].repeats) for trial_id in runs if trial_id in rows}
            run_sweep(
                [item.trial for item in status.next],
                chosen,
                store,
                on_progress=on_progress,
                machine=machine,
                runs_of=partial(_wanted_runs, runs),
                since=since,
            )
            rows = current_rows(sweep.trials, store, since=since)
            before, status = status, sweep.status(rows)
            if status.next == before.next:
                return replace(status, next=(), stopped="its trials left nothing in the store")
    return status


def _wanted_runs(runs: Mapping[str, int], trial: Trial) -> int:
    return runs[trial.trial_id]


BATCH = 4
_MOST_RUNS = 3


class Item(NamedTuple):
    """The `run`th run of a trial, from 1 on."""

    trial: Trial
    run: int


class SweepStatus(Struct, frozen=True, kw_only=True):
    """Where a sweep stands: what it has `done`, what comes `next` (empty: it has `stopped`, and
    says why), how well its question is answered (`doubt`, a share; None before the anchors are
    measured), and the time that the trials took."""

    done: tuple[Item, ...]
    next: tuple[Item, ...]
    doubt: float | None
    spent_seconds: float
    stopped: str


class AdaptiveSweep(Struct):
    """The candidate trials, the question and the budget; `refused` are trials that would die, `gpu`
    is the card that they run on, real or emulated."""

    trials: tuple[Trial, ...]
    refused: tuple[Trial, ...]
    budget: Budget
    rows: tuple[Row, ...]
    specs: Specs | None
    target: float | None
    gpu: str | None = None
    _choices: dict[tuple[tuple[int, int, float], ...], Choice] = field(default_factory=dict)

    def status(self, measured: Mapping[str, Measurement]) -> SweepStatus:
        """What is to be measured after what is `measured`, rows by trial id."""
        surface = self._surface(measured)
        done: list[int] = []
        # The same whatever was measured since, and on which node's CPU.
        anchors = anchor_trials(self._surface({}).starting_slopes(), range(len(self.trials)))
        choice = Choice(tuple(anchors), float("nan"))
        while True:
            seconds = self._seconds(done, measured)
            usual = expected_seconds(seconds, usual_seconds(*self.trials))
            rows = choice.rows[: self.budget.trials_left(len(done), sum(seconds), usual)]
            waiting = self._waiting(done, rows, measured)
            if waiting or not rows:
                runs = [done[: index + 1].count(row) for index, row in enumerate(done)]
                return SweepStatus(
                    done=tuple(Item(self.trials[row], run) for row, run in zip(done, runs, strict=True)),
                    next=waiting,
                    doubt=None if np.isnan(choice.doubt) else choice.doubt,
                    spent_seconds=sum(seconds),
                    stopped="" if waiting else choice.stopped or self.budget.ending,
                )
            done.extend(rows)
            choice = self._choose(surface, done, measured)

    def _surface(self, measured: Mapping[str, Measurement]) -> Surface:
        stored = (measured[t.trial_id] for t in self.trials if t.trial_id in measured)
        return surface_of(self._all_rows, (row for row in stored if row.status is Status.OK))

    def _question(self) -> Question:
        if self.specs is None or self.target is None:
            return Question(tuple(range(len(self.trials))))
        return self.specs.question(self.target, len(self.trials))

    def _choose(self, surface: Surface, done: Sequence[int], measured: Mapping[str, Measurement]) -> Choice:
        rates = [(row, *self._rate_after(done, row, measured)) for row in dict.fromkeys(done)]
        good = [(row, rate, noise) for row, rate, noise in rates if rate > 0]
        # A repeat in vain changes no rate, and counts all the same.
        key = tuple((row, done.count(row), rate) for row, rate, _ in rates)
        if key not in self._choices:
            good_rows = [row for row, _, _ in good]
            if self.gpu is not None:
                # Of the batches before alone, so that a sweep that was killed goes on as it would have.
                steps = (measured[self.trials[row].trial_id] for row in good_rows)
                surface = with_gpu_steps(surface, self._all_rows, steps, self.gpu)
            logs = np.log([rate for _, rate, _ in good])
            belief = Belief.after(surface, good_rows, logs, np.array([noise for *_, noise in good]))
            candidates = [*self._left(done, measured)]
            again = {row: noise for row, _, noise in good if done.count(row) < _MOST_RUNS}
            self._choices[key] = next_trials(belief, self._question(), candidates, repeats=again, count=BATCH)
        return self._choices[key]

    @property
    def _all_rows(self) -> list[Row]:
        return [*self.rows, *(self.specs.rows if self.specs else ())]

    def _rate_after(
        self, done: Sequence[int], row: int, measured: Mapping[str, Measurement]
    ) -> tuple[float, float]:
        """Rate of a cell after the runs in `done`, and the variance of its logarithm; 0 where the
        trial gave none."""
        runs = done.count(row)
        stored = measured[self.trials[row].trial_id]
        cut = replace(stored, repeats=stored.repeats[: runs - 1])
        rate = cut.throughput_samples_per_second if cut.status is Status.OK else None
        return (rate, _noise(cut)) if rate else (0.0, 0.0)

    def _left(self, done: Sequence[int], measured: Mapping[str, Measurement]) -> Iterator[int]:
        """Cells never measured that no smaller demand was killed for."""
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
        times = []
        for row in dict.fromkeys(done):
            runs = done.count(row)
            times += [seconds_of(measured[self.trials[row].trial_id]) / runs] * runs
        return times

    def _waiting(
        self, done: Sequence[int], rows: Sequence[int], measured: Mapping[str, Measurement]
    ) -> tuple[Item, ...]:
        items = [Item(self.trials[row], done.count(row) + 1) for row in rows]
        stored = [measured.get(item.trial.trial_id) for item in items]
        return tuple(
            item
            for item, row in zip(items, stored, strict=True)
            if row is None or (row.status is Status.OK and _tries(row) < item.run)
        )


def adaptive_from(trials: Sequence[Trial], sweep: PlannedSweep) -> AdaptiveSweep:
    """The sweep over these trials, with the budget and the target that it is asked with."""
    assert sweep.budget is not None
    budget = sweep.budget.priced(host_usd_per_hour(sweep))
    return adaptive_sweep(trials, budget, sweep.target_throughput)


def adaptive_sweep(trials: Sequence[Trial], budget: Budget, target: float | None = None) -> AdaptiveSweep:
    """A sweep over candidate trials. Trials that lack memory are refused beforehand. Raises `UsageError` for
    networks whose operations the model does not know, for repeats (the sweep decides about them), and for a
    target that no instance of the catalogue is sold for."""
    if any(trial.plan.get("repeats", 1) > 1 for trial in trials):
        raise UsageError("--adaptive decides about repeats", field="adaptive", hint="leave --repeats out")
    if len({trial.accelerator for trial in trials} - {ON_CPU}) > 1:
        raise UsageError("--adaptive learns one accelerator at a time", field="adaptive", hint="name one")
    gpu = gpu_of(trials)
    rows = {trial.trial_id: row_of(trial, gpu) for trial in trials}
    surface_of(list(rows.values()), ())  # refuses what the model does not know
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
    """Runs that were made, those in vain too: nothing is tried in vain for ever. What neighbours
    spoiled is a run only where all its attempts were."""
    spoiled = sum(attempt.get("status") == Status.CONTAMINATED for attempt in measurement.attempts)
    in_vain: int = len(measurement.attempts) - spoiled + spoiled // (1 + REPEATS_WHEN_SPOILED)
    return 1 + len(measurement.repeats) + in_vain


def _noise(measurement: Measurement) -> float:
    interval = rate_interval(measurement)
    if interval is None:
        return USUAL_NOISE**2 / (1 + len(measurement.repeats))
    return interval.standard_error**2
