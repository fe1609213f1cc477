"""The part `decode`: how fast real JPEG files are decoded, with 1 to all hardware threads."""

from __future__ import annotations

import importlib.util
import math
import multiprocessing
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection

from advisor.errors import MeasuringError
from sweeps.datasets.photographs import make_sample
from sweeps.probe.boundaries import cpu_quota
from sweeps.probe.decoder import decode_on
from sweeps.probe.extras import missing
from sweeps.probe.figures import Document, figure, skipped
from sweeps.probe.session import Session
from sweeps.probe.timing import LEAST_REPEATS
from sweeps.probe.topology import thread_counts, threads_first_by_core
from sweeps.trial.limits.choosing import allowed_cpus, read_cores

_IMAGES = 24
_SHORTEST_WINDOW_SECONDS = 0.06
_METHOD = (
    "Pillow decodes, crops at random and resizes to 224x224 photographs of about 500x375 pixels "
    "held in memory; one process a hardware thread, pinned, every core's first thread first"
)
Decoders = Sequence[Connection]


def probe(session: Session) -> Document:
    """Rates by number of threads, and what the second thread of a core adds."""
    if importlib.util.find_spec("PIL") is None:
        raise missing("Pillow")
    images = [make_sample(random.Random(f"probe:{index}")) for index in range(_IMAGES)]
    cores = read_cores(allowed_cpus())
    # Under a quota more threads would only be throttled.
    cpus = threads_first_by_core(cores)[: max(1, math.ceil(min(cpu_quota(), len(cores))))]
    physical = len({cores[cpu] for cpu in cpus})
    counts = thread_counts(physical, len(cpus))
    window = max(_SHORTEST_WINDOW_SECONDS, session.budget.decode / len(counts) / LEAST_REPEATS)
    with _decoders(cpus, images) as decoders:
        rates = _rates(decoders, counts, window)
    return {
        "images": {"count": _IMAGES, "mean_bytes": sum(map(len, images)) / _IMAGES},
        "physical_cores": physical,
        "threads": {str(count): figure(rates[count], "images/s", _METHOD) for count in counts},
        "hyperthread_yield": _hyperthread_yield(rates, physical, len(cpus)),
    }


def _rates(decoders: Decoders, counts: Sequence[int], window: float) -> dict[int, list[float]]:
    """Images per second by number of threads; the counts take turns, so that a neighbour or a
    clock that changes touches all of them alike."""
    rates: dict[int, list[float]] = {count: [] for count in counts}
    for _ in range(LEAST_REPEATS):
        for count in counts:
            for decoder in decoders[:count]:
                decoder.send(window)
            answers = [decoder.recv() for decoder in decoders[:count]]
            rates[count].append(sum(done / seconds for done, seconds in answers))
    return rates


def _hyperthread_yield(rates: dict[int, list[float]], physical: int, threads: int) -> Document:
    if threads == physical:
        return skipped("one hardware thread a core is visible")
    shares = [
        every / first - 1 for every, first in zip(rates[threads], rates[physical], strict=True)
    ]
    method = f"rate with {threads} threads over rate with {physical} (one a core), less 1"
    return figure(shares, "ratio", method)


@contextmanager
def _decoders(cpus: Sequence[int], images: Sequence[bytes]) -> Iterator[Decoders]:
    """One process a CPU, warmed up; they are gone on leaving."""
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in cpus]
    processes = [
        context.Process(target=decode_on, args=(cpu, theirs), daemon=True)
        for cpu, (_, theirs) in zip(cpus, pipes, strict=True)
    ]
    try:
        for process, (_, theirs) in zip(processes, pipes, strict=True):
            process.start()
            theirs.close()
        # Not as arguments: a start waits until those are read, and so would the next start.
        for ours, _ in pipes:
            ours.send(images)
        for ours, _ in pipes:
            ours.recv()
        yield [ours for ours, _ in pipes]
    except (EOFError, BrokenPipeError) as error:
        raise MeasuringError(
            "a decoding process ended early", hint="is there enough memory?"
        ) from error
    finally:
        for ours, _ in pipes:
            ours.close()
        for process in processes:
            if process.pid is not None:
                process.kill()
                process.join()
