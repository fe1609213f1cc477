"""The profile of a data set in any format (standard library, NumPy and Pillow)."""

from __future__ import annotations

import json
import random
import statistics
from pathlib import Path

from advisor.domain import DatasetProfile
from advisor.errors import DataError, UsageError
from sweeps.datasets.jpeg_files import IMAGE_SUFFIXES, image_files
from sweeps.datasets.opening import open_dataset, recognise
from sweeps.datasets.places import PROFILE_FILE
from sweeps.datasets.source import Kind, SampleSource
from sweeps.datasets.text import TEXT, profile_text
from sweeps.datasets.transforming import picture

__all__ = [
    "IMAGE_SUFFIXES", "PROFILE_FILE", "count_samples", "image_files", "profile_folder",
    "read_profile",
]  # fmt: skip

_PROFILED_SAMPLES = 200


def profile_folder(path: Path) -> DatasetProfile:
    """Samples, mean stored bytes and mean pixels of a data set, in whatever format it is.

    Stored bytes are those of the files that hold the samples, over the samples. A
    `profile.json` beside them is believed when it counts as many samples in the same format; else
    up to 200 samples, chosen evenly by a fixed seed, are decoded. Raises `UsageError` for a place
    without images or text, or a looked-at sample that is no image.
    """
    if recognise(path) == TEXT:
        return profile_text(path)
    source = open_dataset(path)
    existing = read_profile(path, len(source)) if path.is_dir() else None
    if existing and existing.storage_format == source.storage_format:
        return existing
    return _measured_profile(path, source)


def count_samples(path: Path) -> int:
    """Images, or tokens of a text; `UsageError` where there are none."""
    return profile_text(path).samples if recognise(path) == TEXT else len(open_dataset(path))


def read_profile(folder: Path, samples: int | None = None) -> DatasetProfile | None:
    """The profile that was written when the data set was made; None without a valid one."""
    try:
        document = json.loads((folder / PROFILE_FILE).read_text())
        profile = DatasetProfile(**document["profile"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return profile if samples in (None, profile.samples) else None


def _measured_profile(path: Path, source: SampleSource) -> DatasetProfile:
    numbers = range(len(source))
    looked_at = random.Random(0).sample(numbers, min(_PROFILED_SAMPLES, len(source)))
    sizes = [_dimensions(source, number) for number in looked_at]
    return DatasetProfile(
        name=path.name if path.is_dir() else path.stem,
        samples=len(source),
        bytes_per_sample=sum(file.stat().st_size for file in source.files) / len(source),
        storage_format=source.storage_format,
        width=round(statistics.fmean(width for width, _ in sizes)),
        height=round(statistics.fmean(height for _, height in sizes)),
    )


def _dimensions(source: SampleSource, index: int) -> tuple[int, int]:
    try:
        sample = source.read(index)
        if sample.kind is Kind.PIXELS:
            return sample.width, sample.height
        return picture(source, index, sample).size
    except DataError as error:
        raise UsageError(str(error)) from error
