"""Memory of every network that ships, at the inputs that people use: memory.npy.

A row is one network at one input; `infra` builds the rows together with the network table. A row has eight
numbers (nan: unknown; from `advisor.models.zoo.live_memory.memory_facts`) for each of a training step, a
training step with checkpointing and inference without gradients, in fp32 and in amp."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from advisor.errors import DataError, UsageError
from advisor.models.bundled import read_bundled_array
from advisor.models.performance.memory.steps import MemoryProfile, Point, rising
from advisor.models.performance.networks import bundled_networks

BUNDLED = "memory.npy"
BATCHES = (1, 8, 64)
RUNS = ("training", "checkpointing", "inference")
PRECISIONS = ("fp32", "amp")
# The name of each run in `Conditions.step`, with a place for the precision.
_STEPS = {
    "training": "training/{}",
    "checkpointing": "training/{}/checkpointing",
    "inference": "inference/{}",
}
_WIDTHS = {"fp32": "fp32", "amp": "16bit"}

Key = tuple[str, str, str]
_KEY = ("library", "name", "input")


class MemoryTable(Mapping[Key, MemoryProfile]):
    """Memory profiles by library, name and input."""

    def __init__(self, rows: NDArray[np.void]) -> None:
        """Rows as the builder makes them."""
        self._rows = rows

    def __getitem__(self, key: Key) -> MemoryProfile:
        # An answer needs one network: decoding the names of all takes longer than one search.
        same = [self._rows[k] == entry.encode() for k, entry in zip(_KEY, key, strict=True)]
        places = np.flatnonzero(np.logical_and.reduce(same))
        if not len(places):
            raise KeyError(key)
        row = self._rows[places[0]]
        return MemoryProfile(
            name=key[1],
            weights_mib=float(row["weights_mib"]),
            trained_mib=float(row["trained_mib"]),
            traced="fake",
            steps=_with_graphs(dict(_steps(row["facts"]))),
            takes_images=key[2].startswith("3x") and key[2].count("x") == 2,
        )

    def __iter__(self) -> Iterator[Key]:
        columns = (self._rows[entry].astype(str).tolist() for entry in _KEY)
        return zip(*columns, strict=True)

    def __len__(self) -> int:
        return len(self._rows)


def _steps(facts: NDArray[np.float32]) -> Iterator[tuple[str, tuple[Point, ...]]]:
    for run, by_precision in zip(RUNS, facts, strict=True):
        for precision, numbers in zip(PRECISIONS, by_precision, strict=True):
            if np.isnan(numbers).any():
                continue
            sample, fixed, *sizes = map(float, numbers)
            peaks = zip(BATCHES, sizes[: len(BATCHES)], sizes[len(BATCHES) :], strict=True)
            points = rising(Point(b, sample * b + fixed, peak, reserved) for b, peak, reserved in peaks)
            yield _STEPS[run].format(_WIDTHS[precision]), points


def _with_graphs(steps: dict[str, tuple[Point, ...]]) -> dict[str, tuple[Point, ...]]:
    """The steps, plus inference that keeps the tensors that a training step would (`keeps_graph`)."""
    result = dict(steps)
    for width in _WIDTHS.values():
        if f"training/{width}" in steps:
            training = steps[f"training/{width}"]
            alone = steps.get(f"inference/{width}", (Point(0.0, 0.0, 0.0, 0.0),) * len(training))
            # What a training step's forward pass keeps, with the same share wasted by the allocator; at
            # least what a forward pass takes that keeps nothing.
            result[f"inference/{width}/gradients"] = rising(
                Point(
                    step.batch,
                    step.forward,
                    max(step.forward, bare.peak),
                    max((step.reserved / step.peak if step.peak else 1.0) * step.forward, bare.reserved),
                )
                for step, bare in zip(training, alone, strict=True)
            )
    return result


@cache
def bundled_memory() -> MemoryTable:
    """The memory table that ships; `DataError` when the file is missing or damaged."""
    return MemoryTable(read_bundled_array(BUNDLED))


def has_memory(name: str) -> bool:
    """Whether `name` means a network that the memory table has."""
    try:
        network = bundled_networks().find(name)
    except UsageError:
        return False
    return (network.library, network.key, network.input) in bundled_memory()


@lru_cache(maxsize=256)
def bundled_profile(name: str, size: str | None = None) -> MemoryProfile:
    """The profile of a network of the table at its usual input, or at another such as `3x384x384`.

    At an input that was not replayed, a sample counts as so many samples of the nearest replayed input.
    Raises `UsageError` for an unknown name, and for an input that the network does not take."""
    network = bundled_networks().find(name, size)
    existing = network.scaled or network.input
    try:
        profile = bundled_memory()[network.library, network.key, existing]
    except KeyError as error:
        raise DataError(
            "{bundled} has no {name}",
            hint="build it again with advisor.infra.build.networks",
            bundled=BUNDLED,
            name=name,
        ) from error
    if not network.scaled:
        return profile
    nearest = bundled_networks().find(network.name, existing)
    grown = network.memory.inference_peak_fp32 / nearest.memory.inference_peak_fp32
    return replace(
        profile,
        steps={
            step: tuple(point._replace(batch=point.batch / grown) for point in points)
            for step, points in profile.steps.items()
        },
    )
