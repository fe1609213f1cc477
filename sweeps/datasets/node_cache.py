"""A cache of remote data sets on this machine: downloaded once, read by all, least recently used removed.

Each data set has a folder, renamed into place when complete, and a lock file next to it. A download holds the
lock exclusively and readers share it, so that the kernel releases it when a process is killed. A killed
download keeps its files, and the next one continues from there."""

from __future__ import annotations

import fcntl
import filecmp
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice
from pathlib import Path
from threading import Event
from typing import IO, Any

from msgspec import Struct
from msgspec.structs import astuple, replace

from advisor.domain import DatasetProfile
from advisor.errors import DataError, UsageError
from advisor.files import data_cache_folder, system_errors, write_whole
from advisor.messages import format_mib
from advisor.records import asdict
from advisor.sweeps.datasets.opening import PROFILE_FILE, profile_in
from advisor.sweeps.datasets.remote import RemoteFile, RemoteFolder, name_of, remote_folder
from advisor.sweeps.events import emit

ABOUT, LOCK, FILLING = "about.json", ".lock", ".filling"
_LEFT_FREE_SHARE = 0.05
_GIB = 2**30


def make_room(entry: Path, size: int, missing: int) -> None:
    """Remove the least recently used data sets until the `missing` bytes fit on the disk, and all `size`
    bytes of the new one into `ADVISOR_DATA_CACHE_GIB`. Data sets that are being read or downloaded stay."""
    limit_bytes, root, own = _limit_bytes(), entry.parent, (entry.name, entry.name + FILLING)
    others = sorted(
        (path for path in root.iterdir() if path.is_dir() and path.name not in own), key=_last_used
    )
    for other in [*others, None]:
        disk = shutil.disk_usage(root)
        fits = missing <= disk.free - _LEFT_FREE_SHARE * disk.total
        if fits and sum(held.bytes for held in map(_complete, others) if held) + size <= limit_bytes:
            return
        if other and _try_remove(other):
            others.remove(other)
    limit = f"{limit_bytes / _GIB:g} GiB" if limit_bytes < math.inf else "all of it"
    raise DataError(
        f"{format_mib(size / 2**20)} do not fit into '{root}' ({format_mib(disk.free / 2**20)} "
        f"free, the cache may take {limit})",
        hint="name a larger disk with ADVISOR_DATA_CACHE, or raise ADVISOR_DATA_CACHE_GIB",
    )


def _limit_bytes() -> float:
    text = os.environ.get("ADVISOR_DATA_CACHE_GIB", "") or "inf"
    with suppress(ValueError):
        if (gib := float(text)) > 0:
            return gib * _GIB
    raise UsageError(f"ADVISOR_DATA_CACHE_GIB is no size: '{text}'", hint="write a number of GiB, as 200")


def _last_used(entry: Path) -> float:
    """When the entry was last used (seconds since 1970); 0 if it is incomplete or not ours."""
    with suppress(OSError):
        return (entry / ABOUT).stat().st_mtime
    return 0.0


def _try_remove(entry: Path) -> bool:
    """Remove an entry; returns False if it is being read, or is not ours."""
    lock_file = entry.with_name(entry.name.removesuffix(FILLING) + LOCK)
    try:
        with lock_file.open("r+b") as lock:  # an entry without a lock file is not ours
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (entry / ABOUT).unlink(missing_ok=True)  # from here on it is no complete data set
            shutil.rmtree(entry, ignore_errors=True)
    except OSError:
        return False
    return True


Progress = Callable[[int, int], None]
_LISTING = "files.jsonl"
_PART = ".advisor-part"
_DOWNLOADS = 16
_TOGETHER = 1000
_TRIES = 3
_MOST_PROFILE_BYTES = 1 << 20


class CachedData(Struct, frozen=True, kw_only=True):
    """A data set on this machine. `fill_seconds`: the duration of the download that completed it.
    `fetched_bytes`: downloaded by this call, 0 if the data set was here."""

    address: str
    path: Path
    files: int
    bytes: int
    filled_at: str
    fill_seconds: float
    fetched_bytes: int = 0

    @property
    def facts(self) -> dict[str, Any]:
        """Facts for a measurement's environment; the download is not part of the timed run."""
        document = asdict(self)
        del document["path"]
        return document


@contextmanager
def cached_data(address: str, on_progress: Progress = lambda _here, _all: None) -> Iterator[CachedData]:
    """The local copy of the data set at an address, downloaded if it is missing; it is not removed inside the
    block.

    `on_progress` gets (files here, all files). Raises `AdvisorError` with a hint; files downloaded before the
    error are kept for the next attempt."""
    address = address.rstrip("/")
    entry = _entry_of(address)
    root = entry.parent
    with ExitStack() as held:
        way_out = "free some space, or name another folder with ADVISOR_DATA_CACHE"
        with system_errors(DataError, f"cannot keep {address} in '{root}'", hint=way_out):
            root.mkdir(parents=True, exist_ok=True)
            lock = held.enter_context((root / (entry.name + LOCK)).open("ab"))
            cached = _locked_data(lock, entry, address, on_progress)
        yield cached


def is_cached(address: str) -> bool:
    """True if the complete data set is on this machine."""
    return _complete(_entry_of(address.rstrip("/"))) is not None


def remote_profile(address: str) -> DatasetProfile | None:
    """The profile in the data set's `profile.json`; None without one. Raises the errors of `cached_data`."""
    folder, most = remote_folder(address), _MOST_PROFILE_BYTES
    for file in folder.files(PROFILE_FILE):
        if file.path == PROFILE_FILE and file.size <= most:
            return profile_in(b"".join(folder.read(file)))
    return None


