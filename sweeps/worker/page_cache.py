"""The page cache of a data set: emptied, filled as a trial's memory allows, and looked at."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from advisor.errors import DataError

_SYS_CACHESTAT = 451  # Linux 6.5 and later, the same number on all architectures
_CHUNK_BYTES = 1 << 20


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _CacheStat(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64) for name in ("cached", "dirty", "writeback", "evicted", "recently_evicted")
    )


def evict(paths: Iterable[Path]) -> None:
    """Drop the files from the page cache. Pages not yet written to disk stay."""
    for path in paths:
        with _opened(path) as file:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def fill(paths: Iterable[Path], limit_bytes: float) -> int:
    """Read files in the given order until `limit_bytes` were read; returns the bytes read.

    A file may be the whole data set (a shard, a database), so it stops inside one, too. Pages
    are charged to the reader's memory cgroup, so a trial must fill its own cache.
    """
    total = 0
    for path in paths:
        if total >= limit_bytes:
            break
        with _opened(path) as file:
            while total < limit_bytes and (chunk := os.read(file, _CHUNK_BYTES)):
                total += len(chunk)
    return total


def cached_share(paths: Sequence[Path]) -> float | None:
    """Share of the files' pages that are in the page cache; None where the kernel cannot say."""
    page = os.sysconf("SC_PAGE_SIZE")
    cached, pages = 0, 0
    for path in paths:
        with _opened(path) as file:
            count = _cached_pages(file)
            if count is None:
                return None
            cached += count
            pages += -(-os.fstat(file).st_size // page)
    return cached / pages if pages else None


def _cached_pages(file: int) -> int | None:
    whole, answer = _Range(0, 0), _CacheStat()
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.syscall(_SYS_CACHESTAT, file, ctypes.byref(whole), ctypes.byref(answer), 0)
    return None if failed else int(answer.cached)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Raises `DataError` that names the file, also where it fails only while it is read."""
    try:
        file = os.open(path, os.O_RDONLY)
        try:
            yield file
        finally:
            os.close(file)
    except OSError as error:
        raise DataError("cannot read '{path}': {strerror}", path=path, strerror=error.strerror) from error
