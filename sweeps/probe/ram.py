"""The part `ram` of a probe: rates at which one thread and all threads read and copy memory (NumPy)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial

import numpy as np
import numpy.typing as npt

from advisor.errors import MeasuringError
from advisor.sweeps.machine.environment import allowed_cpus, free_memory_bytes, last_level_cache_mib
from advisor.sweeps.probe.session import Document, ProbeSession, figure, time_calls

_LEAST_BYTES = 128 * 2**20
_CACHE_MULTIPLE = 4
_MOST_BYTES_A_THREAD = 512 * 2**20  # one thread alone should not take ten seconds
_SHARE_OF_MEMORY = 0.2

Array = npt.NDArray[np.int64]
Work = Callable[[Array, Array], object]
# Name: description, bytes moved per byte of an array, work of a thread on its pair of arrays.
_WORKS: dict[str, tuple[str, int, Work]] = {
    "read": ("NumPy's maximum of int64", 1, lambda source, _: source.max()),
    "copy": (
        "NumPy's copyto of int64, bytes read and written counted",
        2,
        lambda source, target: np.copyto(target, source),
    ),
}


def probe(session: ProbeSession) -> Document:
    """GB/s (10**9 bytes) of reading and copying with one thread, and with one thread on each CPU."""
    cpus = allowed_cpus()
    array_bytes = _array_bytes(cpus)
    document: Document = {}
    for name, chosen in {"one_thread": cpus[-1:], "all_threads": cpus}.items():
        size = min(array_bytes, _MOST_BYTES_A_THREAD * len(chosen))
        with _pinned_threads(chosen, size) as run:
            document[name] = {work: session.attempt(partial(_figure, session, work, run)) for work in _WORKS}
        document[name] |= {"threads": len(chosen), "array_mib": size / 2**20}
    return document


def _array_bytes(cpus: Sequence[int]) -> int:
    """Four times the last-level caches, at least 128 MiB, at most a tenth of free memory."""
    wanted = max(_LEAST_BYTES, int(_CACHE_MULTIPLE * last_level_cache_mib(cpus) * 2**20))
    allowed = int(free_memory_bytes() * _SHARE_OF_MEMORY / 2)
    if allowed < _LEAST_BYTES:
        raise MeasuringError(
            f"only {allowed * 2 / _SHARE_OF_MEMORY / 2**20:.0f} MiB of memory are free",
            hint=f"{2 * _LEAST_BYTES / _SHARE_OF_MEMORY / 2**20:.0f} MiB are needed",
        )
    return min(wanted, allowed)


def _figure(session: ProbeSession, work: str, run: Callable[[Work], float]) -> Document:
    """The rate of a work; `run` does it on all threads and returns the bytes of one array."""
    method, moved, function = _WORKS[work]
    array_bytes = run(function)
    seconds = time_calls(lambda: run(function), session.budget.ram_figure)
    return figure([array_bytes * moved / second / 1e9 for second in seconds], "GB/s", method)


@contextmanager
def _pinned_threads(cpus: Sequence[int], array_bytes: int) -> Iterator[Callable[[Work], float]]:
    """A function that runs a work on one thread for each CPU, each with a part of both arrays.

    Each thread creates its part, so that the memory lies in the thread's NUMA node."""
    length = array_bytes // 8 // len(cpus)

    def touched_pair() -> tuple[Array, Array]:
        return np.ones(length, dtype=np.int64), np.zeros(length, dtype=np.int64) + 1

    with ExitStack() as stack:
        # 0 pins only the calling thread, not the process.
        threads = [
            stack.enter_context(ThreadPoolExecutor(1, "", os.sched_setaffinity, (0, {cpu}))) for cpu in cpus
        ]
        made = [thread.submit(touched_pair) for thread in threads]
        pairs = [entry.result() for entry in made]

        def run(work: Work) -> float:
            """Run the work on all threads; returns the bytes of one array."""
            ran = [thread.submit(work, *pair) for thread, pair in zip(threads, pairs, strict=True)]
            for entry in ran:
                entry.result()
            return length * 8 * len(cpus)

        yield run
