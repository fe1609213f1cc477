"""Conditions the performance model on a user's measurements (anchors), for one question."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.catalog.gpus import sheet_of
from advisor.domain import Observation, Precision, Task, Workload
from advisor.domain.workload import is_own_code
from advisor.errors import AdvisorError, UsageError, one_line
from advisor.messages import FieldName, Message
from advisor.models.performance import PerformanceModel
from advisor.models.performance.memory.peak import needed_card_mib
from advisor.models.performance.memory.steps import has_memory
from advisor.models.performance.networks import NetworkFacts, bundled_networks
from advisor.models.performance.own_networks import STAND_IN, facts_of_own, kernels_from, peaks_of
from advisor.models.performance.step_times import fastest_seconds, is_same_card
from advisor.questions.network import NetworkQuestion
from advisor.sweeps.anchors import AnchorFile, read_anchor


class Anchored(NamedTuple):
    """A performance model conditioned on a user's measurements, warnings for its answers, and the measured
    workload with the highest rate (None where nothing was measured)."""

    model: PerformanceModel
    warnings: tuple[Message, ...]
    fastest: Workload | None = None


def anchored_model(model: PerformanceModel, catalog: Catalog, question: NetworkQuestion) -> Anchored:
    """The model conditioned on the question's anchors, and on what torch traces of a user's network. It is
    `model` itself where there is neither. Raises `UsageError` for a file that is no anchor, one of another
    network, task, precision, device or software, or that contradicts itself; for a GPU without a data sheet;
    and for a user's network that torch cannot trace."""
    if question.task is Task.PREPROCESSING and question.anchor:
        raise UsageError(
            "an anchor is of a GPU, and preprocessing uses none", hint="leave it out", field="anchor"
        )
    if not question.anchor:
        return _without_anchors(model, question)
    sheets = partial(sheet_of, sheets=catalog.gpus)
    read = [read_anchor(path, sheets, question.precision or Precision.FP32) for path in question.anchor]
    warnings = [
        Message("{origin} does not count: {reason}", origin=row.origin, reason=one_line(row.reason))
        for file in read
        for row in file.refused
        if row.is_notable
    ]
    scaling = tuple(row for file in read for row in file.scaling)
    model = replace(model, scaling_rows=scaling)
    known = model.table.knows(question.network)
    if (
        scaling
        and known
        and question.task is Task.TRAINING
        and not any(file.observations or file.refused for file in read)
    ):
        return Anchored(model, tuple(_shortened(warnings)))
    facts = None if known else _own_facts(question, read, warnings)
    anchors = anchors_of(model, question, read, facts)
    needed = _memory_function(question, anchors, warnings) if facts else None
    if facts and facts.stand_in:
        model = replace(model, step_times=model.step_times.of_any_network(facts, catalog.cards))
    known_model = _conditioned(model, anchors, facts, needed, warnings)
    fastest = min(anchors, key=lambda anchor: anchor.seconds / anchor.workload.batch_size).workload
    return Anchored(known_model, tuple(_shortened(warnings)), fastest)


def _conditioned(
    model: PerformanceModel,
    anchors: Sequence[Observation],
    facts: NetworkFacts | None,
    needed: Callable[[Workload], float] | None,
    warnings: list[Message],
) -> PerformanceModel:
    """The model conditioned on the anchors; adds warnings about anchors that contradict the other data."""
    table = bundled_networks().with_own(facts) if facts else model.table
    warnings += [
        Message(
            "{origin} (batch {batch} on {gpu}) contradicts the other anchors, or the model; was "
            "the GPU shared, throttled, or waiting for its host?",
            origin=anchor.origin,
            batch=anchor.workload.batch_size,
            gpu=anchor.gpu.name,
        )
        for anchor in model.step_times.contradicting(anchors, table)
    ]
    step_times = model.step_times.condition(anchors, table)
    return replace(model, table=table, step_times=step_times, card_mib_of=needed)


def _without_anchors(model: PerformanceModel, question: NetworkQuestion) -> Anchored:
    if not is_own_code(question.network) or question.task is Task.PREPROCESSING:
        return Anchored(model, ())
    from advisor.answers.measuring import checked_reference
    from advisor.answers.own_networks import captured_facts, traced_memory

    own = captured_facts(checked_reference(question.network), question.task)
    needed = traced_memory(question.network, question.task, question.precision or Precision.FP32)
    unmeasured = replace(model, table=bundled_networks().with_own(own), card_mib_of=needed)
    note = Message(
        "{network} was never measured: `advisor measure` and {anchor} narrow its intervals",
        network=own.name,
        anchor=FieldName("anchor"),
    )
    return Anchored(unmeasured, (note,))


def _own_facts(
    question: NetworkQuestion, files: Sequence[AnchorFile], warnings: list[Message]
) -> NetworkFacts:
    """Facts of a network that is missing in the table: from its anchor, else traced with torch."""
    name = question.network
    shape = next((file.input_shape for file in files if file.input_shape), None)
    for file in files:
        kernels = kernels_from(file.captured, str(file.path))
        if question.task in kernels:
            return facts_of_own(name, kernels, input_shape=shape)
    if is_own_code(name):
        from advisor.answers.own_networks import captured_facts

        try:
            return captured_facts(name, question.task)
        except UsageError as error:
            warnings.append(Message("{error}; its anchor alone answers", error=error.message))
    warnings.append(
        Message(
            "what {network} computes is not known: GPUs compare as they do for {other}, so "
            "intervals are wide",
            network=name,
            other=STAND_IN,
        )
    )
    if shape is None:
        warnings.append(
            Message("the input of {network} is not known: images of 224 pixels are assumed", network=name)
        )
    return facts_of_own(name, {}, input_shape=shape)


