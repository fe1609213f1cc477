"""Converts a data set to another format, or checks every sample, in side processes.

Published articles measure this conversion as the preprocessing task."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from advisor.domain import DatasetProfile
from advisor.errors import DataError, UsageError, unknown_name
from advisor.messages import format_mib
from advisor.sweeps.datasets import opening
from advisor.sweeps.datasets.containers import write_records, write_shards
from advisor.sweeps.datasets.lmdb_images import BYTES_A_RECORD, write_lmdb
from advisor.sweeps.datasets.making import in_order, spans
from advisor.sweeps.datasets.source import Sample, SampleKind, SampleSource, stored_bytes, write_files
from advisor.sweeps.datasets.transforming import Change, changed, picture

_WRITERS = {"files": write_files, "tar": write_shards, "lmdb": write_lmdb, "recordio": write_records}
TARGETS = tuple(_WRITERS)
Progress = Callable[[int, int], None]
_SAMPLES_TOGETHER = 32
_REPORT_EVERY_SECONDS = 0.5


class Conversion(Struct, frozen=True, kw_only=True):
    """A converted data set; `seconds` run from the first sample read until all samples are on disk."""

    profile: DatasetProfile
    seconds: float
    processes: int

    @property
    def samples_per_second(self) -> float:
        """Samples converted per second."""
        return self.profile.samples / self.seconds


def convert(
    path: Path, target: str, folder: Path, *, change: Change, processes: int, progress: Progress
) -> Conversion:
    """Write the samples of `path` into a new `folder` in the format `target`.

    Images are changed in `processes` side processes; unchanged bytes are copied by this one. After an error
    or Ctrl-C no folder is left. Raises `UsageError` for wrong arguments, `DataError` for a damaged source or
    a full disk."""
    if target not in TARGETS:
        raise unknown_name("format", target, TARGETS)
    if target == "lmdb" and change.shorter_edge:
        raise UsageError("an LMDB holds decoded images of 256 x 256", hint="--resize goes with the others")
    opening.check_free(folder)
    source = opening.open_dataset(path)
    change = replace(change, decoded=target == "lmdb")
    # Checked before an hour is spent on it; a disk that fills up later raises an error too.
    needed = len(source) * BYTES_A_RECORD if target == "lmdb" else stored_bytes(source)
    existing = next(parent for parent in folder.absolute().parents if parent.exists())
    free = shutil.disk_usage(existing).free
    shrinks = source.storage_format == "lmdb" != target  # pixels become JPEG, of unknown size
    if needed > free and not shrinks:
        raise DataError(
            f"'{existing}' has {format_mib(free / 2**20)} free, and the data set needs about "
            f"{format_mib(needed / 2**20)}",
            hint="free some, or name another place",
        )
    copied = change.keeps_bytes and source.read(0).kind is SampleKind.JPEG
    processes = 1 if copied else processes
    start = time.perf_counter()
    with opening.made_whole(folder) as unfinished:
        samples = _with_progress(_changed(source, path, change, 0 if copied else processes), source, progress)
        _WRITERS[target](unfinished, samples)
        seconds = time.perf_counter() - start
        profile = replace(opening.profile_folder(unfinished), name=folder.name)
        opening.write_profile(unfinished, profile, converted_from=path.name)
    return Conversion(profile=profile, seconds=seconds, processes=processes)


def _changed(source: SampleSource, path: Path, change: Change, processes: int) -> Iterator[Sample]:
    """The changed samples, in order; with 0 processes they are changed in this one."""
    if not processes:
        yield from (changed(source, index, change) for index in range(len(source)))
        return
    chunks = spans(len(source), _SAMPLES_TOGETHER)
    for chunk in in_order(partial(_changed_chunk, path, change), chunks, processes):
        yield from chunk


def _changed_chunk(path: Path, change: Change, span: range) -> list[Sample]:
    return [changed(_source(path), index, change) for index in span]


def _with_progress(samples: Iterator[Sample], source: SampleSource, progress: Progress) -> Iterator[Sample]:
    last = time.monotonic()
    for count, sample in enumerate(samples, start=1):
        yield sample
        if count == len(source) or time.monotonic() - last > _REPORT_EVERY_SECONDS:
            last = time.monotonic()
            progress(count, len(source))


def broken_samples(path: Path, processes: int, progress: Callable[[int, int], None]) -> tuple[int, list[str]]:
    """The number of samples, and an error text for each sample that would fail a trial.

    Every sample is read and decoded, in `processes` side processes. Raises `UsageError` or `DataError` if the
    data set cannot be opened."""
    count = len(opening.open_dataset(path))
    chunks, broken = spans(count, _SAMPLES_TOGETHER), list[str]()
    for span, faults in zip(chunks, in_order(partial(_broken_chunk, path), chunks, processes), strict=True):
        broken += faults
        progress(span.stop, count)
    return count, broken


def _broken_chunk(path: Path, span: range) -> list[str]:
    source, faults = _source(path), []
    for index in span:
        try:
            sample = source.read(index)
            if sample.kind is SampleKind.JPEG:
                picture(source, index, sample)
        except DataError as error:
            faults.append(str(error))
    return faults


@lru_cache(maxsize=1)
def _source(path: Path) -> SampleSource:
    """The opened data set, cached by each side process: a large index is not read for every chunk."""
    return opening.open_dataset(path)
