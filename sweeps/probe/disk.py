"""The part `disk` of a probe: read rates, IOPS and latencies of a folder's disk, as fio measures them."""

from __future__ import annotations

import errno
import itertools
import mmap
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from advisor.domain import MIB
from advisor.errors import MeasuringError
from advisor.sweeps.machine.environment import MEMORY_FILE_SYSTEMS, describe_disk
from advisor.sweeps.probe.session import LEAST_REPEATS, Document, ProbeSession, figure

_OFFSETS_SEED = 0


class Pattern(Struct, frozen=True, kw_only=True):
    """An access pattern: `depth` blocks are read at a time, each by one thread."""

    block_bytes: int
    depth: int
    at_random: bool


class TimedRead(Struct, frozen=True, kw_only=True):
    """The result of one timed read; `latencies` has the seconds of each block, at least one."""

    wall_seconds: float
    processor_seconds: float
    latencies: tuple[float, ...]

    @property
    def reads_per_second(self) -> float:
        """IOPS."""
        return len(self.latencies) / self.wall_seconds


class Opened(Struct, frozen=True, kw_only=True):
    """A file opened for reading; unless `direct`, reads go through the page cache."""

    descriptor: int
    size_bytes: int
    direct: bool


@contextmanager
def opened_past_cache(descriptor: int, size_bytes: int) -> Iterator[Opened]:
    """Open an open file again, with O_DIRECT if a read that way succeeds, else buffered."""
    path, direct = f"/proc/self/fd/{descriptor}", True
    with ExitStack() as stack:
        try:
            again = os.open(path, os.O_RDONLY | os.O_DIRECT)
            stack.callback(os.close, again)
            with mmap.mmap(-1, mmap.PAGESIZE) as buffer:
                os.preadv(again, [buffer], 0)
        except (OSError, AttributeError):
            again, direct = os.open(path, os.O_RDONLY), False
            stack.callback(os.close, again)
            os.posix_fadvise(again, 0, 0, os.POSIX_FADV_RANDOM)  # no reading ahead
        yield Opened(descriptor=again, size_bytes=size_bytes, direct=direct)


