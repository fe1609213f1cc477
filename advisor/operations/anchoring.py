"""Joins files that users measured with the performance model: one question's own model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.catalog import Catalog
from advisor.domain import Gpu, Precision, Task, Workload
from advisor.errors import AdvisorError, UsageError
from advisor.operations.gpu_sheets import sheet_of
from models.performance import PerformanceModel
from models.performance.anchoring import (
    GpuTrial,
    OwnSizes,
    OwnTable,
    anchored_model,
    facts_of_own,
    operations_from,
    peaks_of,
)
from models.performance.anchoring.plausible import fastest_seconds
from models.performance.anchoring.records import is_same_card
from models.performance.networks import NetworkFacts
from models.zoo.networks import NETWORKS
from models.zoo.own import is_own
from sweeps.anchors import AnchorFile, AnchorRow, RefusedRow, read_anchor

# Two measurements of the very same step that differ by more are not of the same thing.
_SAME_STEP_FACTOR = 1.5
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the anchors must be of. `network` is a name, or `path/file.py:build`."""

    network: str
    task: Task
    precision: Precision

    @property
    def workload(self) -> Workload:
        """Any workload of it: the batch does not matter."""
        return Workload(
            network=self.network, task=self.task, batch_size=1, precision=self.precision
        )


@dataclass(frozen=True, slots=True)
class Heard:
    """The model that answers, and what must be said with its answer."""

    model: PerformanceModel
    warnings: tuple[str, ...]


def heard_model(
    model: PerformanceModel, catalog: Catalog, asked: Asked, files: Sequence[Path]
) -> Heard:
    """The model for a question with anchors, or on a network of the user's own.

    Without either it is the model itself. Raises `UsageError` for a file that is no anchor, one
    of another network, task or precision, on another device or software, or that contradicts
    itself; for a GPU without a data sheet; and for an own network that torch cannot follow.
    """
    if asked.task is Task.PREPROCESSING and files:
        raise UsageError("--anchor tells of GPUs, and preprocessing uses none; leave it out")
    if not files:
        return _without_anchors(model, asked)
    read = [read_anchor(path) for path in files]
    warnings = [f"{one.origin} does not count: {one.reason}" for one in _told(read)]
    facts = None if asked.network in model.networks else _own_facts(model, asked, read, warnings)
    trials = _trials(model, catalog, asked, read, facts)
    _refuse_contradictions(trials)
    needed = _memory(asked, trials, warnings) if facts else None
    changed, heard = anchored_model(model, asked.workload, trials, facts, needed)
    warnings += [
        f"{trial.origin} (batch {trial.batch_size} on {trial.gpu.name}) contradicts the other "
        "anchors, or the model; intervals are wider for it"
        for trial in heard.contradicting
    ]
    return Heard(changed, tuple(_few(warnings)))


def _without_anchors(model: PerformanceModel, asked: Asked) -> Heard:
    if not is_own(asked.network) or asked.task is Task.PREPROCESSING:
        return Heard(model, ())
    from advisor.operations.measuring import checked_reference
    from advisor.operations.own_networks import captured_facts, traced_memory

    own = captured_facts(checked_reference(asked.network), asked.task)
    needed = traced_memory(asked.network, asked.task, asked.precision)
    names = (*model.networks, own.name)
    table = OwnTable(model.table, own)
    unmeasured = replace(model, networks=names, table=table, card_mib_of=needed)
    note = f"{own.name} was never measured: advisor measure and --anchor make its rates surer"
    return Heard(unmeasured, (note,))


def _told(files: Sequence[AnchorFile]) -> Iterator[RefusedRow]:
    return (row for file in files for row in file.refused if row.is_told)


def _own_facts(
    model: PerformanceModel, asked: Asked, files: Sequence[AnchorFile], warnings: list[str]
) -> NetworkFacts:
    """Facts of a network that the model has none of: the anchor's, else captured here."""
    name, classes = asked.network, model.table.operation_classes
    if name in NETWORKS and not NETWORKS[name].takes_images:
        raise UsageError(f"{name} takes words, and only networks of images can be recommended for")
    shape = next((file.input_shape for file in files if file.input_shape), None)
    for file in files:
        operations = operations_from(file.captured, classes, str(file.path))
        if asked.task in operations:
            return facts_of_own(name, OwnSizes(input_shape=shape), operations)
    if is_own(name):
        from advisor.operations.own_networks import captured_facts

        try:
            return captured_facts(name, asked.task)
        except UsageError as error:
            warnings.append(f"{error}; its anchor alone answers")
    warnings.append(
        f"what {name} computes is not known: it may be like any network, so intervals are wide"
    )
    if shape is None:
        warnings.append(f"the input of {name} is not known: images of 224 pixels are assumed")
    return facts_of_own(name, OwnSizes(input_shape=shape), {})


