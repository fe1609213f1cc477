"""The interface between the input pipeline and storage formats, and its implementation for JPEG files.

The list of a folder's images (its manifest) is made once and kept in the user's cache: an array, and an
`about.json` with the folder's profile and the modification times of all its subfolders. A file that was
added, removed or renamed voids the manifest. The array is mapped into memory, not read."""

from __future__ import annotations

import io
import json
import os
import resource
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from advisor.domain import DatasetProfile
from advisor.errors import DataError, UsageError
from advisor.files import manifests_folder, write_whole
from advisor.records import asdict

ROWS, ABOUT = "rows.npy", "about.json"
# File systems record times coarsely: a folder that changed this recently may change again unnoticed.
_SETTLED_NANOSECONDS = 2_000_000_000


class Manifest(Sequence[Path]):
    """The paths of a folder's images, in a fixed order, each with the number of its class.

    `rows` is a structured array: the `path` below the folder, the file's `bytes` and its class, `label`."""

    def __init__(self, folder: Path, rows: np.ndarray) -> None:
        self._folder, self._rows = folder, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Path:  # type: ignore[override]  # no slices
        return self._folder / os.fsdecode(self._rows[index]["path"])

    def label(self, index: int) -> int:
        """The image's class: the number of its folder, counted from 0."""
        return int(self._rows[index]["label"])

    @property
    def total_bytes(self) -> int:
        """The sum of the images' sizes."""
        return int(self._rows["bytes"].sum())


def manifest_of(folder: Path, suffixes: frozenset[str]) -> Manifest:
    """The manifest of all files with these (lower-case) suffixes, cached if the folder is unchanged.

    Raises `DataError` if the folder cannot be listed."""
    return kept_manifest(folder) or _new_manifest(folder, suffixes)


def kept_manifest(folder: Path) -> Manifest | None:
    """The cached manifest; None if there is none or the folder has changed since."""
    about = _kept_about(folder)
    with suppress(OSError, ValueError, EOFError, KeyError):
        rows = np.load(_cache_folder(folder) / ROWS, mmap_mode="r")
        if about and about["images"] == len(rows):
            return Manifest(folder, rows)
    return None


def is_kept(folder: Path) -> bool:
    """Return whether the folder has a cached manifest and has not changed since."""
    return _kept_about(folder) is not None


def kept_profile(folder: Path) -> DatasetProfile | None:
    """The profile that `keep_profile` wrote; None if there is none or the folder has changed since."""
    about = _kept_about(folder)
    with suppress(KeyError, TypeError, ValueError):
        return DatasetProfile(**about["profile"]) if about else None
    return None


def keep_profile(folder: Path, profile: DatasetProfile) -> None:
    """Add the profile to the folder's cached manifest, if there is one."""
    about = _kept_about(folder)
    if about and "profile" not in about:
        with suppress(DataError):
            write_whole(_cache_folder(folder) / ABOUT, json.dumps({**about, "profile": asdict(profile)}))


def _cache_folder(folder: Path) -> Path:
    return manifests_folder() / sha256(os.fsencode(folder.resolve())).hexdigest()[:16]


def _kept_about(folder: Path) -> dict[str, Any] | None:
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        about: dict[str, Any] = json.loads((_cache_folder(folder) / ABOUT).read_bytes())
        changed = about["folders"].items()
        if all((folder / name).stat().st_mtime_ns == when for name, when in changed):
            return about
    return None


