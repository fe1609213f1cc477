"""Which rows of users' files are anchors of a question, on which data sheets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from advisor.catalog import Catalog
from advisor.domain import Gpu, Precision, Task, Workload
from advisor.errors import UsageError
from advisor.operations.gpu_sheets import sheet_of
from models.performance import PerformanceModel
from models.performance.anchoring.plausible import fastest_seconds
from models.performance.network_table import Rows
from models.performance.networks import NetworkFacts
from models.performance.step_times import GpuTrial, is_same_card
from sweeps.anchors import AnchorFile, AnchorRow

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


def trials_of(
    model: PerformanceModel,
    catalog: Catalog,
    asked: Asked,
    files: Sequence[AnchorFile],
    facts: NetworkFacts | None,
) -> list[GpuTrial]:
    """The rows of the files that answer the question, one or more.

    `facts` are those of a network that the model has none of. Raises `UsageError` where no row
    answers, for a GPU without a data sheet, a step faster than its GPU, and two of one step
    that cannot both be true.
    """
    rows = [row for file in files for row in _of_network(file, asked, model)]
    fitting = [row for row in rows if _is_asked(row, asked)]
    if not fitting:
        raise UsageError(_why_none(asked, files, rows))
    known = facts or model.table[asked.network]
    trials = [_trial(row, asked, sheet_of(row.gpu_name, catalog.gpus)) for row in fitting]
    _refuse_impossible(trials, asked, known.kernels.get(asked.task))
    _refuse_contradictions(trials)
    return trials


def _refuse_impossible(trials: Sequence[GpuTrial], asked: Asked, operations: Rows | None) -> None:
    """Steps that nothing can compute so fast; unknown operations refuse nothing."""
    for trial in trials:
        if operations is None:
            return
        least = fastest_seconds(operations, trial.precision, trial.gpu, trial.batch_size)
        if trial.step_seconds < least:
            raise UsageError(
                f"{trial.origin}: {trial.step_seconds:.3g} s for batch {trial.batch_size} of "
                f"{asked.network} is faster than {trial.gpu.name} can compute ({least:.3g} s); "
                "time steps with torch.cuda.synchronize() after each, as advisor measure does"
            )


def _of_network(file: AnchorFile, asked: Asked, model: PerformanceModel) -> Iterator[AnchorRow]:
    """Rows of the network: by name, or, where it is the user's own, of the one own network that
    the file has."""
    own = {row.network for row in file.rows if row.network and not model.table.knows(row.network)}
    is_builtin = model.table.knows(asked.network)
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
    why = "; ".join(reasons[:_MOST_NAMED]) or "nothing was measured in it"
    return f"nothing in {names} can be an anchor: {why}"


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
