"""The list of images below a folder: made once, and kept among the user's caches.

A kept manifest is two files. `files.txt` has a line for each image (bytes, number of its class, path beneath
the folder), `about.json` the folder's profile, and when each folder in it was last changed: a file that came,
went or was renamed since makes the manifest void. A million lines are mapped into memory, not read.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, overload

import numpy as np

from advisor.domain import DatasetProfile
from advisor.errors import DataError
from advisor.files import manifests_folder, write_whole
from advisor.records import asdict

LISTING, ABOUT = "files.txt", "about.json"
_LINE = b"%13d %7d %s\n"
_LABEL_AT, _PATH_AT = 14, 22
_END_OF_LINE = 10
_SEARCHED_BYTES = 1 << 20
# File systems count time in steps: what changed that recently may change again unseen.
_SETTLED_NANOSECONDS = 2_000_000_000


class Manifest(Sequence[Path]):
    """The images of a folder as paths, in a fixed order, each with the number of its class."""

    def __init__(self, folder: Path, listing: IO[bytes]) -> None:
        self._folder = folder
        self.listing_bytes = os.fstat(listing.fileno()).st_size
        whole = self.listing_bytes > 0
        self._lines = np.memmap(listing, np.uint8, "r") if whole else np.zeros(0, np.uint8)
        self._ends = np.concatenate([np.zeros(0, np.int64), *_line_ends(self._lines)])

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> Path: ...
    @overload
    def __getitem__(self, index: slice) -> list[Path]: ...
    def __getitem__(self, index: int | slice) -> Path | list[Path]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        return self._folder / os.fsdecode(self._line(index)[_PATH_AT:])

    def label(self, index: int) -> int:
        """The number of the folder that the image lies in, counted from 0."""
        return int(self._line(index)[_LABEL_AT:_PATH_AT])

    @property
    def total_bytes(self) -> int:
        """Bytes of all images."""
        return sum(int(self._line(index)[:_LABEL_AT]) for index in range(len(self)))

    def _line(self, index: int) -> bytes:
        end = int(self._ends[index])
        begin = int(self._ends[index - 1]) + 1 if index % len(self) else 0
        return self._lines[begin:end].tobytes()


def manifest_of(folder: Path, suffixes: frozenset[str]) -> Manifest:
    """The manifest of all files with such a suffix, in lower case: the kept one, else a new one.

    Raises `DataError` for a name with a line break, and for a folder that cannot be listed.
    """
    return kept_manifest(folder) or _made(folder, suffixes)


def kept_manifest(folder: Path) -> Manifest | None:
    """The one that was made before; None without, and where the folder has changed since."""
    about = _kept_about(folder)
    with suppress(OSError), (_kept_in(folder) / LISTING).open("rb") as listing:
        manifest = Manifest(folder, listing)
        if about and manifest.listing_bytes == about["listing_bytes"]:
            return manifest
    return None


def is_kept(folder: Path) -> bool:
    """Whether there is one, and the folder has not changed since."""
    return _kept_about(folder) is not None


def kept_profile(folder: Path) -> DatasetProfile | None:
    """The profile that `keep_profile` kept, where the folder has not changed since."""
    about = _kept_about(folder)
    with suppress(KeyError, TypeError, ValueError):
        return DatasetProfile(**about["profile"]) if about else None
    return None


def keep_profile(folder: Path, profile: DatasetProfile) -> None:
    """Keep it with the folder's manifest, where there is one."""
    about = _kept_about(folder)
    if about and "profile" not in about:
        with suppress(DataError):
            write_whole(_kept_in(folder) / ABOUT, json.dumps({**about, "profile": asdict(profile)}))


def _kept_in(folder: Path) -> Path:
    return manifests_folder() / sha256(os.fsencode(folder.resolve())).hexdigest()[:16]


def _kept_about(folder: Path) -> dict[str, Any] | None:
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        about: dict[str, Any] = json.loads((_kept_in(folder) / ABOUT).read_bytes())
        changed = about["folders"].items()
        if all((folder / name).stat().st_mtime_ns == when for name, when in changed):
            return about
    return None


def _made(folder: Path, suffixes: frozenset[str]) -> Manifest:
    with tempfile.TemporaryFile() as listing:
        folders: dict[str, int] = {}
        begun = time.time_ns()
        for lines in _lines(folder, suffixes, folders):
            listing.write(lines)
        listing.flush()
        manifest = Manifest(folder, listing)
        if len(manifest) and max(folders.values()) < begun - _SETTLED_NANOSECONDS:
            listing.seek(0)
            _keep(folder, listing, folders, manifest.listing_bytes)
        return manifest


def _keep(folder: Path, listing: IO[bytes], folders: dict[str, int], size: int) -> None:
    """Keeps the manifest; where the cache cannot be written, the next run lists the files again."""
    kept_in, about = _kept_in(folder), {"folder": str(folder.resolve()), "listing_bytes": size}
    with suppress(OSError, DataError):
        kept_in.mkdir(parents=True, exist_ok=True)
        (kept_in / ABOUT).unlink(missing_ok=True)
        write_whole(kept_in / LISTING, listing.read())
        write_whole(kept_in / ABOUT, json.dumps({**about, "folders": folders}))


def _lines(folder: Path, suffixes: frozenset[str], folders: dict[str, int]) -> Iterator[bytes]:
    """The lines of each folder's images, folder by folder; `folders` gets their times of change."""
    label = 0
    for directory, inner, names in os.walk(folder, onerror=_refuse_unlisted):
        # At the root of a mounted disk, for the system alone.
        inner[:] = sorted(name for name in inner if name != "lost+found")
        here = os.path.relpath(directory, folder)
        folders[here] = os.stat(directory).st_mtime_ns  # noqa: PTH116 - a million may follow
        images = sorted(name for name in names if os.path.splitext(name)[1].lower() in suffixes)  # noqa: PTH122 - a million of them
        beneath = "" if here == "." else here + os.sep
        yield b"".join(_line(directory, beneath, name, label) for name in images)
        label += bool(images)


def _refuse_unlisted(error: OSError) -> None:
    """Without this folder the list would be short, and be kept."""
    raise DataError(
        "cannot list the folder '{folder}' ({reason})",
        folder=error.filename,
        reason=error.strerror or error,
        hint="check its rights and its disk",
    ) from error


def _line(parent: str, beneath: str, name: str, label: int) -> bytes:
    path = os.path.join(parent, name)  # noqa: PTH118
    if "\n" in beneath + name:
        raise DataError("{path} has a line break in its name", hint="rename it", path=repr(path))
    size = 0  # of a link that leads nowhere: to read it names it
    with suppress(OSError):
        size = os.stat(path).st_size  # noqa: PTH116
    return _LINE % (size, label, os.fsencode(beneath + name))


def _line_ends(lines: np.ndarray) -> Iterator[np.ndarray]:
    """Offsets of line ends, part by part: a comparison of the whole file at once would double the memory."""
    for first in range(0, len(lines), _SEARCHED_BYTES):
        part = np.asarray(lines[first : first + _SEARCHED_BYTES])
        yield np.flatnonzero(part == _END_OF_LINE) + first
