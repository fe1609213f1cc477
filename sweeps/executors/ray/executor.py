"""Trials as Ray tasks, on a Ray of its own or on a given cluster.

Ray places trials: one on each `advisor_trial` and each GPU (`placing`). It limits nothing: each
task starts a worker process on CPUs of its own (`sweeps.trial.placement`), under limits. What a
node takes down with it is measured again on another one, and the measurement says how often, and
why.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from advisor.domain import LimitedBy, Measurement, Status, Trial
from sweeps.events import WARNING, emit, forward_all
from sweeps.executors.process import Measure
from sweeps.executors.ray.connection import connected
from sweeps.executors.ray.placing import (
    TRIAL_RESOURCE,
    FreeCapacity,
    Needs,
    Node,
    all_slots,
    describe_needs,
    needs_of,
    needs_of_own_machine,
    refuse_impossible,
    resources_of_own_machine,
    slots,
    task_options,
)
from sweeps.executors.ray.task import EVENTS, NODE, measuring_task
from sweeps.formats.serialization import measurement_from_dict, run_facts, trial_to_dict
from sweeps.trial.orphans.removing import clean_up
from sweeps.trial.placement.node import read_node
from sweeps.trial.trial_process import REPEATS_WHEN_SPOILED, timeout_of

LOST_RUNS = 2  # how often what a node took down is measured again
NODE_PATIENCE_SECONDS = 600.0  # a spot node that was evicted is replaced in minutes
_NODES_CACHED_SECONDS = 5.0
_WAIT_SECONDS = 1.0
# Trials that were taken, and wait since nodes of their kind are busy while others are free.
_MOST_WAITING = 1000


@dataclass(slots=True)
class _Flight:
    """A trial on its way: what it needs, the runs that were lost, and, once it has begun, where
    it runs and until when it may."""

    trial: Trial
    needs: Needs
    lost: list[dict[str, Any]] = field(default_factory=list)
    node: str = ""
    deadline: float | None = None
    submitted_at: str = ""


class RayExecutor:
    """As many trials at a time as the nodes take, each on a node that has what it needs.

    Without an address that is this machine, with `slots` trials at a time, as far as its cores,
    GPUs, memory and disk suffice (`placing.slots_of_own_machine`).
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        measure: Measure | None = None,
        slots: int = 1,
        node_patience_seconds: float = NODE_PATIENCE_SECONDS,
        timeout_of: Callable[[Trial], float] = timeout_of,
    ) -> None:
        self._own, machine = not address, read_node(with_gpus=not address and slots > 1)
        self._ray = connected(address, resources_of_own_machine(machine, slots))
        self._needs = partial(needs_of_own_machine, machine=machine) if self._own else needs_of
        # Locally it is done here; on a cluster each task cleans its node.
        clean_up()
        # A streaming task reports that it has begun, and then the result. Ray repeats nothing: what
        # is lost is recorded here. And a worker is not ended after each use of a GPU (0.5 s):
        # the GPU is used by the process that it starts.
        task = measuring_task(measure, on_cluster=not self._own)
        self._task = self._ray.remote(num_returns="streaming", max_retries=0, max_calls=0)(task)
        self._timeout_of = timeout_of
        self._patience = node_patience_seconds
        self._running: dict[Any, _Flight] = {}
        self._waiting: dict[Needs, deque[_Flight]] = defaultdict(deque)
        self._unschedulable: dict[Needs, float] = {}
        self._cached_nodes: tuple[float, list[Node]] = (0.0, [])

    def refuse_impossible(self, trials: Sequence[Trial]) -> None:
        """`MeasuringError` that names the way out when no node takes some of the trials."""
        if not self._own:
            refuse_impossible(trials, self._nodes())

    def execute(self, trials: Iterable[Trial]) -> Iterator[Measurement]:
        """See `sweeps.executors.process.Executor`."""
        coming = iter(trials)
        while True:
            self._recall()
            self._fill(coming)
            yield from self._unplaceable()
            if self._running:
                yield from self._ended()
            elif any(self._waiting.values()):
                time.sleep(_WAIT_SECONDS)
            else:
                return

    def close(self) -> None:
        """Cancel what runs and leave Ray; an own Ray ends with this."""
        try:
            for reference in self._running:
                self._ray.cancel(reference, force=True)
        finally:  # a cluster that has gone may refuse
            self._running.clear()
            self._ray.shutdown()
            clean_up()

    def _nodes(self) -> list[Node]:
        listed_at, nodes = self._cached_nodes
        if not listed_at or time.monotonic() - listed_at > _NODES_CACHED_SECONDS:
            nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
            self._cached_nodes = time.monotonic(), nodes
        return nodes

    def _fill(self, coming: Iterator[Trial]) -> None:
        """Submit what has a node that is free, as far as trials have to be taken for that."""
        nodes = self._nodes()
        if len(self._running) >= all_slots(nodes):
            return
        room = FreeCapacity(nodes, (flight.needs for flight in self._running.values()))
        for needs, queue in self._waiting.items():
            while queue and room.take(needs):
                self._submit(queue.popleft())
        waiting = sum(map(len, self._waiting.values()))
        while len(self._running) < all_slots(nodes) and waiting < _MOST_WAITING:
            trial = next(coming, None)
            if trial is None:
                return
            flight = _Flight(trial, self._needs(trial))
            if room.take(flight.needs):
                self._submit(flight)
            else:
                self._waiting[flight.needs].append(flight)
                waiting += 1

    def _submit(self, flight: _Flight) -> None:
        flight.submitted_at = datetime.now(UTC).isoformat()
        task = self._task.options(**task_options(flight.needs))
        side_by_side = any(node.get(TRIAL_RESOURCE, 0) > 1 for node in self._nodes())
        self._running[task.remote(trial_to_dict(flight.trial), side_by_side)] = flight

    def _recall(self) -> None:
        """Take back what Ray has not begun and has no node for any more: it would wait for ever."""
        nodes = self._nodes()
        for reference, flight in list(self._running.items()):
            if flight.deadline is None and not slots(flight.needs, nodes):
                self._ray.cancel(reference, force=True)
                del self._running[reference]
                self._waiting[flight.needs].appendleft(flight)

    def _unplaceable(self) -> Iterator[Measurement]:
        """The trials whose nodes all went, and were not replaced in time."""
        now, nodes = time.monotonic(), self._nodes()
        for needs, queue in list(self._waiting.items()):
            if not queue or slots(needs, nodes):
                self._unschedulable.pop(needs, None)
            elif now - self._unschedulable.setdefault(needs, now) > self._patience:
                reason = f"waited {self._patience:g} s for a node: {describe_needs(needs, nodes)}"
                while queue:
                    yield _failure(queue.popleft(), Status.FAILED, reason)

    def _ended(self) -> Iterator[Measurement]:
        """What has ended within a moment; trials that take far too long are cancelled."""
        ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=_WAIT_SECONDS)
        for reference in ready:
            measurement = self._advanced(reference)
            if measurement:
                yield measurement
        for reference, flight in list(self._running.items()):
            if flight.deadline and time.monotonic() > flight.deadline:
                self._ray.cancel(reference, force=True)
                del self._running[reference]
                reason = f"node {flight.node} gave no answer in time; is it alive, and its disk?"
                yield _failure(flight, Status.TIMED_OUT, reason)

    def _advanced(self, reference: Any) -> Measurement | None:
        """What a task that has news reports: that it began, or what it measured."""
        flight = self._running[reference]
        try:
            answer = self._ray.get(next(reference))
        except (self._ray.exceptions.RayError, StopIteration) as error:
            del self._running[reference]
            return self._after_loss(flight, error)
        forward_all(answer.pop(EVENTS))
        if NODE in answer:
            flight.node = answer[NODE]
            seconds = (REPEATS_WHEN_SPOILED + 1) * self._timeout_of(flight.trial) + 60
            flight.deadline = time.monotonic() + seconds
            return None
        del self._running[reference]
        measured = measurement_from_dict(answer)
        return replace(measured, attempts=(*flight.lost, *measured.attempts))

    def _after_loss(self, flight: _Flight, error: BaseException) -> Measurement | None:
        """Measure it again when its node or Ray's worker went, a bounded number of times."""
        exceptions = self._ray.exceptions
        where = f" on node {flight.node}" if flight.node else ""
        text = " ".join(str(error).split())[:300]
        failure = _failure(flight, Status.FAILED, f"{type(error).__name__}{where}: {text}")
        own_fault = (
            exceptions.RayTaskError, exceptions.OutOfMemoryError, exceptions.TaskCancelledError,
        )  # fmt: skip
        if isinstance(error, own_fault) or len(flight.lost) >= LOST_RUNS:
            return failure
        self._cached_nodes = (0.0, [])
        flight.lost.append({**run_facts(failure), "reason": failure.reason})
        flight.node, flight.deadline = "", None
        self._waiting[flight.needs].appendleft(flight)
        return None


def _failure(flight: _Flight, status: Status, reason: str) -> Measurement:
    emit(
        "run_lost", trial_id=flight.trial.trial_id, level=WARNING, on=flight.node or None,
        status=status.value, reason=reason,
    )  # fmt: skip
    return Measurement(
        trial=flight.trial,
        status=status,
        limited_by=LimitedBy.NONE,
        reason=reason,
        started_at=flight.submitted_at,
        attempts=tuple(flight.lost),
    )
