"""The part `decode`: how fast real JPEG files are decoded, with 1 to all hardware threads."""

from __future__ import annotations

import importlib.util
import io
import math
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection

from advisor.errors import MeasuringError
from advisor.sweeps.datasets.making import make_sample
from advisor.sweeps.machine.environment import allowed_cpus, machine_size, read_cores
from advisor.sweeps.probe.cpu import thread_counts, threads_first_by_core
from advisor.sweeps.probe.session import LEAST_REPEATS, Document, ProbeSession, figure, missing, skipped

_IMAGES = 24
_SHORTEST_WINDOW_SECONDS = 0.06
_METHOD = (
    "Pillow decodes, crops at random and resizes to 224x224 photographs of about 500x375 pixels "
    "held in memory; one process a hardware thread, pinned, every core's first thread first"
)
Decoders = Sequence[Connection]


def probe(session: ProbeSession) -> Document:
    """Rates by number of threads, and what the second thread of a core adds."""
    if importlib.util.find_spec("PIL") is None:
        raise missing("Pillow")
    images = [make_sample(random.Random(f"probe:{index}")) for index in range(_IMAGES)]
    cores = read_cores(allowed_cpus())
    # Under a quota more threads would only be throttled.
    cpus = threads_first_by_core(cores)[: math.ceil(machine_size().vcpus)]
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
    """Images per second by threads, counts taking turns so that neighbours disturb all alike."""
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
    shares = [every / first - 1 for every, first in zip(rates[threads], rates[physical], strict=True)]
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
        raise MeasuringError("a decoding process ended early", hint="is there enough memory?") from error
    finally:
        for ours, _ in pipes:
            ours.close()
        for process in processes:
            if process.pid is not None:
                process.kill()
                process.join()


_SIDE = 224
_CROP_SHARE = (0.08, 1.0)  # of the area, as RandomResizedCrop's default


def decode_on(cpu: int, orders: Connection) -> None:
    """Serve until the other end closes: first the images (JPEG bytes) in and `ready` out, each decoded once
    by then; after that seconds in, (images decoded, seconds taken) out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us, by closing the pipe
    os.sched_setaffinity(0, {cpu})
    draw = random.Random(cpu)
    try:
        images = orders.recv()
        for image in images:
            decode(image, draw)
        orders.send("ready")
        while True:
            orders.send(_decode_for(orders.recv(), images, draw))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def decode(content: bytes, draw: random.Random) -> object:
    """JPEG bytes -> uint8 array of 224x224x3: decode, crop at random, resize (bilinear)."""
    import numpy as np
    from PIL import Image

    with Image.open(io.BytesIO(content)) as image:
        pixels = image.convert("RGB")
    side = draw.uniform(*_CROP_SHARE) ** 0.5
    width, height = pixels.width * side, pixels.height * side
    left, top = draw.uniform(0, pixels.width - width), draw.uniform(0, pixels.height - height)
    box = (int(left), int(top), int(left + width), int(top + height))
    resized = pixels.crop(box).resize((_SIDE, _SIDE), Image.Resampling.BILINEAR)
    return np.asarray(resized)


def _decode_for(seconds: float, images: Sequence[bytes], draw: random.Random) -> tuple[int, float]:
    start = now = time.perf_counter()
    done = 0
    while now - start < seconds:
        decode(images[done % len(images)], draw)
        done += 1
        now = time.perf_counter()
    return done, now - start
