"""Runs a trial as a task on a node: brings its data, reserves its resources, and measures it.

Ray enforces no limits: the task starts a worker process on reserved CPUs, under limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from advisor.domain import Trial
from advisor.errors import AdvisorError, MeasuringError
from advisor.messages import format_mib
from advisor.sweeps.datasets.making import default_place, default_text_place, ensure_dataset, ensure_text
from advisor.sweeps.datasets.remote import is_address
from advisor.sweeps.events import collected, emit, this_node
from advisor.sweeps.formats import measurement_to_dict, trial_from_dict
from advisor.sweeps.machine.environment import machine_size
from advisor.sweeps.run.runner import Measure, failure, trial_with_data
from advisor.sweeps.trial.orphans import clean_up
from advisor.sweeps.trial.trial_process import WAIT, measure_trial, run_attempt, trial_place

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
