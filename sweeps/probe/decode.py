"""The part `decode` of a probe: the rate of decoding JPEG photographs with 1 to all hardware threads."""

from __future__ import annotations

import importlib.util
import io
import math
import multiprocessing
import os
import random
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack

from advisor.errors import MeasuringError
from advisor.sweeps.datasets.making import be_a_side_process, make_sample
from advisor.sweeps.machine.environment import allowed_cpus, machine_size, read_cores
from advisor.sweeps.probe.cpu import thread_counts, threads_first_by_core
from advisor.sweeps.probe.session import LEAST_REPEATS, Document, ProbeSession, figure, missing, skipped

_IMAGE_COUNT = 24
_SHORTEST_WINDOW_SECONDS = 0.06
_SIDE = 224
_CROP_SHARE = (0.08, 1.0)  # of the area, as RandomResizedCrop's default
_METHOD = (
    "Pillow decodes, crops at random and resizes to 224x224 photographs of about 500x375 pixels "
    "held in memory; one process a hardware thread, pinned, every core's first thread first"
)


def probe(session: ProbeSession) -> Document:
    """Rates by number of threads, and the gain from the second thread of each core."""
    if importlib.util.find_spec("PIL") is None:
        raise missing("Pillow")
    images = [make_sample(random.Random(f"probe:{index}")) for index in range(_IMAGE_COUNT)]
    cores = read_cores(allowed_cpus())
    # More threads than the CPU quota would only be throttled.
    cpus = threads_first_by_core(cores)[: math.ceil(machine_size().vcpus)]
    physical = len({cores[cpu] for cpu in cpus})
    counts = thread_counts(physical, len(cpus))
    window = max(_SHORTEST_WINDOW_SECONDS, session.budget.decode / len(counts) / LEAST_REPEATS)
    rates = _rates(cpus, images, counts, window)
    return {
        "images": {"count": _IMAGE_COUNT, "mean_bytes": sum(map(len, images)) / _IMAGE_COUNT},
        "physical_cores": physical,
        "threads": {str(count): figure(rates[count], "images/s", _METHOD) for count in counts},
        "hyperthread_yield": _hyperthread_yield(rates, physical, len(cpus)),
    }


def _rates(
    cpus: Sequence[int], images: Sequence[bytes], counts: Sequence[int], window: float
) -> dict[int, list[float]]:
    """Images per second by number of threads, each a process on one CPU. The numbers take turns, so that
    other load disturbs all alike."""
    context = multiprocessing.get_context("spawn")
    rates: dict[int, list[float]] = {count: [] for count in counts}
    with ExitStack() as stack:
        decoders = [
            stack.enter_context(ProcessPoolExecutor(1, context, initializer=be_a_side_process)) for _ in cpus
        ]
        try:
            # Images are not initializer arguments: each start would wait until the process has read them.
            ready = [each.submit(_prepare, cpu, images) for each, cpu in zip(decoders, cpus, strict=True)]
            for decoder in ready:
                decoder.result()
            for count in [*counts] * LEAST_REPEATS:
                done = [decoder.submit(_decode_for, window) for decoder in decoders[:count]]
                rates[count].append(sum(decoder.result() for decoder in done))
        except BrokenProcessPool as error:
            raise MeasuringError("a decoding process ended early", hint="is there enough memory?") from error
    return rates


def _hyperthread_yield(rates: dict[int, list[float]], physical: int, threads: int) -> Document:
    if threads == physical:
        return skipped("one hardware thread a core is visible")
    shares = [every / first - 1 for every, first in zip(rates[threads], rates[physical], strict=True)]
    method = f"rate with {threads} threads over rate with {physical} (one a core), less 1"
    return figure(shares, "ratio", method)


_images: list[bytes] = []  # the images of a decoding process


def _prepare(cpu: int, images: Sequence[bytes]) -> None:
    """Pin this process to a CPU, keep the images, and decode each once to warm up."""
    os.sched_setaffinity(0, {cpu})
    _images[:] = images
    for image in images:
        decode(image, random.Random(cpu))


def _decode_for(seconds: float) -> float:
    """Decode for about `seconds`; returns images per second."""
    draw, done = random.Random(os.getpid()), 0
    start = now = time.perf_counter()
    while now - start < seconds:
        decode(_images[done % len(_images)], draw)
        done += 1
        now = time.perf_counter()
    return done / (now - start)


def decode(content: bytes, draw: random.Random) -> object:
    """JPEG bytes as a uint8 array of 224x224x3: decoded, cropped at random, resized (bilinear)."""
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
