"""One run of the GPU-hour: measures the marks and cells that the files lack, in a worker that may crash.

This process does not load torch: it uses no GPU memory, and no CUDA fault can end it."""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from advisor.catalog import load_catalog
from advisor.catalog.gpus import sheet_of
from advisor.domain import ON_ANY_GPU, ON_CPU, DiskRate, LimitedBy, Measurement, Resources, Status, Trial
from advisor.domain.results import mean_step_seconds
from advisor.errors import MeasuringError, UsageError
from advisor.infra.build.campaign.marks import marks
from advisor.infra.build.campaign.protocol import LARGEST, Cell, Machine, Plan, batch_of, cells, trial_of
from advisor.infra.build.campaign.records import Records, Row
from advisor.models.performance import load_model
from advisor.models.performance.cpu_step_times import published_on_cpu
from advisor.sweeps.anchors import gpu_size
from advisor.sweeps.formats import measurement_from_dict, measurement_to_dict
from advisor.sweeps.machine.environment import local_cpu, machine_size
from advisor.sweeps.quality.issues import is_gpu_shared
from advisor.sweeps.trial.child import Worker, WorkerEnded, WorkerLate, started_worker

_COMMAND = (sys.executable, "-P", "-m", "advisor.infra.build.campaign.device")
# Time for loading torch and a library, building the network, and its first steps.
_STARTING_SECONDS = 25.0
_LAUNCH, _CLOCK = "mark/launch", "mark/clock"
_CONFIDENCE = 0.9


class GpuHour(Struct, kw_only=True):
    """One run of the protocol. Nothing is started that would not end before `ends_at`, a time.monotonic()
    value; `rows` and marks are kept in separate files."""

    device: str
    plan: Plan
    networks: tuple[str, ...]
    rows: Records[Measurement]
    marks: Records[Row]
    ends_at: float
    report: Callable[[str], None]
    command: Sequence[str] = _COMMAND
    # Work that exceeds its expected time by this much counts as hanging.
    patience_seconds: float = 120.0
    measured: int = 0
    facts: Row = field(default_factory=dict)

    @classmethod
    def of(cls, out: Path, **options: Any) -> GpuHour:
        """Open the run with its files; what they already hold is not measured again."""
        rows = Records(
            out, lambda row: str(row.trial.plan["cell"]), measurement_from_dict, measurement_to_dict
        )
        return cls(
            rows=rows, marks=Records(out.with_suffix(".marks.jsonl"), lambda row: row["mark"]), **options
        )

    def run(self) -> bool:
        """Measure what is missing until time is up; returns whether all is done. `MeasuringError` if the
        device cannot be used."""
        self._ended({"marks": [], "is_short": True}, [], [], self._keep_mark)
        self.report(f"{len(self.marks.done)} marks and {len(self.rows.done)} cells are there already")
        done = self._marks_are_done() and self._cells_are_done()
        self.report(f"{self.measured} measured in this run")
        return done

    def _marks_are_done(self) -> bool:
        every = [mark.key for mark in marks(on_gpu=self.device == "cuda", is_short=self.plan.is_short)]
        while missing := [key for key in (_LAUNCH, *every, _CLOCK) if key not in self.marks.done]:
            times = [self.plan.load_seconds if key == _CLOCK else self.plan.mark_seconds for key in missing]
            job = {
                "marks": missing,
                "is_short": self.plan.is_short,
                "seconds": self.plan.mark_seconds,
                "load_seconds": self.plan.load_seconds,
            }
            if not self._ended(job, missing, times, self._keep_mark):
                return False
        return True

    def _keep_mark(self, row: Row) -> None:
        self.marks.append(row)
        what = f"{1e6 * row['seconds']:.4g} us" if "seconds" in row else row.get("reason") or row["clocks"]
        self.report(f"{row['mark']}: {what}")

    def _cells_are_done(self) -> bool:
        # The second run of a network uses a new process.
        jobs = groupby(cells(self.networks, self.plan), lambda cell: (cell.network, cell.again))
        done = [self._network_is_done(list(job)) for _, job in jobs]  # a list, so that all of them run
        return all(done)

    def _network_is_done(self, job: Sequence[Cell]) -> bool:
        while missing := [cell for cell in job if cell.key not in self.rows.done]:
            if self._seconds_left < _STARTING_SECONDS + self.plan.seconds:
                return False
            try:
                if not self._measured(missing):
                    return False
            except MeasuringError as error:  # its library is not installed
                self.report(f"left out: {error}")
                return True
        return True

    def _measured(self, missing: Sequence[Cell]) -> bool:
        """Measure these cells of one network; returns whether there was enough time."""
        machine = this_machine(self.device, self.facts)
        trials = [trial_of(cell, batch_of(cell, machine), machine, self.plan) for cell in missing]
        job = {
            "network": missing[0].network,
            "seconds": self.plan.seconds,
            "by_cpu_time": "clock" in trials[0].plan,
            "cells": [
                {
                    "cell": cell.key,
                    "task": cell.task,
                    "precision": cell.precision,
                    "batch": trial.workload.batch_size,
                    "may_halve": cell.batch == LARGEST,
                }
                for cell, trial in zip(missing, trials, strict=True)
            ],
        }
        coming = iter(zip(missing, trials, strict=True))
        cell, trial = next(coming)
        self.report(f"{cell.key}: {told(trial, machine)}")

        def keep(row: Row) -> None:
            nonlocal cell, trial
            batch_size = row.get("batch", trial.workload.batch_size)
            self._keep_cell(trial_of(cell, batch_size, machine, self.plan), row)
            if following := next(coming, None):
                cell, trial = following
                self.report(f"{cell.key}: {told(trial, machine)}")

        return self._ended(job, [each.key for each in missing], [self.plan.seconds] * len(missing), keep)

    def _keep_cell(self, trial: Trial, row: Row) -> None:
        environment = {**self.facts, **row.get("environment", {})}
        # One row describes the marks for all networks.
        if not any("fingerprint" in other.environment for other in self.rows.done.values()):
            environment["fingerprint"] = fingerprint([*self.marks.done.values()], self.facts)
        status = Status(row["status"])
        if status is Status.OK and is_gpu_shared(environment):
            status = Status.CONTAMINATED
        steps = tuple(row.get("step_seconds", ()))
        rate = trial.samples_per_step / mean_step_seconds(steps) if steps else None
        self.rows.append(
            Measurement(
                trial=trial,
                status=status,
                limited_by=LimitedBy.HOST,
                step_seconds=steps,
                warmup_step_seconds=tuple(row.get("warmup_step_seconds", ())),
                stage_rates={"accelerator": rate} if rate else {},
                reason=row.get("reason", ""),
                started_at=datetime.now(UTC).isoformat(),
                environment=environment,
            )
        )
        answer = f"{rate:.4g} rows/s" if rate else f"{status.value} {row.get('reason', '')}"
        self.report(f"{trial.plan['cell']}: measured {answer}, batch {trial.workload.batch_size}")

    def _ended(
        self, job: Row, keys: Sequence[str], seconds: Sequence[float], keep: Callable[[Row], None]
    ) -> bool:
        """Read a worker's rows until it ends; returns whether there was enough time. A crash or hang is
        recorded as failed. `MeasuringError` if the worker refused the job."""
        left = deque(zip(keys, seconds, strict=True))
        with started_worker(self.command) as worker:
            worker.send({"device": self.device, **job})
            while True:
                key, usual = left[0] if left else ("", 0.0)
                if self._seconds_left < usual:
                    return False
                patience = _STARTING_SECONDS + 2 * usual + self.patience_seconds
                message = _message(worker, time.monotonic() + patience)
                if "error" in message or ("died" in message and not left):
                    raise MeasuringError(str(message.get("error") or message["died"]))
                if "died" in message:
                    keep({"mark": key, "status": Status.FAILED.value, "reason": message["died"]})
                if "died" in message or "done" in message:
                    return True
                self.facts = message.get("facts", self.facts)
                if "row" in message:
                    keep(message["row"])
                    self.measured += 1
                    left.popleft()

    @property
    def _seconds_left(self) -> float:
        return self.ends_at - time.monotonic()


