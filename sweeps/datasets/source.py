"""The interface between the input pipeline and the formats of stored samples, and JPEG files in a folder."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from advisor.errors import DataError, UsageError
from advisor.sweeps.datasets.manifest import Manifest, manifest_of

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg"})
JPEG_FILES = "jpeg-files"


class JpegFiles:
    """A `SampleSource` over the JPEG files beneath a folder."""

    storage_format = JPEG_FILES

    def __init__(self, folder: Path) -> None:
        self._manifest = manifest_of(folder, IMAGE_SUFFIXES)
        self.files: Sequence[Path] = self._manifest
        if not self.files:
            raise UsageError("no JPEG files beneath '{folder}'", hint="name a folder of them", folder=folder)

    def __len__(self) -> int:
        return len(self.files)

    def read(self, index: int) -> Sample:
        path = self.files[index]
        try:
            return Sample(SampleKind.JPEG, path.read_bytes(), self._manifest.label(index))
        except OSError as error:
            raise DataError("cannot read '{path}': {strerror}", path=path, strerror=error.strerror) from error

    def name(self, index: int) -> str:
        return f"'{self.files[index]}'"


def write_files(folder: Path, samples: Iterable[Sample]) -> int:
    """One file a sample, `CLASS/NUMBER.jpg`; returns how many."""
    count = 0
    for count, sample in enumerate(samples, start=1):
        directory = folder / f"{sample.label:05d}"
        directory.mkdir(exist_ok=True)
        (directory / f"{count - 1:08d}.jpg").write_bytes(sample.content)
    return count


Handle = TypeVar("Handle")


class SampleKind(StrEnum):
    """The content of a stored sample's bytes.

    `pixels` are decoded: uint8 planes blue, green, red of height x width each, as Caffe has them.
    """

    JPEG = "jpeg"
    PIXELS = "pixels"


class Sample(NamedTuple):
    """One stored sample. `height` and `width` are known for pixels only, else 0."""

    kind: SampleKind
    content: bytes
    label: int = 0
    height: int = 0
    width: int = 0


class SampleSource(Protocol):
    """Stored samples by number, in any order.

    Cheap to hand to loader processes: an index and paths, files opened by the process that
    reads. `files` are all files that hold samples, for the page cache.
    """

    storage_format: str
    files: Sequence[Path]

    def __len__(self) -> int:
        """The number of samples."""

    def read(self, index: int) -> Sample:
        """The sample as stored. Raises `DataError`, naming it, where it cannot be read."""

    def name(self, index: int) -> str:
        """The sample's name in messages: its file, and the position inside it."""


def stored_bytes(source: SampleSource) -> int:
    """Bytes of all files that hold samples, from a manifest."""
    if isinstance(source.files, Manifest):
        return source.files.total_bytes
    return sum(file.stat().st_size for file in source.files)


class PerProcess(Generic[Handle]):
    """A handle that is opened when a process first needs it, never shared with its children.

    LMDB forbids an environment in a forked child; and no open file travels through pickle.
    """

    def __init__(self, opened: Callable[[], Handle]) -> None:
        self._opened = opened
        self._mine: tuple[int, Handle] | None = None

    def get(self) -> Handle:
        """This process's own handle."""
        if self._mine is None or self._mine[0] != os.getpid():
            self._mine = (os.getpid(), self._opened())
        return self._mine[1]

    def __getstate__(self) -> dict[str, object]:
        return {"_opened": self._opened, "_mine": None}


class OpenFiles:
    """Reads spans of a few large files, each opened once a process; `pread` shares no position."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._descriptors = PerProcess[dict[Path, int]](dict)
        self.paths = tuple(paths)

    def read(self, file: int, offset: int, size: int) -> bytes:
        """Up to `size` bytes of the file numbered `file`; fewer where it ends early."""
        path, opened = self.paths[file], self._descriptors.get()
        if path not in opened:
            opened[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(opened[path], size, offset)

    def __del__(self) -> None:
        descriptors: PerProcess[dict[Path, int]] = self._descriptors
        if descriptors._mine and descriptors._mine[0] == os.getpid():
            for descriptor in descriptors._mine[1].values():
                os.close(descriptor)


class FileSpans:
    """A `SampleSource` of spans of a few large files: the rows of each begin with offset and bytes."""

    storage_format: str
    unit: str  # what a span is called in messages

    def __init__(self, files: Sequence[Path], rows_of: Callable[[Path], np.ndarray]) -> None:
        self.files: Sequence[Path] = tuple(files)
        parts = [rows_of(path) for path in files]
        self._numbers = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        self._rows = np.concatenate(parts)
        self._opened = OpenFiles(self.files)

    def __len__(self) -> int:
        return len(self._rows)

    def name(self, index: int) -> str:
        path = self.files[int(self._numbers[index])]
        return f"'{path}' ({self.unit} at byte {int(self._rows[index][0])})"

    def _bytes(self, index: int) -> bytes:
        offset, size = map(int, self._rows[index][:2])
        try:
            return self._opened.read(int(self._numbers[index]), offset, size)
        except OSError as error:
            raise DataError(
                "cannot read {name}: {strerror}", name=self.name(index), strerror=error.strerror
            ) from error


class LatencyInjected:
    """A `SampleSource` whose reads from the disk take at least `seconds`.

    Bandwidth and IOPS are the kernel's to hold; it has no limit for latency. What comes out of
    the page cache is not held up: the kernel counts the blocks that this thread had read for it.
    """

    def __init__(self, source: SampleSource, seconds: float) -> None:
        self._source = source
        self._seconds = seconds
        self.storage_format = source.storage_format
        self.files: Sequence[Path] = source.files

    def __len__(self) -> int:
        return len(self._source)

    def read(self, index: int) -> Sample:
        start, blocks = time.perf_counter(), _blocks_read()
        sample = self._source.read(index)
        if _blocks_read() > blocks:
            time.sleep(max(0.0, self._seconds - (time.perf_counter() - start)))
        return sample

    def name(self, index: int) -> str:
        return self._source.name(index)


def _blocks_read() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_inblock
