"""The part `disk`: what fio would report of the disk behind a folder, for reading."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial

from advisor.domain import MIB
from advisor.sweeps.machine.mounts import MEMORY_FILE_SYSTEMS, describe_disk
from advisor.sweeps.probe.figures import Document, figure
from advisor.sweeps.probe.reading import (
    Opened,
    Pattern,
    TimedRead,
    opened_past_cache,
    scratch_file,
    timed_read,
)
from advisor.sweeps.probe.session import Session
from advisor.sweeps.probe.timing import LEAST_REPEATS

KIB = 2**10
_DEPTHS = (1, 16)
_KINDS = {
    "sequential_1mib": Pattern(block_bytes=MIB, depth=1, at_random=False),
    "random_4kib": Pattern(block_bytes=4 * KIB, depth=1, at_random=True),
    "random_128kib": Pattern(block_bytes=128 * KIB, depth=1, at_random=True),
}
# Python reads a block in some 10 us of CPU time, one thread at a time.
_OWN_CPU_IS_THE_LIMIT = 0.8


def probe(session: Session) -> Document:
    """Rates, IOPS and latencies of the disk at the session's folder, 1 and 16 reads at a time.

    Raises `MeasuringError` when the folder cannot be written or is full.
    """
    budget = session.budget
    with (
        scratch_file(session.disk, budget.disk_file_mib * MIB, budget.disk_write) as written,
        opened_past_cache(*written) as file,
    ):
        facts = describe_disk(session.disk)
        _warn(session, facts, file)
        return {
            **facts,
            "file_mib": file.size_bytes / MIB,
            "past_page_cache": file.direct and facts.get("file_system") not in MEMORY_FILE_SYSTEMS,
            **{
                f"{kind}_depth_{depth}": session.attempt(partial(_measured, session, file, kind, depth))
                for kind in _KINDS
                for depth in _DEPTHS
            },
        }


def _warn(session: Session, facts: Document, file: Opened) -> None:
    kind = facts.get("file_system")
    if kind in MEMORY_FILE_SYSTEMS:
        session.warnings.append(
            f"disk: '{facts['path']}' is {kind}, so memory was measured; name a folder on a disk with --disk"
        )
    elif not file.direct:
        session.warnings.append(
            f"disk: {kind or 'the file system'} refuses O_DIRECT; reads went through the page "
            "cache, and caches below it may have answered"
        )


def _measured(session: Session, file: Opened, kind: str, depth: int) -> Document:
    entry = _KINDS[kind]
    pattern = Pattern(block_bytes=entry.block_bytes, depth=depth, at_random=entry.at_random)
    seconds = session.budget.disk_window
    timed_read(file, pattern, seconds / 4)
    windows = [timed_read(file, pattern, seconds) for _ in range(LEAST_REPEATS)]
    return _figures(windows, pattern, _method(file, pattern))


def _figures(windows: Sequence[TimedRead], pattern: Pattern, method: str) -> Document:
    rates = [window.reads_per_second for window in windows]
    busy = sum(entry.processor_seconds for entry in windows) / sum(entry.wall_seconds for entry in windows)
    result: Document = {"rate": figure([rate * pattern.block_bytes / MIB for rate in rates], "MiB/s", method)}
    if pattern.at_random:
        result["iops"] = figure(rates, "reads/s", method)
    return result | {
        "latency_median": figure([_percentile(entry, 50) for entry in windows], "us", method),
        "latency_p99": figure([_percentile(entry, 99) for entry in windows], "us", method),
        "limited_by_own_cpu": busy >= _OWN_CPU_IS_THE_LIMIT,
    }


def _percentile(window: TimedRead, percent: int) -> float:
    """Microseconds."""
    microseconds = [latency * 1e6 for latency in window.latencies]
    if len(microseconds) == 1:
        return microseconds[0]
    return statistics.quantiles(microseconds, n=100, method="inclusive")[percent - 1]


def _method(file: Opened, pattern: Pattern) -> str:
    order = "at random" if pattern.at_random else "in order"
    how = "O_DIRECT" if file.direct else "buffered, the page cache emptied before each repeat"
    threads = f"{pattern.depth} threads" if pattern.depth > 1 else "1 thread"
    return f"{pattern.block_bytes // KIB} KiB blocks {order} by {threads}, {how}"
