"""Facts of a network that is not in the bundled table: as much as is known of it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.domain import Task
from advisor.errors import UsageError
from models.performance.networks import NetworkFacts, NetworkTable, Operations

_DEFAULT_SIDE = 224
_COLUMNS = ("flops_per_sample", "bytes_per_sample", "fixed_bytes")

# By task and class of operation, as advisor.anchor/1 has them.
Captured = Mapping[str, Mapping[str, Mapping[str, float]]]


class OwnTable(NetworkTable):
    """The bundled table and one more network."""

    def __init__(self, base: NetworkTable, own: NetworkFacts) -> None:
        self._base, self._own = base, own
        self._classes = base.operation_classes

    @property
    def names(self) -> tuple[str, ...]:
        """All networks with facts, the own one last."""
        return (*self._base.names, self._own.name)

    def __getitem__(self, name: str) -> NetworkFacts:
        """Facts of `name`; a `UsageError` where there are none."""
        return self._own if name == self._own.name else self._base[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSizes:
    """What is known of an own network beside its operations; None means unknown."""

    input_shape: Sequence[int] | None = None
    weight_mib: float | None = None
    weight_tensors: int = 0


def facts_of_own(name: str, sizes: OwnSizes, operations: Mapping[Task, Operations]) -> NetworkFacts:
    """Facts of an own network. An unknown input is an image of 224 pixels, unknown weights are
    0; `operations` may lack tasks, or be empty."""
    weight_mib = sizes.weight_mib or 0.0
    shape = tuple(sizes.input_shape or (3, _DEFAULT_SIDE, _DEFAULT_SIDE))
    side = round(math.sqrt(shape[-1] * shape[-2]))
    return NetworkFacts(
        name=name,
        input_pixels=side,
        parameters=round(weight_mib * 2**20 / 4),
        weight_tensors=sizes.weight_tensors,
        weight_mib=weight_mib,
        saved_activation_mib=0.0,
        largest_activation_mib=0.0,
        operations=operations,
    )


def operations_from(
    captured: Captured, classes: Collection[str], origin: str
) -> dict[Task, Operations]:
    """The operations of each task in an anchor's `captured` block: one mean operation a class.

    Raises `UsageError` for classes that the model does not know, and for numbers that cannot be:
    not finite, negative, or without a count.
    """
    try:
        if strange := {name for rows in captured.values() for name in rows} - set(classes):
            raise ValueError(f"unknown: {', '.join(sorted(strange))}")
        return {Task(task): _operations(rows) for task, rows in captured.items() if rows}
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UsageError(
            f"{origin}: its captured operations cannot be used ({error}); measure it again"
        ) from error


def _operations(rows: Mapping[str, Mapping[str, float]]) -> Operations:
    count = np.array([float(row["count"]) for row in rows.values()])
    sums = np.array([[float(row[name]) for name in _COLUMNS] for row in rows.values()])
    if not (np.isfinite(sums).all() and (sums >= 0).all() and (count >= 1).all()):
        raise ValueError("they are counts of 1 or more, and finite numbers of 0 or more")
    means = sums / count[:, None]
    return Operations(tuple(map(str, rows)), means[:, 0], means[:, 1], means[:, 2], count)
