"""What the rows of article A1 stand on: measured in groups, each only when it is asked for."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, TypeVar

from advisor.domain import CacheState, LimitedBy, Measurement, Status, Task, Trial
from benchmarks.claims.conversions import ConversionJob, run_conversion
from benchmarks.claims.processes import framework_floor, text_pipeline
from benchmarks.claims.scale import SCALE, cloud_disks
from benchmarks.claims.trials import ENDS, INFERENCE, KNEE_FORMATS, MIDDLE, TRAINING, Datasets, Plan
from benchmarks.claims.work import Work

Result = TypeVar("Result")
_FLAT = 0.97
# Reads on one core (4 vCPUs at scale), by one changing process as Caffe's convert_imageset, and
# by one a vCPU on both.
_CONVERSIONS = ((1.0, 1), (2.0, 2))


class MissingTrialsError(Exception):
    """Trials that a row needs are not there or did not end well; the message says which."""


class Evidence:
    """Measured groups of a work folder; with `measure` False only what is stored is read."""

    def __init__(self, work: Work, *, measure: bool = True) -> None:
        self._work = work
        self._measure = measure
        self.lost: list[str] = []

    @property
    def networks(self) -> tuple[str, ...]:
        """What is measured in this size of run."""
        return self._work.size.networks

    @cached_property
    def plan(self) -> Plan:
        """Trials over the data sets of the folder."""
        return Plan(self._work.size, self._datasets, self._work.text())

    @property
    def profiles(self) -> dict[str, Any]:
        """Profile of the photographs in each format."""
        return {name: profile for name, (_, profile) in self._datasets.items()}

    @cached_property
    def _datasets(self) -> Datasets:
        if not (self._measure or self._work.has_datasets()):
            raise MissingTrialsError("no data set is there yet")
        return self._work.datasets()

    def curve(self, network: str, task: Task, storage: str) -> dict[float, Measurement]:
        """Cached rows by vCPUs of the trial; between the ends only where those differ."""
        rows = self._by_vcpus(network, task, storage, ENDS)
        low, high = (rate_of(rows[vcpus]) for vcpus in ENDS)
        if self._work.size.middles and low < _FLAT * high:
            rows |= self._by_vcpus(network, task, storage, MIDDLE)
        return dict(sorted(rows.items()))

    def curves(self) -> dict[tuple[str, Task, str], dict[float, Measurement]]:
        """All curves by network, task and format; those that were not measured well are named
        in `lost` instead."""
        cells = [
            (network, task, storage)
            for storage in KNEE_FORMATS
            for task in (TRAINING, INFERENCE)
            for network in self.networks
        ]
        ends = [trial for cell in cells for trial in self.plan.vcpus(*cell, ENDS)]
        self._rows("vCPUs, both ends", ends)
        self.lost.clear()
        found = {}
        for cell in cells:
            try:
                found[cell] = self.curve(*cell)
            except MissingTrialsError as error:
                self.lost.append(str(error))
        return found

    def formats(self) -> dict[tuple[str, float, CacheState], Measurement]:
        """GoogLeNet's inference by format, vCPUs of the trial and cache."""
        trials = [trial for name in self._work.size.formats for trial in self.plan.formats(name)]
        names = {profile.storage_format: name for name, profile in self.profiles.items()}
        return {
            (
                names[row.trial.workload.dataset.storage_format],
                row.trial.resources.vcpus,
                row.trial.cache,
            ): row
            for row in self._rows("formats, cached and cold", trials)
        }

    def disks(self, task: Task) -> dict[str, Measurement]:
        """GoogLeNet on the cold LMDB by disk of the article."""
        rows = self._rows(f"disks, {task}", self.plan.disks(task))
        return {row.trial.resources.disk.type.partition("/")[0]: row for row in rows}

    def memory(self) -> dict[float, Measurement]:
        """GoogLeNet's inference by MiB of memory."""
        rows = self._rows("memory", self.plan.memory())
        return dict(sorted((row.trial.resources.memory_mib, row) for row in rows))

    def text(self, task: Task) -> list[Measurement]:
        """The LSTM's rows."""
        rows = self._rows("LSTM", self.plan.text())
        return [row for row in rows if row.trial.workload.task is task]

    def iterations(self, network: str, cache: CacheState) -> list[Measurement]:
        """Rows of few and many iterations, in this order."""
        rows = self._rows("iterations", self.plan.iterations())
        chosen = [r for r in rows if r.trial.workload.network == network and r.trial.cache is cache]
        return sorted(chosen, key=lambda row: int(row.trial.plan["iterations"]))

    def conversions(self, vcpus: float, processes: int) -> dict[str, list[dict[str, Any]]]:
        """Runs by disk, the disks in turn."""
        assert (vcpus, processes) in _CONVERSIONS
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in cloud_disks()}
        for run in range(self._work.size.conversions):
            for disk in cloud_disks().values():
                job = ConversionJob(disk=disk, vcpus=vcpus, processes=processes, run=run)
                convert = partial(self._convert, job)
                runs[disk.name].append(self._once(f"conversion {job.key}", convert))
        return runs

    def framework(self) -> dict[str, Any]:
        """What torch alone weighs."""
        return self._once("framework floor", framework_floor)

    def text_pipeline(self) -> dict[str, Any]:
        """What reading the corpus weighs, its tokens and its vocabulary."""
        return self._once("text pipeline", lambda: text_pipeline(self._work.make_corpus()))

    def _convert(self, job: ConversionJob) -> dict[str, Any]:
        return run_conversion(job, self._work.some_photographs(), self._work.scratch)

    def _by_vcpus(
        self, network: str, task: Task, storage: str, vcpus: tuple[float, ...]
    ) -> dict[float, Measurement]:
        trials = self.plan.vcpus(network, task, storage, vcpus)
        rows = self._rows(f"vCPUs, {network} {task} {storage}", trials)
        return {row.trial.resources.vcpus: row for row in rows}

    def _rows(self, what: str, trials: list[Trial]) -> list[Measurement]:
        found = self._work.measure(what, trials) if self._measure else self._work.rows()
        missing = [trial for trial in trials if trial.trial_id not in found]
        if missing:
            raise MissingTrialsError(f"{what}: {len(missing)} of {len(trials)} not measured")
        return [found[trial.trial_id] for trial in trials]

    def _once(self, key: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if self._measure:
            return self._work.once(key, make)
        known = self._work.results().get(key)
        if known is None:
            raise MissingTrialsError(f"{key} is not measured")
        return known


def rate_of(row: Measurement) -> float:
    """Its rate; `MissingTrialsError` names a trial that did not end well, or was not held to its
    limits."""
    rate = row.throughput_samples_per_second
    if row.status is not Status.OK or rate is None:
        raise MissingTrialsError(f"{_told(row.trial)} ended as {row.status}: {row.reason}")
    if row.limited_by is LimitedBy.NONE:
        raise MissingTrialsError(f"{_told(row.trial)} was not held to its limits on this machine")
    return rate


def _told(trial: Trial) -> str:
    workload, resources = trial.workload, trial.resources
    return (
        f"{workload.network} {workload.task} with {resources.vcpus:g} vCPUs and "
        f"{resources.memory_mib:.0f} MiB"
    )


def full_speed(row: Measurement) -> float:
    """The rate times the scale of its accelerator: what the real one would show."""
    return rate_of(row) * (SCALE if "/" in row.trial.accelerator.gpu else 1)


def host_rate_per_vcpu(row: Measurement) -> float:
    """Cached samples per second and vCPU, from the trial's host run."""
    rate_of(row)
    return float(row.stage_rates["host"]) / row.trial.resources.vcpus


def read_bytes_per_sample(row: Measurement) -> float | None:
    """What the disk gave while steps were timed, over their samples; None where nothing counts
    it. Batches that are prepared ahead blur it in short runs."""
    steps = len(row.step_seconds) + len(row.warmup_step_seconds)
    if row.read_bytes is None or not steps:
        return None
    return round(row.read_bytes / (steps * row.trial.samples_per_step))


def median_seconds(runs: list[dict[str, Any]]) -> float:
    """Median seconds of conversions that nobody spoiled."""
    good = [run["seconds"] for run in runs if not run["spoiled"]]
    if not good:
        raise MissingTrialsError(
            f"conversions from {runs[0]['disk']} were spoiled by other processes; run "
            "again with --retry-failed on a quiet machine"
        )
    return float(statistics.median(good))
