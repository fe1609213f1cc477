"""Facts of networks that the model computes with: sizes and lists of operations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.domain import Task
from advisor.errors import DataError, unknown_name
from advisor.records import dataclass
from models.performance.bundled import read_bundled

SCHEMA = "advisor.networks/2"
BUNDLED = "networks.json"

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Operations:
    """Distinct operations of one task as columns of equal length.

    `kind` is the class's name, `flops` and `sample_bytes` are per sample in fp32,
    `fixed_bytes` is moved once a step, `count` says how often the operation runs.
    """

    kind: tuple[str, ...]
    flops: Floats
    sample_bytes: Floats
    fixed_bytes: Floats
    count: Floats


@dataclass(frozen=True, slots=True)
class NetworkFacts:
    """One network: sizes in MiB (activations per sample, fp32) and operations by task."""

    name: str
    input_pixels: int
    parameters: int
    weight_tensors: int
    weight_mib: float
    saved_activation_mib: float
    largest_activation_mib: float
    operations: Mapping[Task, Operations]

    # A table has one record a network, and arrays have no hash.
    __hash__ = object.__hash__

    @property
    def input_bytes(self) -> float:
        """One decoded fp32 RGB sample as it travels to the GPU."""
        return 3.0 * self.input_pixels**2 * 4


class NetworkTable:
    """Facts by network name, decoded when first asked for: a question is about one network."""

    def __init__(self, document: Mapping[str, Any], origin: str) -> None:
        """`networks` of the document holds the JSON text of each network by name."""
        try:
            if document["schema"] != SCHEMA:
                raise DataError(
                    f"{origin} has schema {document['schema']}, not {SCHEMA}; "
                    "rebuild it with python -m models.zoo.facts"
                )
            self._classes = tuple(document["operation_classes"])
            self._raw: Mapping[str, str] = document["networks"]
        except (KeyError, TypeError) as error:
            raise DataError(f"{origin} is no table of networks: {error}") from error
        self._decoded: dict[str, NetworkFacts] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """All networks with facts, sorted."""
        return tuple(sorted(self._raw))

    @property
    def operation_classes(self) -> tuple[str, ...]:
        """Classes of operations that the model has efficiencies for."""
        return self._classes

    def __getitem__(self, name: str) -> NetworkFacts:
        """Facts of `name`; a `UsageError` with near names where there are none."""
        if name not in self._raw:
            raise unknown_name("network", name, self._raw)
        if name not in self._decoded:
            self._decoded[name] = self._decode(name)
        return self._decoded[name]

    def _decode(self, name: str) -> NetworkFacts:
        raw = json.loads(self._raw[name])
        tasks = {task: self._operations(raw[task]) for task in (Task.INFERENCE, Task.TRAINING)}
        sizes = {key: value for key, value in raw.items() if key not in tasks}
        return NetworkFacts(name=name, operations=tasks, **sizes)

    def _operations(self, rows: list[list[float]]) -> Operations:
        columns = np.asarray(rows, dtype=float).T
        kinds = tuple(self._classes[int(index)] for index in columns[0])
        return Operations(kinds, columns[1], columns[2], columns[3], columns[4])


def table_from(text: str) -> dict[str, Any]:
    """The document of networks.json, its networks still text, each in a line of its own.

    To read all of them takes several ms, and a question is about one. ValueError for another text.
    """
    head, *lines, _end = text.splitlines()
    document: dict[str, Any] = json.loads(head + "}}")
    named = (line.removesuffix(",").partition(":") for line in lines)
    document["networks"] = {json.loads(name): one for name, _, one in named}
    return document


@cache
def bundled_networks() -> NetworkTable:
    """The table that ships; `DataError` when the file is missing or damaged."""
    try:
        return NetworkTable(table_from(read_bundled(BUNDLED)), BUNDLED)
    except ValueError as error:
        raise DataError(f"{BUNDLED} cannot be read ({error}); install the package again") from error
