"""Finds the facts of a network that a plan needs, and the stored data that it reads; without torch."""

from __future__ import annotations

import math
import sys
from functools import cache

from msgspec import Struct

from advisor.domain import DatasetProfile, Task
from advisor.domain.workload import is_own_code
from advisor.errors import UsageError
from advisor.models.zoo.networks import Kind, NetworkInfo, is_read_as_photographs, network_info
from advisor.sweeps.trial.child import WorkerEnded, started_worker

_BYTES_PER_VALUE = 8  # word numbers are int64
# A user's file imports torch and may run any code, so a separate process describes its network.
_DESCRIBE = """
import sys
from advisor.records import asdict
from advisor.sweeps.trial.child import answer_parent
def described():
    from advisor.models.zoo.opening import open_network
    opened = open_network(sys.argv[1])
    opened.check()
    info, batches = asdict(opened.info), opened.makes_batches
    return {"info": info, "fingerprint": opened.fingerprint, "makes_batches": batches}
raise SystemExit(answer_parent(lambda: {"network": described()}))
"""


class PlannedNetwork(Struct, frozen=True, kw_only=True):
    """A network and its input: stored `photographs`, a stored `text`, or else batches made in memory."""

    info: NetworkInfo
    photographs: bool
    fingerprint: str = ""

    @property
    def text(self) -> bool:
        """Return whether its input is a stored text."""
        return self.info.kind is Kind.TEXT and not self.fingerprint

    @property
    def made_data(self) -> DatasetProfile:
        """The profile of a data set of a million rows, whose batches are made in memory."""
        each = self.info.samples_per_row
        return DatasetProfile(
            name="made-in-memory",
            samples=1_000_000 * each,
            bytes_per_sample=_BYTES_PER_VALUE * math.prod(self.info.input_shape) / each,
            storage_format="synthetic",
            width=1,
            height=1,
        )

    def refuse_impossible(self, task: Task, batch_size: int) -> None:
        """Raise `UsageError` for a task that the network does not have, or too small a batch."""
        name, tasks = self.info.name, self.info.tasks if self.photographs else _COMPUTED
        if task not in tasks:
            raise UsageError(
                f"{name} has no {task}: its input is stored ready to use",
                hint=f"ask for {' or '.join(tasks)}",
            )
        least = self.info.min_training_batch
        if task is Task.TRAINING and batch_size < least:
            raise UsageError(f"{name} trains on batches of {least} or more", hint="see --batch-sizes")


_COMPUTED = (Task.TRAINING, Task.INFERENCE)


def network_of_zoo(name: str) -> PlannedNetwork:
    """A network of the zoo. Raises `UsageError` with similar names for an unknown one."""
    info = network_info(name)
    return PlannedNetwork(info=info, photographs=is_read_as_photographs(info))


@cache
def planned_network(reference: str) -> PlannedNetwork:
    """A network of the zoo, or a user's network `path/to/file.py:build`, which is tried with two rows.

    Raises `UsageError` that says in one line what is wrong with the file."""
    if not is_own_code(reference):
        return network_of_zoo(reference)
    # -P: modules in the current folder must not shadow ours.
    with started_worker([sys.executable, "-P", "-c", _DESCRIBE, reference]) as worker:
        try:
            answer = worker.answer("network", math.inf)
        except WorkerEnded as error:
            raise UsageError(
                f"{reference} cannot be tried ({worker.last_output()})", hint="run it by itself"
            ) from error
    info = NetworkInfo(**{**answer["info"], "tasks": tuple(map(Task, answer["info"]["tasks"]))})
    photographs = is_read_as_photographs(info) and not answer["makes_batches"]
    return PlannedNetwork(info=info, photographs=photographs, fingerprint=answer["fingerprint"])


class StoredData(Struct, frozen=True):
    """A data set, and the path of its file or folder ("": made in memory)."""

    profile: DatasetProfile
    path: str = ""


class SweepData(Struct, frozen=True, kw_only=True):
    """The stored images and text that a sweep may read; None if there are none."""

    images: StoredData | None = None
    text: StoredData | None = None

    @property
    def stored(self) -> tuple[StoredData, ...]:
        """The data sets that are read from files."""
        return tuple(entry for entry in (self.images, self.text) if entry)

    def for_network(self, network: PlannedNetwork) -> StoredData:
        """The data that a network reads. Raises `UsageError` if it is missing."""
        if not (network.photographs or network.text):
            return StoredData(network.made_data)
        data = self.images if network.photographs else self.text
        if data is None:
            kind, wanted = ("images", "a folder of them") if network.photographs else ("text", "a text file")
            hint = f"name {wanted} with --data, or leave it out"
            raise UsageError(f"{network.info.name} reads {kind}", hint=hint)
        return data
