"""Converts a data set from any format to any other: the preprocessing task of the articles."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from advisor.domain import DatasetProfile
from advisor.errors import DataError, UsageError, unknown_name
from sweeps.datasets.folder import profile_folder
from sweeps.datasets.jpeg_files import write_files
from sweeps.datasets.lmdb_images import BYTES_A_RECORD, write_lmdb
from sweeps.datasets.opening import open_dataset
from sweeps.datasets.places import PROFILE_FILE, check_free, made_whole
from sweeps.datasets.recordio_images import write_records
from sweeps.datasets.side_processes import in_order
from sweeps.datasets.source import Kind, Sample, SampleSource
from sweeps.datasets.tar_shards import write_shards
from sweeps.datasets.transforming import Change, changed

TARGETS = ("files", "tar", "lmdb", "recordio")
Progress = Callable[[int, int], None]
_CHUNK = 32
_REPORT_EVERY_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """What was made, and how fast: `seconds` from the first sample read to all on disk."""

    profile: DatasetProfile
    seconds: float
    processes: int

    @property
    def samples_per_second(self) -> float:
        """The rate of the preprocessing."""
        return self.profile.samples / self.seconds


def convert(
    path: Path, target: str, folder: Path, *, change: Change, processes: int, progress: Progress
) -> Conversion:
    """Write the samples of `path` into a new `folder` in the format `target`.

    Images are changed in `processes` side processes; bytes that stay as they are, are copied
    by this one. Whole or not at all: after an error or Ctrl-C nothing is left. Raises
    `UsageError` for a wrong question, `DataError` for a damaged source or a full disk.
    """
    if target not in TARGETS:
        raise unknown_name("format", target, TARGETS)
    if target == "lmdb" and change.shorter_edge:
        raise UsageError(
            "an LMDB holds decoded images of 256 x 256", hint="--resize goes with the others"
        )
    check_free(folder)
    source = open_dataset(path)
    change = replace(change, decoded=target == "lmdb")
    _check_room(source, folder, target)
    copied = change.keeps_bytes and source.read(0).kind is Kind.JPEG
    processes = 1 if copied else processes
    start = time.perf_counter()
    with made_whole(folder) as unfinished:
        samples = _reported(
            _changed(source, path, change, 0 if copied else processes), source, progress
        )
        _write(target, unfinished, samples, len(source))
        seconds = time.perf_counter() - start
        profile = replace(profile_folder(unfinished), name=folder.name)
        _save_profile(unfinished, profile, path)
    return Conversion(profile=profile, seconds=seconds, processes=processes)


def _write(target: str, folder: Path, samples: Iterator[Sample], most: int) -> None:
    if target == "lmdb":
        write_lmdb(folder, samples, most)
    elif target == "tar":
        write_shards(folder, samples)
    elif target == "recordio":
        write_records(folder, samples)
    else:
        write_files(folder, samples)


def _changed(source: SampleSource, path: Path, change: Change, processes: int) -> Iterator[Sample]:
    """The samples in order; with 0 processes in this one."""
    if not processes:
        yield from (changed(source, index, change) for index in range(len(source)))
        return
    spans = (
        (path, first, min(first + _CHUNK, len(source)), change)
        for first in range(0, len(source), _CHUNK)
    )
    for chunk in in_order(_changed_chunk, spans, processes):
        yield from chunk


# One source a side process, kept from chunk to chunk: a large index is not read for each.
_SOURCES: dict[Path, SampleSource] = {}


def _changed_chunk(span: tuple[Path, int, int, Change]) -> list[Sample]:
    path, first, last, change = span
    if path not in _SOURCES:
        _SOURCES[path] = open_dataset(path)
    return [changed(_SOURCES[path], index, change) for index in range(first, last)]


def _reported(
    samples: Iterator[Sample], source: SampleSource, progress: Progress
) -> Iterator[Sample]:
    last = time.monotonic()
    for count, sample in enumerate(samples, start=1):
        yield sample
        if count == len(source) or time.monotonic() - last > _REPORT_EVERY_SECONDS:
            last = time.monotonic()
            progress(count, len(source))


def _check_room(source: SampleSource, folder: Path, target: str) -> None:
    """Told before an hour is spent; a disk that fills up meanwhile is told as well."""
    if target == "lmdb":
        needed = len(source) * BYTES_A_RECORD
    elif source.storage_format == "lmdb":
        return  # decoded images become smaller, by how much is not known
    else:
        needed = sum(file.stat().st_size for file in source.files)
    place = next(parent for parent in folder.absolute().parents if parent.exists())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise DataError(
            "'{place}' has {free:mib} free, and the data set needs about {needed:mib}",
            hint="free some, or name another place",
            place=place,
            free=free / 2**20,
            needed=needed / 2**20,
        )


def _save_profile(folder: Path, profile: DatasetProfile, source: Path) -> None:
    document = {"profile": asdict(profile), "converted_from": source.name}
    (folder / PROFILE_FILE).write_text(json.dumps(document, indent=1))
