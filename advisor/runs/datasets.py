"""Data sets for trials: made, converted, shown."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from advisor.domain import DatasetProfile
from advisor.errors import UsageError
from advisor.runs.sweeps.data import data_here
from advisor.sweeps.datasets import making
from advisor.sweeps.datasets.converting import Conversion, broken_samples, convert
from advisor.sweeps.datasets.node_cache import CachedData
from advisor.sweeps.datasets.opening import open_dataset, profile_folder, read_profile, recognise
from advisor.sweeps.datasets.places import check_free
from advisor.sweeps.datasets.text import TEXT, read_corpus
from advisor.sweeps.datasets.transforming import Change, decode_costs
from advisor.sweeps.machine.size import machine_size

Progress = Callable[[int, int], None]


class ShownDataset(Struct, frozen=True, kw_only=True):
    """A data set as the input pipeline will see it.

    `decode_seconds` is one thread's time for one sample, by decoder; empty for text.
    `vocabulary` counts the different words of a text (None for images), `cached` says what came
    here from an address (None for data of this machine).
    """

    path: Path
    profile: DatasetProfile
    decode_seconds: dict[str, float]
    vocabulary: int | None
    cached: CachedData | None = None


def make_photographs(folder: Path, samples: int, progress: Progress) -> DatasetProfile:
    """Make `samples` JPEG files like ImageNet's; an equal set that is there stays as it is."""
    if not read_profile(folder, samples):
        check_free(folder)
    return making.ensure_dataset(samples, folder, progress)[1]


def make_text(folder: Path) -> DatasetProfile:
    """Make a text of the Penn Treebank's size; returns the profile of its training part."""
    check_free(folder)
    return making.make_text(folder)


def check_dataset(path: Path, progress: Progress) -> tuple[int, list[str]]:
    """The number of images in the data set, and a line for each that cannot be read."""
    return broken_samples(path, math.ceil(machine_size().vcpus), progress)


def convert_dataset(
    path: Path,
    target: str,
    folder: Path,
    *,
    shorter_edge: int | None,
    quality: int | None,
    processes: int | None,
    progress: Progress,
) -> Conversion:
    """Convert a data set of images. Quality (by default 95) goes with a resize only."""
    if quality is not None and shorter_edge is None:
        raise UsageError(
            "--quality goes with --resize",
            field="quality",
            hint="leave it out: without --resize images stay as they are",
        )
    if path.resolve() == folder.resolve():
        raise UsageError("--out is the data set itself", field="out", hint="name a new folder")
    change = Change(shorter_edge=shorter_edge, quality=quality or 95)
    count = processes or math.ceil(machine_size().vcpus)
    return convert(path, target, folder, change=change, processes=count, progress=progress)


def show_dataset(source: str, progress: Progress) -> ShownDataset:
    """Its profile, and what decoding a sample costs by each decoder at hand (a second or two); of
    an address, what is brought here first."""
    with data_here(source, progress) as (path, cached):
        profile = profile_folder(path)
        is_text = recognise(path) == TEXT
        words = read_corpus(path, vocabulary=profile.samples).words if is_text else None
        return ShownDataset(
            path=path,
            profile=profile,
            decode_seconds={} if is_text else decode_costs(open_dataset(path)),
            vocabulary=None if words is None else len(words),
            cached=cached,
        )
