"""A network at one input, as the performance model needs it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

import numpy as np
from msgspec import Struct, field

from advisor.domain import DataKind, Task, Workload
from advisor.errors import UsageError
from advisor.models.network_columns import MemoryFacts
from advisor.models.performance.network_table import Rows, network_table

_FLOPS_PER_GMAC = 2e9


class NetworkFacts(Struct, frozen=True):
    """One network at one input: sizes in MiB (activations per sample, fp32), kernels by task.

    `input` is one sample's, as `3x224x224` or `seq:128`, `input_bytes` its size as it travels to the GPU in
    fp32; `sample` is what one is called, `data` what it is made of. `kernels` are rows of the network table,
    `memory` what a step keeps (None: unknown), `scaled` the input that the rows were captured at where they
    had to be scaled to this one. `stand_in` are rows of another network, for GPUs to be told apart by where
    its own are not known."""

    name: str
    input: str
    input_bytes: float
    parameters: int
    weight_tensors: int
    weight_mib: float
    saved_activation_mib: float
    largest_activation_mib: float
    kernels: Mapping[Task, Rows]
    sample: str = "image"
    data: DataKind = DataKind.IMAGE
    library: str = "torchvision"
    family: str = ""
    scaled: str = ""
    memory: MemoryFacts | None = None
    stand_in: Mapping[Task, Rows] = field(default_factory=dict)

    # A table has one record a network, and arrays have no hash.
    __hash__ = object.__hash__

    @property
    def key(self) -> str:
        """The name that its measurements are stored under: libraries' networks of one name share it."""
        return self.name.rpartition("/")[2]

    def step_rows(self, task: Task) -> Rows:
        """The kernels that a GPU's step is timed by; `KeyError` for a task it has none of."""
        return self.kernels[task] if task in self.kernels else self.stand_in[task]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The sizes in `input`; of tokens their number."""
        return tuple(map(int, re.findall(r"\d+", self.input.rpartition(":")[2])))

    @property
    def pixels(self) -> int:
        """Pixels of an image as the network takes it; 0 where it takes none."""
        if self.data is not DataKind.IMAGE:
            return 0
        return self.input_shape[-1] * self.input_shape[-2]

    @property
    def trains(self) -> bool:
        """Whether it has a training step; so it may where nothing is known of its steps."""
        return not self.kernels or Task.TRAINING in self.kernels

    @property
    def gmacs(self) -> float:
        """Multiply-accumulates of one sample's inference, in billions; 0 where unknown."""
        rows = self.kernels.get(Task.INFERENCE)
        if rows is None:
            return 0.0
        return float((rows["flops"].astype(float) * rows["count"]).sum()) / _FLOPS_PER_GMAC

    @property
    def has_channels(self) -> bool:
        """Whether its input has channels of two dimensions, so that they may lie last."""
        return len(self.input_shape) == 3


class NetworkTable:
    """Facts of every network of the bundled table, and of `own`, a network of the user's."""

    def __init__(self, own: NetworkFacts | None = None) -> None:
        self._own = own

    @property
    def names(self) -> tuple[str, ...]:
        """All networks with facts: those that ship, sorted, and the own one."""
        return (*network_table().names, self._own.name) if self._own else network_table().names

    def knows(self, name: str) -> bool:
        """Whether `find` finds it."""
        return self._is_own(name) or network_table().knows(name)

    def find(self, name: str, source: str | None = None) -> NetworkFacts:
        """Facts of the network under any of its names, at the input `source` (None: its own).

        Other inputs than were captured are scaled from the nearest. Raises `UsageError` with near names for
        an unknown one, and for an input that it does not take."""
        if not (self._own and name == self._own.name):
            return _facts(name, source)
        if source not in (None, self._own.input):
            raise UsageError(
                "{name} is known at {input} alone", hint="leave out --input", name=name, input=self._own.input
            )
        return self._own

    def other_names(self, name: str) -> tuple[str | None, str | None]:
        """The name that a name was resolved to, and the network it may be mistaken for; None for neither."""
        if self._is_own(name) or not network_table().knows(name):
            return None, None
        return network_table().other_names(name)

    def of(self, workload: Workload) -> NetworkFacts:
        """Facts of a workload's network at its input; raises as `find` does."""
        return self.find(workload.network, workload.input)

    def __getitem__(self, name: str) -> NetworkFacts:
        """Facts of `name` at its own input; a `UsageError` with near names where there are none."""
        return self.find(name)

    def _is_own(self, name: str) -> bool:
        return self._own is not None and name == self._own.name


@cache
def _facts(name: str, source: str | None) -> NetworkFacts:
    network = network_table().find(name, source)
    # As plain arrays: each look into a memory-mapped one makes another such.
    rows = {task: np.asarray(network.operations(task)) for task in (Task.INFERENCE, Task.TRAINING)}
    memory = network.memory
    return NetworkFacts(
        name=network_table().shortest_name(network),
        input=network.input,
        input_bytes=network.input_bytes,
        parameters=network.parameters,
        weight_tensors=network.weight_tensors,
        weight_mib=network.weights_mib,
        saved_activation_mib=memory.saved_fp32,
        largest_activation_mib=max(memory.transient_fp32, memory.output),
        kernels={task: row for task, row in rows.items() if len(row)},
        sample=network.sample,
        data=DataKind(network.data),
        library=network.library,
        family=network.family,
        scaled=network.scaled,
        memory=memory,
    )


@cache
def bundled_networks() -> NetworkTable:
    """The table that ships."""
    return NetworkTable()
