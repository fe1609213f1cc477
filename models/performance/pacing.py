"""How fast an emulated GPU takes its batches.

The pace belongs to a trial's identity, so it must never change under a user: it comes from the
model that ships and from data sheets that ship with it, whatever was fitted since.
"""

from __future__ import annotations

from functools import cache

from advisor.domain import Gpu, Precision, Task, Workload
from advisor.domain.machines import gpu_of_row
from advisor.domain.workload import is_own
from advisor.errors import UsageError, unknown_name
from advisor.messages import FieldName, Message
from advisor.models.performance.bundled import read_data_sheets
from advisor.models.performance.persistence import load_model


def published_step_seconds(
    network: str, task: Task, precision: Precision, batch_size: int, gpu: str
) -> float:
    """Seconds of one step of a workload on a GPU named as in the catalogue or short (`A100`).

    To four digits, so that all machines agree. `UsageError` for an unknown GPU or network.
    """
    if is_own(network):
        raise UsageError(
            "nobody published how fast {network} is: {gpu} cannot be emulated for it",
            network=network,
            gpu=gpu,
            field="accelerator",
            hint=Message(
                "give {accelerator} cpu, or cuda:{gpu} where one is",
                accelerator=FieldName("accelerator"),
                gpu=gpu,
            ),
        )
    workload = Workload(network=network, task=task, precision=precision, batch_size=batch_size)
    return load_model().published_step_seconds(workload, paced_gpu(gpu))


def paced_gpu(name: str) -> Gpu:
    """The data sheet that paces `emulated:<name>`; a short name takes the usual card."""
    from advisor.domain.gpu_names import gpus_named  # few answers are about an emulated GPU

    gpus = _gpus()
    result = gpus_named(name, gpus)
    if not result:
        raise unknown_name("GPU", name, gpus)
    return gpus[result[0]]


@cache
def _gpus() -> dict[str, Gpu]:
    import csv
    import io

    rows = csv.DictReader(io.StringIO(read_data_sheets()))
    return {row["name"]: gpu_of_row(row) for row in rows}