def _entry_of(address: str) -> Path:
    """The folder of an address; its name has a hash of the store, as two stores may share a bucket's name."""
    identity = address + remote_folder(address).store
    digest = sha256(identity.encode()).hexdigest()[:12]
    return data_cache_folder() / f"{name_of(address)}-{digest}"


def _locked_data(lock: IO[bytes], entry: Path, address: str, on_progress: Progress) -> CachedData:
    filled: CachedData | None = None
    while True:
        fcntl.flock(lock, fcntl.LOCK_SH)
        if existing := _complete(entry):
            os.utime(entry / ABOUT)  # marks the time of the last use
            return filled or existing
        fcntl.flock(lock, fcntl.LOCK_EX)  # waits for a running download
        if not _complete(entry):
            filled = _Fill(address, entry, on_progress).run()


def _complete(entry: Path) -> CachedData | None:
    with suppress(OSError, ValueError, TypeError, KeyError):
        about = json.loads((entry / ABOUT).read_bytes())
        return CachedData(path=entry / about.pop("path"), **about)
    return None


class _Fill:
    """Downloads one data set into `entry`; the caller holds the entry's lock exclusively."""

    def __init__(self, address: str, entry: Path, on_progress: Progress) -> None:
        self._address, self._entry, self._on_progress = address, entry, on_progress
        self._folder: RemoteFolder = remote_folder(address)
        self._unfinished = entry.with_name(entry.name + FILLING)
        self._data = self._unfinished / name_of(address)
        self._stopped = Event()
        self._fetched_bytes = 0

    def run(self) -> CachedData:
        begun = time.monotonic()
        files, size = self._list()
        missing = sum(file.size for file in self._listed() if not self._is_here(file))
        make_room(self._entry, size, missing)
        self._bring_all(files)
        single = files == 1 and (self._data / self._data.name).is_file()
        path = self._data / self._data.name if single else self._data
        inside = path.relative_to(self._unfinished)
        whole = CachedData(
            address=self._address,
            path=self._entry / inside,
            files=files,
            bytes=size,
            filled_at=datetime.now(UTC).isoformat(timespec="seconds"),
            fill_seconds=round(time.monotonic() - begun, 3),
        )
        write_whole(self._unfinished / ABOUT, json.dumps({**asdict(whole), "path": str(inside)}))
        # Only clean pages can be dropped from the page cache, as cold trials need.
        os.sync()
        shutil.rmtree(self._entry, ignore_errors=True)
        self._unfinished.rename(self._entry)
        fetched = replace(whole, fetched_bytes=self._fetched_bytes)
        emit("data_fetched", **fetched.facts)
        return fetched

    def _list(self) -> tuple[int, int]:
        """List the remote files; returns their number and bytes. If they are not those of an earlier attempt,
        all are downloaded again."""
        self._unfinished.mkdir(exist_ok=True)
        listing, fresh = self._unfinished / _LISTING, self._unfinished / f"{_LISTING}{_PART}"
        files, size = 0, 0
        with fresh.open("w") as out:
            for file in self._folder.files():
                # A store allows any name; a name must not lead out of the folder.
                if any(part in ("", ".", "..") for part in file.path.split("/")) or "\0" in file.path:
                    raise DataError(
                        f"'{file.path}' cannot be the name of a file here", hint="name a folder without it"
                    )
                out.write(json.dumps(astuple(file)) + "\n")
                files, size = files + 1, size + file.size
        if not files:
            raise UsageError(
                f"there is nothing at {self._address}",
                field="data",
                hint="compare the address with what your store lists",
            )
        if not (listing.exists() and filecmp.cmp(listing, fresh, shallow=False)):
            shutil.rmtree(self._data, ignore_errors=True)
        fresh.replace(listing)
        return files, size

    def _listed(self) -> Iterator[RemoteFile]:
        with (self._unfinished / _LISTING).open() as listing:
            for line in listing:
                yield RemoteFile(*json.loads(line))

    def _is_here(self, file: RemoteFile) -> bool:
        try:
            return (self._data / file.path).stat().st_size == file.size
        except OSError:
            return False

    def _bring_all(self, files: int) -> None:
        coming, here = self._listed(), 0
        with ThreadPoolExecutor(_DOWNLOADS) as pool:
            try:
                while batch := list(islice(coming, _TOGETHER)):
                    for fetched_bytes in pool.map(self._bring, batch):
                        self._fetched_bytes += fetched_bytes
                        here += 1
                        self._on_progress(here, files)
            except BaseException:
                self._stopped.set()
                pool.shutdown(cancel_futures=True)
                raise

    def _bring(self, file: RemoteFile) -> int:
        """Download one file unless it is here; returns the number of downloaded bytes."""
        if self._is_here(file):
            return 0
        target = self._data / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        for left in reversed(range(_TRIES)):
            try:
                self._fetch(file, target)
                break
            except DataError:
                if not left or self._stopped.wait(1):
                    raise
        return file.size

    def _fetch(self, file: RemoteFile, target: Path) -> None:
        """Download into a temporary file next to the target, and rename it if it is complete."""
        part, size = target.with_name(target.name + _PART), 0
        with part.open("wb") as out:
            for content in self._folder.read(file):
                if self._stopped.is_set():
                    break
                size += out.write(content)
        if size != file.size:
            raise DataError(
                f"'{file.path}' of {self._address} did not come whole",
                hint="run the command again: it continues",
            )
        part.replace(target)
