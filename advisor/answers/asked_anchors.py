"""Which rows of users' files are anchors of a question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from advisor.domain import Observation, Precision, Task
from advisor.errors import UsageError
from advisor.records import replace
from models.performance import PerformanceModel
from models.performance.anchoring.plausible import fastest_seconds
from models.performance.network_table import Rows
from models.performance.networks import NetworkFacts
from models.performance.step_times import is_same_card
from sweeps.anchors.records import AnchorFile

# Two measurements of the very same step that differ by more are not of the same thing.
_SAME_STEP_FACTOR = 1.5
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the anchors must be of. `network` is a name, or `path/file.py:build`."""

    network: str
    task: Task
    precision: Precision


def anchors_of(
    model: PerformanceModel,
    asked: Asked,
    files: Sequence[AnchorFile],
    facts: NetworkFacts | None,
) -> list[Observation]:
    """The rows of the files that answer the question, one or more, under its network's name.

    `facts` are those of a network that the model has none of. Raises `UsageError` where no row
    answers, for a step faster than its GPU, and two of one step that cannot both be true.
    """
    rows = [row for file in files for row in _of_network(file, asked, model)]
    fitting = [row for row in rows if _is_asked(row, asked)]
    if not fitting:
        raise UsageError(_why_none(asked, files, rows), field="anchor")
    anchors = [_named(row, asked.network, is_own=facts is not None) for row in fitting]
    for one in anchors:
        known = facts or model.table.of(one.workload)
        refuse_impossible(one, known.kernels.get(asked.task))
    _refuse_contradictions(anchors)
    return anchors


def refuse_impossible(one: Observation, operations: Rows | None) -> None:
    """Raises `UsageError` for a step that nothing can compute so fast; unknown operations refuse
    nothing."""
    if operations is None:
        return
    workload = one.workload
    least = fastest_seconds(operations, workload.precision, one.gpu, workload.batch_size)
    if one.seconds < least:
        raise UsageError(
            "{origin}: {seconds:.3g} s for batch {batch} of {network} is faster than {gpu} can "
            "compute ({least:.3g} s)",
            origin=one.origin, seconds=one.seconds, batch=workload.batch_size,
            network=workload.network, gpu=one.gpu.name, least=least, field="anchor",
            hint="time steps with torch.cuda.synchronize() after each, as advisor measure does",
        )  # fmt: skip


def _named(row: Observation, network: str, *, is_own: bool) -> Observation:
    """The row under the question's name; an own network has one input."""
    at = None if is_own else row.workload.input
    return replace(row, workload=replace(row.workload, network=network, input=at))


def _of_network(file: AnchorFile, asked: Asked, model: PerformanceModel) -> Iterator[Observation]:
    """Rows of the network: by name, or, where it is the user's own, of the one own network that
    the file has."""
    names = {row.workload.network for row in file.observations} - {""}
    own = {name for name in names if not model.table.knows(name)}
    is_builtin = model.table.knows(asked.network)
    for row in file.observations:
        name = row.workload.network
        named = name.casefold() in ("", asked.network.casefold())
        if named or (not is_builtin and own == {name}):
            yield row


def _is_asked(row: Observation, asked: Asked) -> bool:
    return row.workload.task is asked.task and row.workload.precision is asked.precision


def _why_none(asked: Asked, files: Sequence[AnchorFile], rows: Sequence[Observation]) -> str:
    """What the files have instead, and which option would meet it."""
    names = ", ".join(str(file.path) for file in files)
    if rows:
        has = sorted({f"--task {r.workload.task} --precision {r.workload.precision}" for r in rows})
        return (
            f"no anchor in {names} is of {asked.task} in {asked.precision}; there are: "
            f"{'; '.join(has)}"
        )
    others = sorted({row.workload.network for file in files for row in file.observations})
    if others:
        return f"no anchor in {names} is of {asked.network}, but of {', '.join(others)}; " \
               "name that with --model"  # fmt: skip
    reasons = list(dict.fromkeys(row.reason for file in files for row in file.refused))
    why = "; ".join(reasons[:_MOST_NAMED]) or "nothing was measured in it"
    return f"nothing in {names} can be an anchor: {why}"


def _refuse_contradictions(anchors: Sequence[Observation]) -> None:
    """The same step on the same card cannot take 1 and 1.5 times as long."""
    for i, one in enumerate(anchors):
        for other in anchors[:i]:
            if one.workload != other.workload or not is_same_card(one.gpu, other.gpu):
                continue
            fast, slow = sorted((one, other), key=lambda anchor: anchor.seconds)
            if slow.seconds > _SAME_STEP_FACTOR * fast.seconds:
                raise UsageError(
                    "anchors contradict each other: batch {batch} on {gpu} takes {fast:.3g} s in "
                    "{fast_origin} and {slow:.3g} s in {slow_origin}",
                    batch=one.workload.batch_size, gpu=one.gpu.name, fast=fast.seconds,
                    fast_origin=fast.origin, slow=slow.seconds, slow_origin=slow.origin,
                    field="anchor", hint="leave the wrong one out",
                )  # fmt: skip
