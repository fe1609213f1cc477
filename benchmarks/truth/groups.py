"""What a measured step belongs to, told alike of a row to score and of a row of the fit."""

from __future__ import annotations

from advisor.domain import Gpu, Task
from advisor.infra.build.fitting.observations import MeasuredStep
from advisor.models.performance.step_times import arithmetic_of, chip
from benchmarks.truth.asking import Asked, RefusalError
from benchmarks.truth.rows import Row

# A step of fewer seconds a kernel is as long as its launching takes: it tells of a source's host.
_LAUNCH_SECONDS = 50e-6


def is_gpu_bound(asked: Asked, row: Row) -> bool:
    """Whether a step takes longer than launching its kernels, one by one, on a slow host."""
    facts = asked.facts(row)
    rows = facts.kernels.get(Task(row.task)) if facts else None
    if rows is None or row.seconds is None:
        return True
    return row.seconds > _LAUNCH_SECONDS * float(rows["count"].sum(dtype=float))


def groups(asked: Asked, row: Row) -> dict[str, str]:
    """What the row belongs to, by each kind of group. Cards of one chip are one GPU."""
    facts = asked.facts(row)
    found = _groups(
        facts.key if facts else row.network,
        facts.family if facts else "unknown",
        row.precision,
        row.task,
        _gpu(asked, row.gpu) or row.gpu,
    )
    found["cell"] += f" {facts.input_bytes:g}" if facts else f" {row.input}"
    found["batch"] = f"{found['cell']} @ {row.batch_size}"
    found["source"] = _source(row.source)
    found["bound"] = "GPU" if is_gpu_bound(asked, row) else "host"
    return found


def groups_of_fit(row: MeasuredStep) -> dict[str, str]:
    """As `groups`, of a row that the predictor learns from."""
    step = row.cell.step
    how = step.conditions
    found = _groups(row.cell.network, row.family, how.precision, how.task, how.gpu)
    found["cell"] += f" {step.input_bytes:g}"
    found["batch"] = f"{found['cell']} @ {step.batch_size:g}"
    found["source"] = _source(row.source)
    return found


def _groups(network: str, family: str, precision: str, task: str, gpu: Gpu | str) -> dict[str, str]:
    name = gpu if isinstance(gpu, str) else chip(gpu.name)
    sheet = gpu if isinstance(gpu, str) else gpu.name
    return {
        "network": network,
        "family": family,
        "gpu": name,
        "precision": precision,
        "gpu+precision": f"{name} {arithmetic_of(precision)}",
        "architecture": "unknown" if isinstance(gpu, str) else gpu.architecture,
        "family+gpu": f"{family} on {name}",
        "task": task,
        "cell": f"{network} {task} {precision} {sheet}",
    }


def _source(name: str) -> str:
    return name.partition("-v")[0] if name.startswith("mlperf") else name


def _gpu(asked: Asked, name: str) -> Gpu | None:
    try:
        return asked.gpu(name)
    except RefusalError:
        return None
