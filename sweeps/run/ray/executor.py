"""Runs trials as Ray tasks, on a local Ray or on a given cluster.

Each trial is submitted with the resources that it needs (`cluster`). More are submitted than there is room
for, so that Ray can place them and its autoscaler sees the demand. Ray enforces no limits: a task brings the
trial's data to its node, reserves CPUs and starts a worker process under limits. Trials of a lost node are
measured again on another one, and the measurement records the lost runs with their reasons."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from advisor.domain import Measurement, Status, Trial
from advisor.errors import AdvisorError, MeasuringError
from advisor.messages import format_mib
from advisor.sweeps.datasets.making import default_place, default_text_place, ensure_dataset, ensure_text
from advisor.sweeps.datasets.remote import is_address
from advisor.sweeps.events import WARNING, collected, emit, forward_all, this_node
from advisor.sweeps.formats import (
    measurement_from_dict,
    measurement_to_dict,
    run_facts,
    trial_from_dict,
    trial_to_dict,
)
from advisor.sweeps.machine.environment import machine_size
from advisor.sweeps.run.queue import TrialQueue
from advisor.sweeps.run.ray import cluster
from advisor.sweeps.run.runner import Measure, failure, trial_with_data
from advisor.sweeps.trial.child import Ending
from advisor.sweeps.trial.ownership import clean_up
from advisor.sweeps.trial.placement import read_node
from advisor.sweeps.trial.trial_process import (
    LONGEST_PAUSES,
    REPEATS_WHEN_SPOILED,
    WAIT,
    measure_trial,
    run_attempt,
    timeout_of,
    trial_place,
)

LOST_RUNS = 2  # how often a trial of a lost node is measured again
# An evicted spot node is replaced in minutes, but the new one first installs the advisor.
NODE_PATIENCE_SECONDS = 1800.0
_WAIT_SECONDS = 1.0
# Trials submitted in addition to those that run, so that nodes always have work and the autoscaler sees the
# demand. More are claimed when half are left: claiming several costs the store as much as one.
_AHEAD = 32


class _Flight(Struct):
    """A submitted trial: its lost runs and, once it has begun, its node and deadline."""

    trial: Trial
    needs: cluster.Needs
    lost: list[dict[str, Any]] = field(default_factory=list)
    node: str = ""
    deadline: float | None = None
    submitted_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat())


class RayExecutor:
    """Runs as many trials at a time as the nodes can, each on a node that has the resources it needs.

    Without an address it runs them on this machine, at most `slots` at a time and as many as its cores, GPUs,
    memory and disk allow."""

    def __init__(
        self,
        address: str | None = None,
        *,
        measure: Measure | None = None,
        when_busy: str = WAIT,
        slots: int = 1,
        node_patience_seconds: float = NODE_PATIENCE_SECONDS,
        timeout_of: Callable[[Trial], float] = timeout_of,
    ) -> None:
        machine = None if address else read_node(with_gpus=slots > 1)
        if machine:
            has, gpus = cluster.resources_of(machine, slots), [gpu.uuid for gpu in machine.gpus]
            self._ray = cluster.connected(None, has, gpus)
        else:
            self._ray = cluster.connected(address)
        # This cleans the local machine; on a cluster each task cleans its node.
        clean_up()
        # A streaming task reports that it has begun, and then the result. Ray must not retry, since lost runs
        # are recorded here. Ray need not end its worker after each use of a GPU (0.5 s), since only the
        # process that the worker starts uses the GPU.
        task = measuring_task(measure, on_cluster=machine is None, when_busy=when_busy)
        self._task = self._ray.remote(num_returns="streaming", max_retries=0, max_calls=0)(task)
        self._on_cluster = machine is None
        self._needs = partial(cluster.needs_of, machine=machine)
        self._timeout_of = timeout_of
        self._patience = node_patience_seconds
        self._nodes = cluster.Nodes(self._ray)
        self._running: dict[Any, _Flight] = {}
        self._coming: dict[cluster.Needs, deque[Trial]] = {}
        self._claim: Callable[[Sequence[Trial]], list[Trial]] = list
        self._without_node: dict[cluster.Needs, float] = {}

    def refuse_impossible(self, trials: Sequence[Trial]) -> None:
        """Raise `MeasuringError` with a hint if some trials fit no node. With an autoscaler, which may start
        one, they wait."""
        if not self._on_cluster:
            return
        nodes, kinds = self._nodes.alive, Counter(map(self._needs, trials))
        lacking = [needs for needs in kinds if not cluster.slots(needs, nodes)]
        if lacking and not cluster.has_autoscaler(self._ray):
            cluster.refuse(lacking, kinds, nodes)
        cluster.refuse_ambiguous(trials, nodes)

    def execute(self, trials: Iterable[Trial]) -> Iterator[Measurement]:
        self._claim, self._coming = list, {}
        if isinstance(trials, TrialQueue):
            self._claim, trials = trials.claim, trials.trials
        for trial in trials:
            self._coming.setdefault(self._needs(trial), deque()).append(trial)
        while True:
            self._nodes.refresh()
            while wanted := self._next_trials():
                for trial in self._claim(wanted):
                    self._submit(_Flight(trial, self._needs(trial)))
            if not self._running:
                return
            yield from self._unplaceable()
            yield from self._finished()

    def close(self) -> None:
        """Cancel running trials and disconnect from Ray; a local Ray ends."""
        try:
            for reference in self._running:
                self._ray.cancel(reference, force=True)
        finally:  # `cancel` may fail if the cluster has ended
            self._running.clear()
            self._ray.shutdown()
            clean_up()

    def _next_trials(self) -> list[Trial]:
        """The next trials to claim, kinds in turn, until all nodes have work and `_AHEAD` trials wait."""
        submitted = Counter(flight.needs for flight in self._running.values())
        there = self._nodes.slots_for(cluster.ANY_TRIAL)
        at_work = sum(min(count, self._nodes.slots_for(kind)) for kind, count in submitted.items())
        ahead = submitted.total() - at_work
        if at_work >= there and ahead > _AHEAD // 2:
            return []
        wanted: list[Trial] = []
        kinds = deque(needs for needs, left in self._coming.items() if left)
        while kinds and (at_work < there or ahead < _AHEAD):
            needs = kinds.popleft()
            places, count = self._nodes.slots_for(needs), submitted[needs]
            if count < places + _AHEAD and self._coming[needs]:
                wanted.append(self._coming[needs].popleft())
                submitted[needs] += 1
                at_work, ahead = at_work + (count < places), ahead + (count >= places)
                kinds.append(needs)
        return wanted

    def _submit(self, flight: _Flight) -> None:
        task = self._task.options(**cluster.task_options(flight.needs))
        side_by_side = any(node.get(cluster.TRIAL_RESOURCE, 0) > 1 for node in self._nodes.alive)
        self._running[task.remote(trial_to_dict(flight.trial), side_by_side)] = flight

    def _unplaceable(self) -> Iterator[Measurement]:
        """Failed measurements of the trials that have had no node for too long."""
        now = time.monotonic()
        pending = {ref: flight for ref, flight in self._running.items() if flight.deadline is None}
        lacking = {flight.needs for flight in pending.values() if not self._nodes.slots_for(flight.needs)}
        self._without_node = {needs: self._without_node.get(needs, now) for needs in lacking}
        for needs, since in self._without_node.items():
            if now - since <= self._patience:
                continue
            why = cluster.describe_needs(needs, self._nodes.alive)
            reason = f"waited {self._patience:g} s for a node: {why}"
            for reference in [ref for ref, flight in pending.items() if flight.needs == needs]:
                self._ray.cancel(reference, force=True)
                yield _failure(self._running.pop(reference), Status.FAILED, reason)
            for trial in self._claim(self._coming.pop(needs, ())):
                yield _failure(_Flight(trial, needs), Status.FAILED, reason)

    def _finished(self) -> Iterator[Measurement]:
        """Measurements of trials that end within a second, or are cancelled past their deadline."""
        if not self._running:
            return
        references = list(self._running)
        self._ray.wait(references, num_returns=1, timeout=_WAIT_SECONDS)
        ready, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
        for reference in ready:
            if measurement := self._next_result(reference):
                yield measurement
        for reference, flight in list(self._running.items()):
            if flight.deadline and time.monotonic() > flight.deadline:
                self._ray.cancel(reference, force=True)
                del self._running[reference]
                reason = f"node {flight.node} gave no answer in time; is it alive, and its disk?"
                yield _failure(flight, Status.TIMED_OUT, reason)

    def _next_result(self, reference: Any) -> Measurement | None:
        """The measurement of a task; None if it has only begun, or was lost and submitted again."""
        flight = self._running[reference]
        try:
            answer = self._ray.get(next(reference))
        except (self._ray.exceptions.RayError, StopIteration) as error:
            del self._running[reference]
            return self._after_loss(flight, error)
        forward_all(answer.pop(EVENTS))
        if NODE in answer:
            flight.node = answer[NODE]
            seconds = (REPEATS_WHEN_SPOILED + 1) * self._timeout_of(flight.trial) + LONGEST_PAUSES + 60
            flight.deadline = time.monotonic() + seconds
            return None
        del self._running[reference]
        measured = measurement_from_dict(answer)
        return replace(measured, attempts=(*flight.lost, *measured.attempts))

    def _after_loss(self, flight: _Flight, error: BaseException) -> Measurement | None:
        """Submit a lost trial again, up to `LOST_RUNS` times; else return a failed measurement."""
        exceptions = self._ray.exceptions
        where = f" on node {flight.node}" if flight.node else ""
        text = " ".join(str(getattr(error, "cause", None) or error).split())[:300]
        failure = _failure(flight, Status.FAILED, f"{type(error).__name__}{where}: {text}")
        own_fault = (exceptions.RayTaskError, exceptions.OutOfMemoryError, exceptions.TaskCancelledError)
        if isinstance(error, own_fault) or len(flight.lost) >= LOST_RUNS:
            return failure
        self._nodes.expire()
        lost = {**run_facts(failure), "reason": failure.reason}
        self._submit(_Flight(flight.trial, flight.needs, [*flight.lost, lost]))
        return None


def _failure(flight: _Flight, status: Status, reason: str) -> Measurement:
    trial_id, node = flight.trial.trial_id, flight.node or None
    emit("run_lost", trial_id=trial_id, level=WARNING, on=node, status=status.value, reason=reason)
    ending, lost = Ending(status, reason), tuple(flight.lost)
    return ending.measurement(flight.trial, started_at=flight.submitted_at, attempts=lost)


Document = dict[str, Any]
NODE, EVENTS = "node", "events"  # keys of an answer besides those of a measurement
# Trials that hold the resources end by their deadlines: whoever waits longer, waits for one that hangs.
_PATIENCE_SECONDS = 24 * 3600.0


def measuring_task(
    measure: Measure | None, *, on_cluster: bool, when_busy: str = WAIT
) -> Callable[[Document, bool], Iterator[Document]]:
    """A function (trial, side_by_side) for Ray. It yields the node once the trial's data and resources are
    ready, and then the measurement, each with the events until then. Without a `measure` it measures the
    trial on reserved CPUs and GPUs.

    On a cluster it first removes what a killed trial left on the node, and makes the data sets that sweeps
    make. The trial's deadline does not include this preparation, as it begins with the first answer."""

    def run(document: Document, side_by_side: bool) -> Iterator[Document]:
        trial = trial_from_dict(document)
        with ExitStack() as block:
            with collected() as events:
                emit("placed", trial_id=trial.trial_id)
                try:
                    if on_cluster:
                        _clean_node()
                        _make_data(trial)
                    data = block.enter_context(trial_with_data(trial))
                    one_run = measure or block.enter_context(
                        _reserved_place(data.here, when_busy, side_by_side=side_by_side)
                    )
                    row = None
                except AdvisorError as error:
                    row = failure(trial, str(error))
            yield {NODE: this_node(), EVENTS: events}
            with collected() as events:
                row = row or data.measured(one_run)
        yield {**measurement_to_dict(row), EVENTS: events}

    return run