def _message(worker: Worker, deadline: float) -> Row:
    """The worker's next message, or one with `died` if the process ended or no longer answers."""
    try:
        message = worker.receive(deadline)
        return message if isinstance(message, dict) else {}
    except WorkerLate:
        return {"died": "it hung"}
    except WorkerEnded:
        return {"died": worker.last_output()}


def this_machine(device: str, facts: Mapping[str, Any]) -> Machine:
    """This machine as a `Machine`, with the GPU facts that the worker reported."""
    # Whole MiB, so that a slightly different RAM size after a reboot does not change trial ids.
    size = machine_size()
    resources = Resources(
        vcpus=float(size.vcpus),
        physical_cores=float(min(size.vcpus, size.physical_cores)),
        memory_mib=round(size.memory_mib),
        disk=DiskRate(type="unlimited"),
        cpu=local_cpu(),
    )
    if device == "cpu":
        return Machine(accelerator=ON_CPU, resources=resources, gpu=None)
    name = facts.get("gpu")
    try:
        sheet = sheet_of(name, load_catalog().gpus, **gpu_size(facts)) if name else None
    except UsageError:
        sheet = None
    return Machine(accelerator=ON_ANY_GPU, resources=resources, gpu=name, sheet=sheet)


def told(trial: Trial, machine: Machine) -> str:
    """The predictor's estimate for a trial, in words, before it is measured."""
    model, workload = load_model(), trial.workload
    if machine.gpu is None:
        return f"told {published_on_cpu(workload, model.table.of(workload), machine.resources):.4g} rows/s"
    if machine.sheet is None:
        return "not told: the catalogue has no such GPU"
    (rate,) = model.step_times.rates([(workload, machine.sheet)], model.table, _CONFIDENCE)
    lower, upper = (
        rate.samples_per_second * math.exp(width) for width in (-rate.widths.lower, rate.widths.upper)
    )
    return f"told {rate.samples_per_second:.4g} rows/s ({lower:.4g} to {upper:.4g})"


def fingerprint(rows: Sequence[Row], facts: Mapping[str, Any]) -> Row:
    """The marks as a probe's fingerprint, which `advisor fit` reads (`gpu_observations.layers_of`)."""
    timed = [row for row in rows if "sizes" in row and "seconds" in row]
    return {
        "gpus": [facts.get("gpu")],
        "operations_device": "cuda" if facts.get("gpu") else "cpu",
        "probed_at": datetime.now(UTC).isoformat(),
        "sizes": {f"operations.{row['name']}": row["sizes"] for row in timed},
        "figures": {
            f"operations.{row['precision']}.{row['name']}.forward.time": {
                "value": 1e3 * row["seconds"],
                "unit": "ms",
            }
            for row in timed
        },
        "others": [row for row in rows if row not in timed],
    }
