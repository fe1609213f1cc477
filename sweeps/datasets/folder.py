"""A folder of images as a data set: its files and its profile (standard library and Pillow)."""

from __future__ import annotations

import json
import random
import statistics
from pathlib import Path

from advisor.domain import DatasetProfile
from advisor.errors import UsageError

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg"})
PROFILE_FILE = "profile.json"
_PROFILED_SAMPLES = 200


def image_files(folder: Path) -> list[Path]:
    """All JPEG files beneath the folder, in a fixed order."""
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES)


def profile_folder(path: Path) -> DatasetProfile:
    """Samples, mean stored bytes and mean pixels of a folder of JPEG files.

    A `profile.json` beside the images is believed when it counts as many files as there are;
    else up to 200 files, chosen evenly by a fixed seed, are decoded. Raises `UsageError` for a
    folder that is missing or has no JPEG files, or when a looked-at file is no image.
    """
    if not path.is_dir():
        raise UsageError(f"no folder '{path}'; a folder of JPEG files is needed")
    files = image_files(path)
    if not files:
        raise UsageError(f"no JPEG files beneath '{path}'; name a folder that has some")
    return read_profile(path, len(files)) or _measured_profile(path, files)


def read_profile(folder: Path, samples: int | None = None) -> DatasetProfile | None:
    """The profile that was written when the data set was made; None without a valid one."""
    try:
        document = json.loads((folder / PROFILE_FILE).read_text())
        profile = DatasetProfile(**document["profile"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return profile if samples in (None, profile.samples) else None


def _measured_profile(folder: Path, files: list[Path]) -> DatasetProfile:
    looked_at = random.Random(0).sample(files, min(_PROFILED_SAMPLES, len(files)))
    sizes = [_dimensions(path) for path in looked_at]
    return DatasetProfile(
        name=folder.name,
        samples=len(files),
        bytes_per_sample=statistics.fmean(path.stat().st_size for path in files),
        storage_format="jpeg-files",
        width=round(statistics.fmean(width for width, _ in sizes)),
        height=round(statistics.fmean(height for _, height in sizes)),
    )


def _dimensions(path: Path) -> tuple[int, int]:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            image.load()
            return image.size
    except (
        UnidentifiedImageError,
        OSError,
        SyntaxError,
        Image.DecompressionBombError,
    ) as error:
        raise UsageError(
            f"'{path}' cannot be read as an image ({error}); repair or remove it"
        ) from error
