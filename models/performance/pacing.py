"""How fast an emulated GPU takes its batches.

The pace belongs to a trial's identity, so it must never change under a user: it comes from the
model that ships and from data sheets that ship with it, whatever was fitted since.
"""

from __future__ import annotations

from functools import cache

from advisor.domain import Gpu, Precision, Task, Workload
from advisor.errors import unknown_name
from models.performance.bundled import read_bundled
from models.performance.persistence import load_model
from models.performance.step_work import chip


def published_step_seconds(
    network: str, task: Task, precision: Precision, batch_size: int, gpu: str
) -> float:
    """Seconds of one step of a workload on a GPU named as in the catalogue or short (`A100`).

    To four digits, so that all machines agree. `UsageError` for an unknown GPU or network.
    """
    workload = Workload(network=network, task=task, precision=precision, batch_size=batch_size)
    return load_model().published_step_seconds(workload, paced_gpu(gpu))


def paced_gpu(name: str) -> Gpu:
    """The data sheet that paces `emulated:<name>`; a short name takes the first of its chip."""
    gpus = _gpus()
    wanted = name.strip().lower()
    by_name = {key.lower(): gpu for key, gpu in gpus.items()}
    by_chip = {chip(key).lower(): gpu for key, gpu in reversed(list(gpus.items()))}
    found = by_name.get(wanted) or by_chip.get(wanted)
    if found is None:
        raise unknown_name("GPU", name, gpus)
    return found


@cache
def _gpus() -> dict[str, Gpu]:
    from models.performance.published import read_gpus  # only an emulated GPU has a pace

    return read_gpus(read_bundled("gpus.csv"))