def _memory_function(
    question: NetworkQuestion, anchors: Sequence[Observation], warnings: list[Message]
) -> Callable[[Workload], float]:
    """The function from a workload to the card memory in MiB that it needs, by table, anchors or a trace."""
    if has_memory(question.network):
        return needed_card_mib
    seen = peaks_of(anchors)
    if not seen.peaks and is_own_code(question.network):
        from advisor.answers.own_networks import traced_memory

        try:
            return traced_memory(question.network, question.task, question.precision or Precision.FP32)
        except AdvisorError as error:
            warnings.append(Message("{error}", error=error.message))
    if not seen.peaks:
        warnings.append(
            Message(
                "the GPU memory of {network} is not known: nothing is rejected for it",
                network=question.network,
            )
        )
    return seen.needed_card_mib


def _shortened(warnings: Sequence[Message]) -> list[Message]:
    distinct = list(dict.fromkeys(warnings))
    more = len(distinct) - 2 * _MOST_NAMED
    kept = distinct[: 2 * _MOST_NAMED]
    return [*kept, Message("and {count} more of the kind", count=more)] if more > 0 else kept


_MOST_NAMED = 3
# Two measurements of the same step that differ by a larger factor contradict each other.
_SAME_STEP_FACTOR = 1.5


def anchors_of(
    model: PerformanceModel,
    question: NetworkQuestion,
    files: Sequence[AnchorFile],
    facts: NetworkFacts | None,
) -> list[Observation]:
    """The anchor rows (at least one) of the question's workload, renamed to its network. `facts` are given
    for a network that is missing in the table. Raises `UsageError` where no row fits, for a step faster than
    its GPU can compute, and for two contradictory measurements of one step."""
    rows = [row for file in files for row in _rows_of_network(file, question, model)]
    fitting = [
        row
        for row in rows
        if row.workload.task is question.task and question.precision in (None, row.workload.precision)
    ]
    if not fitting:
        raise _no_anchor_error(question, files, rows)
    anchors = [_renamed(row, question.network, is_own=facts is not None) for row in fitting]
    for anchor in anchors:
        _refuse_impossible(anchor, facts or model.table.of(anchor.workload))
    _refuse_contradictions(anchors)
    return anchors


def _refuse_impossible(anchor: Observation, facts: NetworkFacts) -> None:
    """Raises `UsageError` for a step faster than its GPU can compute, where the operations are known."""
    workload = anchor.workload
    if workload.task not in facts.kernels:
        return
    least = fastest_seconds(anchor, facts)
    if anchor.seconds < least:
        raise UsageError(
            "{origin}: {seconds:.3g} s for batch {batch} of {network} is faster than {gpu} can "
            "compute ({least:.3g} s)",
            origin=anchor.origin,
            seconds=anchor.seconds,
            batch=workload.batch_size,
            network=workload.network,
            gpu=anchor.gpu.name,
            least=least,
            field="anchor",
            hint="time steps with torch.cuda.synchronize() after each, as advisor measure does",
        )


def _renamed(row: Observation, network: str, *, is_own: bool) -> Observation:
    """The row under the question's name of the network; a user's network has only one input size."""
    size = None if is_own else row.workload.input
    return replace(row, workload=replace(row.workload, network=network, input=size))


def _rows_of_network(
    file: AnchorFile, question: NetworkQuestion, model: PerformanceModel
) -> Iterator[Observation]:
    """The file's rows of the network, by name; a user's network matches the only unknown one in the file."""
    names = {row.workload.network for row in file.observations} - {""}
    own = {name for name in names if not model.table.knows(name)}
    is_builtin = model.table.knows(question.network)
    for row in file.observations:
        name = row.workload.network
        named = name.casefold() in ("", question.network.casefold())
        if named or (not is_builtin and own == {name}):
            yield row


def _no_anchor_error(
    question: NetworkQuestion, files: Sequence[AnchorFile], rows: Sequence[Observation]
) -> UsageError:
    names = tuple(str(file.path) for file in files)
    measured = [row.workload for row in rows or [row for file in files for row in file.observations]]
    if measured:
        return UsageError(
            "no anchor in {files} is of {network} {task} in {precision}, but of {others}",
            files=names,
            network=question.network,
            task=question.task,
            precision=question.precision or "any precision",
            others=sorted({f"{other.network} {other.task} in {other.precision}" for other in measured}),
            field="anchor",
            hint="ask for what they are of",
        )
    reasons = list(dict.fromkeys(row.reason for file in files for row in file.refused))
    return UsageError(
        "nothing in {files} can be an anchor: {why}",
        files=names,
        field="anchor",
        why="; ".join(reasons[:_MOST_NAMED]) or Message("nothing was measured in it"),
    )


def _refuse_contradictions(anchors: Sequence[Observation]) -> None:
    """Refuses anchors that contradict each other: the same step at 1 and at 1.5 times the seconds."""
    for i, anchor in enumerate(anchors):
        for other in anchors[:i]:
            if anchor.workload != other.workload or not is_same_card(anchor.gpu, other.gpu):
                continue
            fast, slow = sorted((anchor, other), key=lambda anchor: anchor.seconds)
            if slow.seconds > _SAME_STEP_FACTOR * fast.seconds:
                raise UsageError(
                    "anchors contradict each other: batch {batch} on {gpu} takes {fast:.3g} s in "
                    "{fast_origin} and {slow:.3g} s in {slow_origin}",
                    batch=anchor.workload.batch_size,
                    gpu=anchor.gpu.name,
                    fast=fast.seconds,
                    fast_origin=fast.origin,
                    slow=slow.seconds,
                    slow_origin=slow.origin,
                    field="anchor",
                    hint="leave the wrong one out",
                )
