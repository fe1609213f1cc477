"""What runs on a node of a Ray cluster, around one trial."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from advisor.domain import Measurement, Trial
from advisor.errors import AdvisorError
from advisor.sweeps.datasets.making import (
    default_place,
    default_text_place,
    ensure_dataset,
    ensure_text,
)
from advisor.sweeps.datasets.remote import is_address
from advisor.sweeps.events import collected, emit, this_node
from advisor.sweeps.executors.data import Measure, data_at_hand, failure
from advisor.sweeps.formats.serialization import measurement_to_dict, trial_from_dict
from advisor.sweeps.machine.size import machine_size
from advisor.sweeps.trial.orphans.removing import clean_up
from advisor.sweeps.trial.placement.taking import placed
from advisor.sweeps.trial.trial_process import measure_trial, run_attempt, timeout_of

Document = dict[str, Any]
NODE, EVENTS = "node", "events"  # what comes beside a measurement


def measuring_task(
    measure: Measure | None, *, on_cluster: bool
) -> Callable[[Document, bool], Iterator[Document]]:
    """A function of a trial (and of whether others run beside it) that yields, as soon as its data
    are on the node, the node, and then the measurement, each with the events until then. Without a
    `measure` it measures the trial on CPUs and a GPU of its own.

    A node of a cluster is prepared first: what a killed trial left there is removed, and data that
    sweeps make themselves are made. None of that counts for the trial's deadline, which begins
    with the first answer.
    """

    def run(document: Document, side_by_side: bool) -> Iterator[Document]:
        trial = trial_from_dict(document)
        one_run = measure or partial(_measured_on_node, side_by_side=side_by_side)
        with ExitStack() as block:
            with collected() as events:
                emit("placed", trial_id=trial.trial_id)
                refused = _prepared(trial) if on_cluster else ""
                at_hand = None if refused else block.enter_context(data_at_hand(trial))
            yield {NODE: this_node(), EVENTS: events}
            with collected() as events:
                row = at_hand(one_run) if at_hand else failure(trial, refused)
        yield {**measurement_to_dict(row), EVENTS: events}

    return run


def _measured_on_node(trial: Trial, side_by_side: bool) -> Measurement:
    """Cores are taken whole, which Ray does not know: a trial that it began too early waits as long
    as one beside it may take."""
    place = partial(placed, patience_seconds=timeout_of(trial))
    return measure_trial(
        trial, attempt=partial(run_attempt, side_by_side=side_by_side, place=place)
    )


def _prepared(trial: Trial) -> str:
    """Make the node ready; why it cannot hold the trial, if so."""
    _clean_node()
    try:
        _make_data(trial)
    except AdvisorError as error:
        return str(error)
    return _too_large(trial)


@cache
def _clean_node() -> None:
    """Once in each process of Ray: a trial that is killed takes its process with it, and the one
    that follows cleans. (A look through all groups takes tens of milliseconds.)"""
    with suppress(OSError):  # others that clean the same machine now were faster
        clean_up()


def _make_data(trial: Trial) -> None:
    """The same at every place: the pictures and the text are drawn from a fixed seed."""
    place, samples = Path(trial.dataset_path), trial.workload.dataset.samples
    if not trial.dataset_path or is_address(trial.dataset_path) or place.exists():
        return
    if place.name == default_place(samples).name:
        ensure_dataset(samples, place)
    elif place.name == default_text_place().name:
        ensure_text(place)


def _too_large(trial: Trial) -> str:
    """Why this node (or its container) cannot hold the trial; Ray's own count of CPUs may be
    anything."""
    resources, size = trial.resources, machine_size()
    if resources.vcpus > size.vcpus:
        return f"{resources.vcpus:g} vCPUs asked for, but node {this_node()} has {size.vcpus:g}"
    if resources.memory_mib > size.memory_mib:
        return (
            f"{resources.memory_mib:,.0f} MiB of memory asked for, but node {this_node()} has "
            f"{size.memory_mib:,.0f} MiB; ask for less, or start a larger node"
        )
    return ""