def timed_read(file: Opened, pattern: Pattern, seconds: float) -> TimedRead:
    """Read for about `seconds`; the pages of a buffered file are dropped from the cache first.

    Raises OSError if a read fails or is short."""
    if not file.direct:
        os.posix_fadvise(file.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    blocks = file.size_bytes // pattern.block_bytes
    in_order = itertools.count(random.Random(time.monotonic_ns()).randrange(blocks))
    stop = threading.Event()

    def offsets(thread: int) -> Iterator[int]:
        """Offsets for one thread; sequential threads share a counter, so that they form one stream."""
        draw = random.Random(f"{_OFFSETS_SEED}:{thread}:{time.monotonic_ns()}")
        while True:
            block = draw.randrange(blocks) if pattern.at_random else next(in_order) % blocks
            yield block * pattern.block_bytes

    with ThreadPoolExecutor(pattern.depth) as threads:
        start, processor = time.perf_counter(), time.process_time()
        readers = [
            threads.submit(_read, file, pattern, offsets(thread), stop) for thread in range(pattern.depth)
        ]
        try:
            stop.wait(seconds)
        finally:
            stop.set()  # after Ctrl-C too: leaving the block waits for the threads
        latencies = [latency for reader in readers for latency in reader.result()]
        wall, processor = time.perf_counter() - start, time.process_time() - processor
    return TimedRead(wall_seconds=wall, processor_seconds=processor, latencies=tuple(latencies))


def _read(file: Opened, pattern: Pattern, offsets: Iterator[int], stop: threading.Event) -> list[float]:
    latencies: list[float] = []
    with mmap.mmap(-1, pattern.block_bytes) as buffer:  # aligned to a page, as O_DIRECT requires
        while not (latencies and stop.is_set()):
            offset = next(offsets)
            start = time.perf_counter()
            count = os.preadv(file.descriptor, [buffer], offset)
            latencies.append(time.perf_counter() - start)
            if count != pattern.block_bytes:
                raise OSError(f"a read ended after {count} of {pattern.block_bytes} bytes")
    return latencies


_LEAST_BYTES = 16 * 2**20
_SHARE_OF_FREE_SPACE = 0.1
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def scratch_file(folder: Path, most_bytes: float, seconds: float) -> Iterator[tuple[int, int]]:
    """(descriptor, bytes) of a file of random bytes, already written to the disk.

    Its size is what can be written in `seconds`, between 16 MiB and `most_bytes` or a tenth of the free
    space. The file never has a name, so that no crash leaves it. Raises `MeasuringError` if the folder cannot
    be written or is full."""
    try:
        space = os.statvfs(folder)
        opened = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - closed below
    except OSError as error:
        raise MeasuringError(
            f"cannot write to '{folder}' ({error.strerror})", hint="name another folder with --disk"
        ) from error
    with opened as file:
        room = int(space.f_bavail * space.f_frsize * _SHARE_OF_FREE_SPACE)
        if room < _LEAST_BYTES:
            free, needed = room / _SHARE_OF_FREE_SPACE / MIB, _LEAST_BYTES / _SHARE_OF_FREE_SPACE
            raise MeasuringError(
                f"only {free:.0f} MiB are free at '{folder}', and {needed / MIB:.0f} MiB are "
                "needed (a tenth of it is used)",
                hint="name another folder with --disk",
            )
        size = _fill(file.fileno(), min(most_bytes, room), seconds)
        if size < _LEAST_BYTES:
            raise MeasuringError(f"'{folder}' ran out of space", hint="name another folder with --disk")
        yield file.fileno(), size


def _fill(descriptor: int, most_bytes: float, seconds: float) -> int:
    """Write incompressible random bytes up to a size or time; returns the bytes written."""
    generator, ends_at, written = np.random.default_rng(), time.monotonic() + seconds, 0
    try:
        while written + _LEAST_BYTES <= most_bytes and (not written or time.monotonic() < ends_at):
            written += os.write(descriptor, generator.bytes(_LEAST_BYTES))
            # Without it the time would be that of memory, and reads would meet pages not yet written.
            os.fdatasync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
    return written


KIB = 2**10
_DEPTHS = (1, 16)
_KINDS = {
    "sequential_1mib": Pattern(block_bytes=MIB, depth=1, at_random=False),
    "random_4kib": Pattern(block_bytes=4 * KIB, depth=1, at_random=True),
    "random_128kib": Pattern(block_bytes=128 * KIB, depth=1, at_random=True),
}
# Python needs about 10 us of CPU time a block, one thread at a time. Above this share, that is the limit.
_OWN_CPU_IS_THE_LIMIT = 0.8


def probe_disk(session: ProbeSession) -> Document:
    """Rates, IOPS and latencies of the disk of the session's folder, with 1 and 16 reads at a time.

    Raises `MeasuringError` if the folder cannot be written or is full."""
    budget = session.budget
    with (
        scratch_file(session.disk, budget.disk_file_mib * MIB, budget.disk_write) as written,
        opened_past_cache(*written) as file,
    ):
        facts = describe_disk(session.disk)
        kind = facts.get("file_system")
        if kind in MEMORY_FILE_SYSTEMS:
            session.warnings.append(
                f"disk: '{facts['path']}' is {kind}, so memory was measured; name a folder on a disk with "
                "--disk"
            )
        elif not file.direct:
            session.warnings.append(
                f"disk: {kind or 'the file system'} refuses O_DIRECT; reads went through the page "
                "cache, and caches below it may have answered"
            )
        return {
            **facts,
            "file_mib": file.size_bytes / MIB,
            "past_page_cache": file.direct and kind not in MEMORY_FILE_SYSTEMS,
            **{
                f"{kind}_depth_{depth}": session.attempt(partial(_measured, session, file, kind, depth))
                for kind in _KINDS
                for depth in _DEPTHS
            },
        }


def _measured(session: ProbeSession, file: Opened, kind: str, depth: int) -> Document:
    pattern = replace(_KINDS[kind], depth=depth)
    seconds = session.budget.disk_window
    timed_read(file, pattern, seconds / 4)
    windows = [timed_read(file, pattern, seconds) for _ in range(LEAST_REPEATS)]
    order = "at random" if pattern.at_random else "in order"
    how = "O_DIRECT" if file.direct else "buffered, the page cache emptied before each repeat"
    threads = f"{depth} threads" if depth > 1 else "1 thread"
    method = f"{pattern.block_bytes // KIB} KiB blocks {order} by {threads}, {how}"
    return _figures(windows, pattern, method)


def _figures(windows: Sequence[TimedRead], pattern: Pattern, method: str) -> Document:
    rates = [window.reads_per_second for window in windows]
    busy = sum(entry.processor_seconds for entry in windows) / sum(entry.wall_seconds for entry in windows)
    result: Document = {"rate": figure([rate * pattern.block_bytes / MIB for rate in rates], "MiB/s", method)}
    if pattern.at_random:
        result["iops"] = figure(rates, "reads/s", method)
    medians, p99s = 1e6 * np.array([np.percentile(window.latencies, (50, 99)) for window in windows]).T
    return result | {
        "latency_median": figure(medians.tolist(), "us", method),
        "latency_p99": figure(p99s.tolist(), "us", method),
        "limited_by_own_cpu": busy >= _OWN_CPU_IS_THE_LIMIT,
    }
