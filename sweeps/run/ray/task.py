"""A trial as a task on a node: its data, its room, and then its measurement.

Ray limits nothing: the task starts a worker process on CPUs of its own, under limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from advisor.domain import Trial
from advisor.errors import AdvisorError, MeasuringError
from advisor.sweeps.datasets.making import default_place, default_text_place, ensure_dataset, ensure_text
from advisor.sweeps.datasets.remote import is_address
from advisor.sweeps.events import collected, emit, this_node
from advisor.sweeps.formats import measurement_to_dict, trial_from_dict
from advisor.sweeps.machine.environment import machine_size
from advisor.sweeps.run.runner import Measure, data_at_hand, failure
from advisor.sweeps.trial.orphans import clean_up
from advisor.sweeps.trial.trial_process import WAIT, measure_trial, run_attempt, trial_place
from advisor.units import format_mib

Document = dict[str, Any]
NODE, EVENTS = "node", "events"  # what comes beside a measurement
# Those that a trial waits for have deadlines of their own: longer it waits for what hangs.
_PATIENCE_SECONDS = 24 * 3600.0


def measuring_task(
    measure: Measure | None, *, on_cluster: bool, when_busy: str = WAIT
) -> Callable[[Document, bool], Iterator[Document]]:
    """A function of a trial (and of whether others run beside it) that yields the node, as soon as it has the
    trial's data and room for it, and then the measurement, each with the events until then. Without a
    `measure` it measures the trial on CPUs and a GPU of its own.

    A node of a cluster is prepared first: what a killed trial left there is removed, and data that sweeps
    make themselves are made. None of that counts for the trial's deadline, which begins with the first
    answer."""

    def run(document: Document, side_by_side: bool) -> Iterator[Document]:
        trial = trial_from_dict(document)
        with ExitStack() as block:
            with collected() as events:
                emit("placed", trial_id=trial.trial_id)
                try:
                    if on_cluster:
                        _clean_node()
                        _make_data(trial)
                    data = block.enter_context(data_at_hand(trial))
                    one_run = measure or block.enter_context(
                        _place_taken(data.here, when_busy, side_by_side=side_by_side)
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
def _place_taken(trial: Trial, when_busy: str, *, side_by_side: bool) -> Iterator[Measure]:
    """Reserves CPUs, memory and a GPU for the trial for the length of the block. Ray may start it too
    early: it counts no whole cores, and of a node only declared resources."""
    resources, size = trial.resources, machine_size()
    # This node (or its container) may not hold the trial, whatever it has declared to Ray.
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
    """Once in each process of Ray: a trial that is killed takes its process with it, and the one
    that follows cleans. (A look through all groups takes tens of milliseconds.)"""
    with suppress(OSError):  # others that clean the same machine now were faster
        clean_up()


def _make_data(trial: Trial) -> None:
    """Makes the data set, identical on every node: the pictures and the text come from a fixed seed."""
    path, samples = Path(trial.dataset_path), trial.workload.dataset.samples
    if not trial.dataset_path or is_address(trial.dataset_path) or path.exists():
        return
    if path.name == default_place(samples).name:
        ensure_dataset(samples, path)
    elif path.name == default_text_place().name:
        ensure_text(path)