def _new_manifest(folder: Path, suffixes: frozenset[str]) -> Manifest:
    found, folders, label, begun = list[tuple[bytes, int, int]](), dict[str, int](), 0, time.time_ns()
    for directory, inner, files in os.walk(folder, onerror=_refuse_unlisted):
        # A folder at the root of a mounted disk that only the system may read.
        inner[:] = sorted(name for name in inner if name != "lost+found")
        here = os.path.relpath(directory, folder)
        folders[here] = os.stat(directory).st_mtime_ns  # noqa: PTH116 - a million may follow
        images = sorted(name for name in files if os.path.splitext(name)[1].lower() in suffixes)  # noqa: PTH122
        for name in images:
            size = 0  # a dangling link: the error comes, with its name, when it is read
            with suppress(OSError):
                size = os.stat(os.path.join(directory, name)).st_size  # noqa: PTH116, PTH118
            path = name if here == "." else os.path.join(here, name)  # noqa: PTH118
            found.append((os.fsencode(path), size, label))
        label += bool(images)
    longest = max((len(path) for path, _, _ in found), default=1)
    rows = np.array(found, [("path", f"S{longest}"), ("bytes", np.int64), ("label", np.int32)])
    if found and max(folders.values()) < begun - _SETTLED_NANOSECONDS:
        about = {"folder": str(folder.resolve()), "images": len(rows), "folders": folders}
        # If the cache cannot be written, the next run lists the files again.
        with suppress(OSError, DataError):
            (kept_in := _cache_folder(folder)).mkdir(parents=True, exist_ok=True)
            (kept_in / ABOUT).unlink(missing_ok=True)
            save_array(kept_in / ROWS, rows)
            write_whole(kept_in / ABOUT, json.dumps(about))
    return Manifest(folder, rows)


def save_array(path: Path, values: np.ndarray) -> None:
    """Write an array into a .npy file, whole or not at all."""
    np.save(buffer := io.BytesIO(), values)
    write_whole(path, buffer.getvalue())


def _refuse_unlisted(error: OSError) -> None:
    """Raise `DataError`: a list without this folder would be incomplete, and be cached."""
    raise DataError(
        f"cannot list the folder '{error.filename}' ({error.strerror or error})",
        hint="check its rights and its disk",
    ) from error


IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg"})
JPEG_FILES = "jpeg-files"


class JpegFiles:
    """A `SampleSource` over the JPEG files beneath a folder."""

    storage_format = JPEG_FILES

    def __init__(self, folder: Path) -> None:
        self._manifest = manifest_of(folder, IMAGE_SUFFIXES)
        self.files: Sequence[Path] = self._manifest
        if not self.files:
            raise UsageError(f"no JPEG files beneath '{folder}'", hint="name a folder of them")

    def __len__(self) -> int:
        return len(self.files)

    def read(self, index: int) -> Sample:
        path = self.files[index]
        try:
            return Sample(SampleKind.JPEG, path.read_bytes(), self._manifest.label(index))
        except OSError as error:
            raise DataError(f"cannot read '{path}': {error.strerror}") from error

    def name(self, index: int) -> str:
        return f"'{self.files[index]}'"


def write_files(folder: Path, samples: Iterable[Sample]) -> None:
    """Write each sample to `CLASS/NUMBER.jpg`."""
    for number, sample in enumerate(samples):
        directory = folder / f"{sample.label:05d}"
        directory.mkdir(exist_ok=True)
        (directory / f"{number:08d}.jpg").write_bytes(sample.content)


class SampleKind(StrEnum):
    """The encoding of a stored sample.

    `pixels`: decoded uint8 planes blue, green and red, each of height x width, as in Caffe."""

    JPEG = "jpeg"
    PIXELS = "pixels"


class Sample(NamedTuple):
    """One stored sample. `height` and `width` are 0 unless it has decoded pixels."""

    kind: SampleKind
    content: bytes
    label: int = 0
    height: int = 0
    width: int = 0


class SampleSource(Protocol):
    """Stored samples, readable by number in any order.

    It is cheap to copy to loader processes: it has an index and paths, and each process opens the files.
    `files` are all files with samples, so that they can be dropped from the page cache."""

    storage_format: str
    files: Sequence[Path]

    def __len__(self) -> int:
        """The number of samples."""

    def read(self, index: int) -> Sample:
        """The sample as stored. Raises `DataError` with its name if it cannot be read."""

    def name(self, index: int) -> str:
        """The sample's name in messages: its file and its position in the file."""


def stored_bytes(source: SampleSource) -> int:
    """The size of all files with samples, from the manifest if there is one."""
    if isinstance(source.files, Manifest):
        return source.files.total_bytes
    return sum(file.stat().st_size for file in source.files)


class LatencyInjected:
    """A `SampleSource` whose reads from the disk take at least `seconds`.

    The kernel limits bandwidth and IOPS, but has no limit for latency. Reads from the page cache are not
    delayed: the kernel's count of blocks that this thread read tells them apart."""

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