def _memory(
    asked: Asked, trials: Sequence[GpuTrial], warnings: list[str]
) -> Callable[[Workload], float]:
    """GPU memory of an own network: as its anchor saw it, else traced, else unknown."""
    seen = peaks_of(trials)
    if not seen.peaks and is_own(asked.network):
        from advisor.operations.own_networks import traced_memory

        try:
            return traced_memory(asked.network, asked.task, asked.precision)
        except AdvisorError as error:
            warnings.append(str(error))
    if not seen.peaks:
        warnings.append(
            f"the GPU memory of {asked.network} is not known: nothing is rejected for it"
        )
    return seen.needed_card_mib


def _trials(
    model: PerformanceModel,
    catalog: Catalog,
    asked: Asked,
    files: Sequence[AnchorFile],
    facts: NetworkFacts | None,
) -> list[GpuTrial]:
    rows = [row for file in files for row in _of_network(file, asked, model)]
    fitting = [row for row in rows if _is_asked(row, asked)]
    if not fitting:
        raise UsageError(_why_none(asked, files, rows))
    known = facts or model.table[asked.network]
    trials = [_trial(row, asked, _known_gpu(model, catalog, row)) for row in fitting]
    operations = known.operations.get(asked.task)
    for trial in trials if operations else ():
        assert operations is not None
        least = fastest_seconds(operations, trial.precision, trial.gpu, trial.batch_size)
        if trial.step_seconds < least:
            raise UsageError(
                f"{trial.origin}: {trial.step_seconds:.3g} s for batch {trial.batch_size} of "
                f"{asked.network} is faster than {trial.gpu.name} can compute ({least:.3g} s); "
                "time steps with torch.cuda.synchronize() after each, as advisor measure does"
            )
    return trials


def _of_network(file: AnchorFile, asked: Asked, model: PerformanceModel) -> Iterator[AnchorRow]:
    """Rows of the network: by name, or, where it is the user's own, of the one own network that
    the file has."""
    own = {row.network for row in file.rows if row.network and row.network not in NETWORKS}
    is_builtin = asked.network in model.networks or asked.network in NETWORKS
    for row in file.rows:
        named = row.network.casefold() in ("", asked.network.casefold())
        if named or (not is_builtin and own == {row.network}):
            yield row


def _is_asked(row: AnchorRow, asked: Asked) -> bool:
    return row.task is asked.task and row.precision in (None, asked.precision)


def _why_none(asked: Asked, files: Sequence[AnchorFile], rows: Sequence[AnchorRow]) -> str:
    """What the files have instead, and which option would meet it."""
    names = ", ".join(str(file.path) for file in files)
    if rows:
        has = sorted({f"--task {r.task} --precision {r.precision}" for r in rows})
        return (
            f"no anchor in {names} is of {asked.task} in {asked.precision}; there are: "
            f"{'; '.join(has)}"
        )
    others = sorted({row.network for file in files for row in file.rows})
    if others:
        return f"no anchor in {names} is of {asked.network}, but of {', '.join(others)}; " \
               "name that with --model"  # fmt: skip
    reasons = list(dict.fromkeys(row.reason for file in files for row in file.refused))
    return f"nothing in {names} can be an anchor: {'; '.join(reasons[:_MOST_NAMED])}"


def _known_gpu(model: PerformanceModel, catalog: Catalog, row: AnchorRow) -> Gpu:
    """The data sheet, under the name by which the model knows the card."""
    gpu = sheet_of(row.gpu_name, catalog.gpus)
    rates = model.gpu_rates
    known = {name.casefold(): name for name in rates.chips | rates.other_chips}
    return replace(gpu, name=known.get(gpu.name.casefold(), gpu.name))


def _trial(row: AnchorRow, asked: Asked, gpu: Gpu) -> GpuTrial:
    return GpuTrial(
        task=row.task,
        precision=row.precision or asked.precision,
        batch_size=row.batch_size,
        step_seconds=row.step_seconds,
        gpu=gpu,
        peak_mib=row.peak_mib,
        origin=row.origin,
    )


def _refuse_contradictions(trials: Sequence[GpuTrial]) -> None:
    """The same step on the same card cannot take 1 and 1.5 times as long."""
    for i, one in enumerate(trials):
        for other in trials[:i]:
            if one.batch_size != other.batch_size or not is_same_card(one.gpu, other.gpu):
                continue
            fast, slow = sorted((one, other), key=lambda trial: trial.step_seconds)
            if slow.step_seconds > _SAME_STEP_FACTOR * fast.step_seconds:
                raise UsageError(
                    f"anchors contradict each other: batch {one.batch_size} on {one.gpu.name} "
                    f"takes {fast.step_seconds:.3g} s in {fast.origin} and "
                    f"{slow.step_seconds:.3g} s in {slow.origin}; leave the wrong one out"
                )


def _few(warnings: Sequence[str]) -> list[str]:
    distinct = list(dict.fromkeys(warnings))
    more = len(distinct) - 2 * _MOST_NAMED
    kept = distinct[: 2 * _MOST_NAMED]
    return [*kept, f"and {more} more of the kind"] if more > 0 else kept