@contextmanager
def _reserved_place(trial: Trial, when_busy: str, *, side_by_side: bool) -> Iterator[Measure]:
    """Reserve CPUs, memory and a GPU for the trial inside the block. Ray alone may start too many trials: it
    does not count whole cores, and trusts the declared resources of a node."""
    resources, size = trial.resources, machine_size()
    # This node (or its container) may be too small, whatever it has declared to Ray.
    if resources.vcpus > size.vcpus:
        raise MeasuringError(
            f"{resources.vcpus:g} vCPUs asked for, but node {this_node()} has {size.vcpus:g}"
        )
    if resources.memory_mib > size.memory_mib:
        raise MeasuringError(
            f"{format_mib(resources.memory_mib)} of memory asked for, but node {this_node()} has "
            f"{format_mib(size.memory_mib)}",
            hint="ask for less, or start a larger node",
        )
    with trial_place(trial, side_by_side, patience_seconds=_PATIENCE_SECONDS) as placement:
        attempt = partial(
            run_attempt, side_by_side=side_by_side, taking=lambda *_, **__: nullcontext(placement)
        )
        yield partial(measure_trial, attempt=attempt, when_busy=when_busy)


@cache
def _clean_node() -> None:
    """Remove what killed trials left, once in each Ray process. A killed trial ends its Ray process too, so
    the next process cleans up. (Listing all cgroups takes tens of milliseconds.)"""
    with suppress(OSError):  # another process may be cleaning the same machine
        clean_up()


def _make_data(trial: Trial) -> None:
    """Make the trial's data set if sweeps make it; a fixed seed makes it identical on every node."""
    path, samples = Path(trial.dataset_path), trial.workload.dataset.samples
    if not trial.dataset_path or is_address(trial.dataset_path) or path.exists():
        return
    if path.name == default_place(samples).name:
        ensure_dataset(samples, path)
    elif path.name == default_text_place().name:
        ensure_text(path)
