"""Joins files that users measured with the performance model: one question's own model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from advisor.answers.asked_anchors import Asked, anchors_of
from advisor.answers.gpu_sheets import sheet_of
from advisor.catalog import Catalog
from advisor.domain import Observation, Task, Workload
from advisor.domain.workload import is_own
from advisor.errors import AdvisorError, UsageError, one_line
from models.performance import PerformanceModel
from models.performance.anchoring import (
    STAND_IN,
    OwnSizes,
    OwnTable,
    facts_of_own,
    kernels_from,
    peaks_of,
)
from models.performance.memory import has_memory, needed_card_mib
from models.performance.networks import NetworkFacts
from sweeps.anchors.files import read_anchor
from sweeps.anchors.records import AnchorFile, RefusedRow

_MOST_NAMED = 3


class Anchored(NamedTuple):
    """A performance model that knows a user's measurements, and the warnings of its answers."""

    model: PerformanceModel
    warnings: tuple[str, ...]


def anchored_model(
    model: PerformanceModel, catalog: Catalog, asked: Asked, files: Sequence[Path]
) -> Anchored:
    """The model for a question with anchors, or on a network of the user's own.

    Without either it is the model itself. Raises `UsageError` for a file that is no anchor, one
    of another network, task or precision, on another device or software, or that contradicts
    itself; for a GPU without a data sheet; and for an own network that torch cannot follow.
    """
    if asked.task is Task.PREPROCESSING and files:
        raise UsageError(
            "an anchor is of a GPU, and preprocessing uses none",
            hint="leave it out",
            field="anchor",
        )
    if not files:
        return _without_anchors(model, asked)
    read = [
        read_anchor(path, lambda name: sheet_of(name, catalog.gpus), asked.precision)
        for path in files
    ]
    warnings = [f"{one.origin} does not count: {one.reason}" for one in _told(read)]
    known = model.table.knows(asked.network)
    facts = None if known else _own_facts(asked, read, warnings)
    anchors = anchors_of(model, asked, read, facts)
    needed = _memory(asked, anchors, warnings) if facts else None
    if facts and facts.stand_in:
        model = _of_any_network(model, catalog, facts)
    return Anchored(_conditioned(model, anchors, facts, needed, warnings), tuple(_few(warnings)))


def _conditioned(
    model: PerformanceModel,
    anchors: Sequence[Observation],
    facts: NetworkFacts | None,
    needed: Callable[[Workload], float] | None,
    warnings: list[str],
) -> PerformanceModel:
    """The model that knows the anchors, too; warns of those that contradict what else is known."""
    table = OwnTable(model.table, facts) if facts else model.table
    warnings += [
        f"{one.origin} (batch {one.workload.batch_size} on {one.gpu.name}) contradicts the other "
        "anchors, or the model; was the GPU shared, throttled, or waiting for its host?"
        for one in model.step_times.contradicting(anchors, table)
    ]
    step_times = model.step_times.condition(anchors, table)
    return replace(model, table=table, step_times=step_times, card_mib_of=needed)


def _of_any_network(
    model: PerformanceModel, catalog: Catalog, facts: NetworkFacts
) -> PerformanceModel:
    step_times = model.step_times.of_any_network(facts, catalog.cards)
    return replace(model, step_times=step_times)


def _without_anchors(model: PerformanceModel, asked: Asked) -> Anchored:
    if not is_own(asked.network) or asked.task is Task.PREPROCESSING:
        return Anchored(model, ())
    from advisor.answers.measuring import checked_reference
    from advisor.answers.own_networks import captured_facts, traced_memory

    own = captured_facts(checked_reference(asked.network), asked.task)
    needed = traced_memory(asked.network, asked.task, asked.precision)
    unmeasured = replace(model, table=OwnTable(model.table, own), card_mib_of=needed)
    note = f"{own.name} was never measured: advisor measure and --anchor make its rates surer"
    return Anchored(unmeasured, (note,))


def _told(files: Sequence[AnchorFile]) -> Iterator[RefusedRow]:
    return (row for file in files for row in file.refused if row.is_notable)


def _own_facts(asked: Asked, files: Sequence[AnchorFile], warnings: list[str]) -> NetworkFacts:
    """Facts of a network that the model has none of: the anchor's, else captured here."""
    name = asked.network
    told = [file.input_shape for file in files if file.input_shape]
    shape = next(iter(told), None)
    for file in files:
        kernels = kernels_from(file.captured, str(file.path))
        if asked.task in kernels:
            return facts_of_own(name, OwnSizes(input_shape=shape), kernels)
    if is_own(name):
        from advisor.answers.own_networks import captured_facts

        try:
            return captured_facts(name, asked.task)
        except UsageError as error:
            warnings.append(f"{error}; its anchor alone answers")
    warnings.append(
        f"what {name} computes is not known: GPUs are told apart as {STAND_IN} would tell them, so "
        "intervals are wide"
    )
    if shape is None:
        warnings.append(f"the input of {name} is not known: images of 224 pixels are assumed")
    return facts_of_own(name, OwnSizes(input_shape=shape), {})


def _memory(
    asked: Asked, anchors: Sequence[Observation], warnings: list[str]
) -> Callable[[Workload], float]:
    """GPU memory of a network without rates: traced for the zoo's, else as its anchor saw it,
    else traced now, else unknown."""
    if has_memory(asked.network):
        return needed_card_mib
    seen = peaks_of(anchors)
    if not seen.peaks and is_own(asked.network):
        from advisor.answers.own_networks import traced_memory

        try:
            return traced_memory(asked.network, asked.task, asked.precision)
        except AdvisorError as error:
            warnings.append(str(error))
    if not seen.peaks:
        warnings.append(
            f"the GPU memory of {asked.network} is not known: nothing is rejected for it"
        )
    return seen.needed_card_mib


def _few(warnings: Sequence[str]) -> list[str]:
    distinct = list(dict.fromkeys(map(one_line, warnings)))
    more = len(distinct) - 2 * _MOST_NAMED
    kept = distinct[: 2 * _MOST_NAMED]
    return [*kept, f"and {more} more of the kind"] if more > 0 else kept
