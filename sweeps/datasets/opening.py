"""Opens a path as a data set: its format, its samples and its profile."""

from __future__ import annotations

import json
import random
import statistics
from pathlib import Path

from advisor.domain import DatasetProfile
from advisor.errors import DataError, UsageError
from advisor.messages import Message
from advisor.records import asdict
from advisor.sweeps.datasets.lmdb_images import DATA_FILE, LMDB, LmdbImages
from advisor.sweeps.datasets.manifest import is_kept, keep_profile, kept_profile
from advisor.sweeps.datasets.recordio import RECORDIO, RecordIoImages
from advisor.sweeps.datasets.source import (
    IMAGE_SUFFIXES,
    JPEG_FILES,
    JpegFiles,
    SampleKind,
    SampleSource,
    stored_bytes,
)
from advisor.sweeps.datasets.tar_shards import TAR, TarShards
from advisor.sweeps.datasets.text import TEXT, profile_text
from advisor.sweeps.datasets.transforming import picture

_FORMATS = "JPEG files, tar shards, RecordIO (.rec), an LMDB (data.mdb) or text (.txt)"
_SUFFIXES = {".tar": TAR, ".rec": RECORDIO, ".mdb": LMDB, ".txt": TEXT}


def recognise(path: Path) -> str:
    """The storage format of a file or folder: jpeg-files, tar, recordio, lmdb or text.

    JPEG files beneath a folder come first: a tar file among them is a user's copy. A file
    without a known suffix is taken for text. Raises `UsageError` for what is none of them.
    """
    try:
        if path.is_dir():
            return _recognise_folder(path)
        is_there = path.exists()
    except OSError as error:
        raise UsageError(
            "cannot read '{path}' ({reason})",
            hint="name a data set that you may read",
            path=path,
            reason=error.strerror or error,
        ) from error
    if not is_there:
        raise UsageError(
            "no folder or file '{path}'", hint=Message("needed: {formats}", formats=_FORMATS), path=path
        )
    suffix = path.suffix.lower()
    if suffix in IMAGE_SUFFIXES:
        raise UsageError("'{path}' is one image", hint="name the folder of images", path=path)
    return _SUFFIXES.get(suffix, TEXT)


def open_dataset(path: Path) -> SampleSource:
    """The images of a data set in any format, readable in any order.

    Raises `UsageError` for what holds none, `DataError` for what is damaged.
    """
    kind = recognise(path)
    if kind == JPEG_FILES:
        return JpegFiles(path)
    if kind == TAR:
        return TarShards(_containers(path, ".tar"))
    if kind == RECORDIO:
        return RecordIoImages(_containers(path, ".rec"))
    if kind == LMDB:
        return LmdbImages(path / DATA_FILE if path.is_dir() else path)
    raise UsageError(
        "'{path}' is text, and this needs images: {formats}", path=path, formats=_FORMATS.partition(" or ")[0]
    )


def _recognise_folder(folder: Path) -> str:
    if is_kept(folder) or any(path.suffix.lower() in IMAGE_SUFFIXES for path in folder.rglob("*")):
        return JPEG_FILES
    if (folder / DATA_FILE).exists():
        return LMDB
    for suffix in (".rec", ".tar", ".txt"):
        if _containers(folder, suffix):
            return _SUFFIXES[suffix]
    raise UsageError(
        "no images or text in '{folder}'", hint=Message("needed: {formats}", formats=_FORMATS), folder=folder
    )


def _containers(path: Path, suffix: str) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.suffix.lower() == suffix)


PROFILE_FILE = "profile.json"
_PROFILED_SAMPLES = 200


def profile_folder(path: Path) -> DatasetProfile:
    """Samples, mean stored bytes and mean pixels of a data set, in whatever format it is.

    Stored bytes are those of the files that hold the samples, over the samples. A `profile.json` beside them
    is believed when it counts as many samples in the same format; else up to 200 samples, chosen evenly by a
    fixed seed, are decoded, once for a folder that stays as it is. Raises `UsageError` for a place without
    images or text, or a looked-at sample that is no image.
    """
    if recognise(path) == TEXT:
        return profile_text(path)
    source = open_dataset(path)
    existing = read_profile(path, len(source)) if path.is_dir() else None
    if existing and existing.storage_format == source.storage_format:
        return existing
    profile = kept_profile(path) or _measured_profile(path, source)
    keep_profile(path, profile)
    return profile


def count_samples(path: Path) -> int:
    """Images, or tokens of a text; `UsageError` where there are none."""
    return profile_text(path).samples if recognise(path) == TEXT else len(open_dataset(path))


def read_profile(folder: Path, samples: int | None = None) -> DatasetProfile | None:
    """The profile that was written when the data set was made; None without a valid one."""
    try:
        profile = profile_in((folder / PROFILE_FILE).read_bytes())
    except OSError:
        return None
    return profile if profile and samples in (None, profile.samples) else None


def profile_in(document: bytes) -> DatasetProfile | None:
    """The profile of a `profile.json`; None where it has no valid one."""
    try:
        return DatasetProfile(**json.loads(document)["profile"])
    except (ValueError, KeyError, TypeError):
        return None


def write_profile(folder: Path, profile: DatasetProfile, **origin: object) -> None:
    """Writes the file that `read_profile` reads, with the origin of the data set."""
    document = {"profile": asdict(profile), **origin}
    (folder / PROFILE_FILE).write_text(json.dumps(document, indent=1))


def _measured_profile(path: Path, source: SampleSource) -> DatasetProfile:
    numbers = range(len(source))
    looked_at = random.Random(0).sample(numbers, min(_PROFILED_SAMPLES, len(source)))
    sizes = [_dimensions(source, number) for number in looked_at]
    return DatasetProfile(
        name=path.name if path.is_dir() else path.stem,
        samples=len(source),
        bytes_per_sample=stored_bytes(source) / len(source),
        storage_format=source.storage_format,
        width=round(statistics.fmean(width for width, _ in sizes)),
        height=round(statistics.fmean(height for _, height in sizes)),
    )


def _dimensions(source: SampleSource, index: int) -> tuple[int, int]:
    try:
        sample = source.read(index)
        if sample.kind is SampleKind.PIXELS:
            return sample.width, sample.height
        return picture(source, index, sample).size
    except DataError as error:
        raise UsageError(str(error)) from error
