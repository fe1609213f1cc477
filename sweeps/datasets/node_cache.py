"""Data sets of other places, kept on this machine: filled once, read by all, the oldest removed.

Each data set has a folder of its own that takes its name when all of it is there, and beside it a
lock: held by who fills it alone, and shared by those that read it, so that it ends with a process
that is killed. What a killed fill has brought is kept, and the next one goes on from there.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, astuple, dataclass, replace
from datetime import UTC, datetime
from filecmp import cmp
from hashlib import md5, sha256
from itertools import islice
from pathlib import Path
from threading import Event
from typing import IO, Any

from advisor.domain import DatasetProfile
from advisor.errors import DataError, UsageError
from advisor.files import write_whole
from advisor.messages import Message
from advisor.places import data_cache_folder
from sweeps.datasets.opening import PROFILE_FILE, profile_in
from sweeps.datasets.remote import RemoteFile, RemoteFolder, name_of, remote_folder
from sweeps.events import emit

Progress = Callable[[int, int], None]
_ABOUT, _LISTING, _LOCK, _FILLING, _GONE = "about.json", "files.jsonl", ".lock", ".filling", ".gone"
_PART = ".advisor-part"
_DOWNLOADS = 16
_TOGETHER = 1000
_TRIES = 3
_LEFT_FREE_SHARE = 0.05
_GIB = 2**30
_MD5_DIGITS = 32
_MOST_PROFILE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedData:
    """A data set on this machine. `fill_seconds` is how long it took to bring what was missing of
    it, `fetched_bytes` what this call brought of it: 0 where all of it was here."""

    address: str
    path: Path
    files: int
    bytes: int
    filled_at: str
    fill_seconds: float
    fetched_bytes: int = 0

    @property
    def facts(self) -> dict[str, Any]:
        """As a measurement has it; nothing of this is part of what was timed."""
        document = asdict(self)
        del document["path"]
        return document


@contextmanager
def cached_data(
    address: str, on_progress: Progress = lambda _here, _all: None
) -> Iterator[CachedData]:
    """The data set of an address on this machine, brought now if it is not here; nobody removes it
    inside of the block.

    `on_progress` gets (files here, all files). Raises `AdvisorError` with the way out; what was
    brought until then stays for the next time.
    """
    entry = _entry_of(address)
    root = entry.parent
    with ExitStack() as held:
        try:
            root.mkdir(parents=True, exist_ok=True)
            lock = held.enter_context((root / (entry.name + _LOCK)).open("ab"))
            cached = _held(lock, entry, address, on_progress)
        except OSError as error:
            raise DataError(
                "cannot keep {address} in '{folder}' ({reason})", address=address, folder=root,
                reason=error.strerror or error,
                hint="free some space, or name another folder with ADVISOR_DATA_CACHE",
            ) from error  # fmt: skip
        yield cached


def is_cached(address: str) -> bool:
    """Whether all of it is here now."""
    return _complete(_entry_of(address), address) is not None


def remote_profile(address: str) -> DatasetProfile | None:
    """What the `profile.json` says that lies with the data; None without one. Raises as
    `cached_data` does."""
    folder, most = remote_folder(address), _MOST_PROFILE_BYTES
    for file in folder.files(PROFILE_FILE):
        if file.path == PROFILE_FILE and file.size <= most:
            return profile_in(b"".join(folder.read(file.key)))
    return None


def _entry_of(address: str) -> Path:
    digest = sha256(address.encode()).hexdigest()[:12]
    return data_cache_folder() / f"{name_of(address)}-{digest}"


def _held(lock: IO[bytes], entry: Path, address: str, on_progress: Progress) -> CachedData:
    """The complete data set, under a shared lock."""
    filled: CachedData | None = None
    while True:
        fcntl.flock(lock, fcntl.LOCK_SH)
        if existing := _complete(entry, address):
            os.utime(entry / _ABOUT)  # when it was last used
            return filled or existing
        fcntl.flock(lock, fcntl.LOCK_EX)  # who fills it now is waited for
        if not _complete(entry, address):
            filled = _Fill(address, entry, on_progress).run()


def _complete(entry: Path, address: str) -> CachedData | None:
    with suppress(OSError, ValueError, TypeError, KeyError):
        about = json.loads((entry / _ABOUT).read_bytes())
        if about["address"] == address:
            return CachedData(path=entry / about.pop("path"), **about)
    return None


class _Fill:
    """Brings one data set into `entry`; whoever calls holds its lock alone."""

    def __init__(self, address: str, entry: Path, on_progress: Progress) -> None:
        self._address, self._entry, self._on_progress = address, entry, on_progress
        self._folder: RemoteFolder = remote_folder(address)
        self._unfinished = entry.with_name(entry.name + _FILLING)
        self._data = self._unfinished / name_of(address)
        self._stopped = Event()
        self._tags_are_md5 = True
        self._fetched_bytes = 0

    def run(self) -> CachedData:
        """Everything there, under its name."""
        begun = time.monotonic()
        files, size = self._list()
        missing = sum(file.size for file in self._listed() if not self._is_here(file))
        _make_room(self._entry, missing=missing, whole=size)
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
        about = {**asdict(whole), "path": str(inside)}
        write_whole(self._unfinished / _ABOUT, json.dumps(about))
        # Only clean pages can be dropped from the page cache, as cold trials need.
        os.sync()
        shutil.rmtree(self._entry, ignore_errors=True)
        self._unfinished.rename(self._entry)
        fetched = replace(whole, fetched_bytes=self._fetched_bytes)
        emit("data_fetched", **fetched.facts)
        return fetched

    def _list(self) -> tuple[int, int]:
        """Write what there is; returns files and bytes. What an earlier fill brought is worth
        something only where the same is still there."""
        self._unfinished.mkdir(exist_ok=True)
        listing, fresh = self._unfinished / _LISTING, self._unfinished / f"{_LISTING}{_PART}"
        files = size = 0
        with fresh.open("w") as out:
            for file in self._folder.files():
                _refuse_strange(file)
                out.write(json.dumps(astuple(file)) + "\n")
                files, size = files + 1, size + file.size
        if not files:
            raise UsageError(
                "there is nothing at {address}", address=self._address, field="data",
                hint="compare the address with what your store lists",
            )  # fmt: skip
        if not (listing.exists() and cmp(listing, fresh, shallow=False)):
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
                    for _ in pool.map(self._bring, batch):
                        here += 1
                        self._on_progress(here, files)
            except BaseException:
                self._stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _bring(self, file: RemoteFile) -> None:
        """Fetch one file unless it is here; it takes its name once it is whole."""
        if self._is_here(file):
            return
        target, digests = self._data / file.path, set[str]()
        target.parent.mkdir(parents=True, exist_ok=True)
        for left in reversed(range(_TRIES)):
            try:
                digest = self._fetch(file, target)
            except DataError:
                if not left or self._stopped.wait(1):
                    raise
                continue
            # A tag looks like an MD5 and is none where the store encrypts with keys of its own:
            # then the same comes twice.
            if digest in digests:
                self._tags_are_md5 = False
            if not self._tags_are_md5 or not _is_md5(file.tag) or file.tag == digest:
                target.with_name(target.name + _PART).replace(target)
                self._fetched_bytes += file.size
                return
            digests.add(digest)
        raise self._incomplete(file)

    def _fetch(self, file: RemoteFile, target: Path) -> str:
        """Into a file beside the target; returns its MD5."""
        digest, size = md5(usedforsecurity=False), 0
        with target.with_name(target.name + _PART).open("wb") as out:
            for part in self._folder.read(file.key):
                if self._stopped.is_set():
                    raise self._incomplete(file)
                out.write(part)
                digest.update(part)
                size += len(part)
        if size != file.size:
            raise self._incomplete(file)
        return digest.hexdigest()

    def _incomplete(self, file: RemoteFile) -> DataError:
        return DataError(
            "'{path}' of {address} did not come whole", path=file.path, address=self._address,
            hint="run the command again: it continues",
        )  # fmt: skip


def _is_md5(tag: str) -> bool:
    return len(tag) == _MD5_DIGITS and set(tag) <= set("0123456789abcdef")


def _refuse_strange(file: RemoteFile) -> None:
    """Names of a store may be anything, and must not lead out of the folder."""
    if any(part in ("", ".", "..") for part in file.path.split("/")) or "\0" in file.path:
        raise DataError(
            "'{path}' cannot be the name of a file here", path=file.path,
            hint="name a folder without it",
        )  # fmt: skip


def _make_room(entry: Path, *, missing: int, whole: int) -> None:
    """Remove what was not used for longest until `missing` bytes fit on the disk, and the `whole`
    data set into `ADVISOR_DATA_CACHE_GIB`; never what is read or filled now."""
    root, limit_bytes = entry.parent, _limit_bytes()
    for gone in root.glob(f"*{_GONE}"):
        shutil.rmtree(gone, ignore_errors=True)
    others = [path for path in root.iterdir() if path.is_dir() and not _is_part_of(path, entry)]
    for other in [*sorted(others, key=_last_used), None]:
        disk = shutil.disk_usage(root)
        used = sum(map(_size, others))
        if missing <= disk.free - _LEFT_FREE_SHARE * disk.total and used + whole <= limit_bytes:
            return
        if other and _removed(other):
            others.remove(other)
    raise DataError(
        "{whole:mib} do not fit into '{folder}' ({free:mib} free, the cache may take {limit})",
        whole=whole / 2**20, folder=root, free=disk.free / 2**20,
        limit=f"{limit_bytes / _GIB:g} GiB" if limit_bytes < math.inf else Message("all of it"),
        hint="name a larger disk with ADVISOR_DATA_CACHE, or raise ADVISOR_DATA_CACHE_GIB",
    )  # fmt: skip


def _limit_bytes() -> float:
    text = os.environ.get("ADVISOR_DATA_CACHE_GIB", "")
    try:
        limit = float(text or "inf")
    except ValueError:
        limit = math.nan
    if not limit > 0:
        raise UsageError("ADVISOR_DATA_CACHE_GIB is no size: '{text}'", text=text,
                         hint="write a number of GiB, as 200")  # fmt: skip
    return limit * _GIB


def _is_part_of(path: Path, entry: Path) -> bool:
    return path.name in (entry.name, entry.name + _FILLING)


def _last_used(entry: Path) -> float:
    """0 for what was never finished, or is nothing of ours."""
    with suppress(OSError):
        return (entry / _ABOUT).stat().st_mtime
    return 0.0


def _size(entry: Path) -> int:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return int(json.loads((entry / _ABOUT).read_bytes())["bytes"])
    return 0


def _removed(entry: Path) -> bool:
    """Whether it could be: somebody may read it."""
    lock_of = entry.with_name(entry.name.removesuffix(_FILLING) + _LOCK)
    try:
        with lock_of.open("r+b") as lock:  # without one it is none of ours
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            gone = entry.with_name(f"{entry.name}{_GONE}")
            entry.rename(gone)
    except OSError:
        return False
    shutil.rmtree(gone, ignore_errors=True)
    return True
