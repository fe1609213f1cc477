"""The parts `cpu`, `decode` and `ram` of a probe: topology, decoding of photographs, memory bandwidth."""

from __future__ import annotations

import importlib.util
import io
import math
import multiprocessing
import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from advisor.errors import MeasuringError
from advisor.sweeps.datasets.making import be_a_side_process, make_sample
from advisor.sweeps.machine.environment import (
    allowed_cpus,
    describe_machine,
    free_memory_bytes,
    last_level_cache_mib,
    machine_size,
    read_caches,
    read_cores,
    text_of,
)
from advisor.sweeps.probe import session as probing

_NODES = Path("/sys/devices/system/node")


def threads_first_by_core(cores: Mapping[int, object]) -> list[int]:
    """The CPUs in an order with the first hardware thread of every core before any second thread.

    `cores` has the physical core of each CPU."""
    seen: dict[object, int] = {}
    ranked = []
    for cpu in sorted(cores):
        rank = seen.get(cores[cpu], 0)
        seen[cores[cpu]] = rank + 1
        ranked.append((rank, cpu))
    return [cpu for _, cpu in sorted(ranked)]


def thread_counts(cores: int, threads: int) -> list[int]:
    """Thread counts to measure: the powers of 2, the number of cores, and all hardware threads."""
    powers = {2**power for power in range(threads.bit_length()) if 2**power <= threads}
    return sorted(powers | {min(cores, threads), threads})


def read_numa_nodes(root: Path = _NODES) -> list[dict[str, object]]:
    """CPUs and memory of each NUMA node; empty if the kernel lists none."""
    nodes: list[dict[str, object]] = []
    for node in sorted(root.glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        try:
            cpus, meminfo = (node / "cpulist").read_text().strip(), (node / "meminfo").read_text()
            kib = int(re.findall(r"MemTotal:\s+(\d+)", meminfo)[0])  # 'Node 0 MemTotal: 24684084 kB'
            nodes.append({"node": int(node.name[4:]), "cpus": cpus, "memory_mib": kib / 1024})
        except (OSError, ValueError, IndexError):
            continue
    return nodes


_FREQUENCY = Path("/sys/devices/system/cpu/cpu0/cpufreq")


def probe_cpu(_session: probing.ProbeSession) -> probing.Document:
    """Model, cores, hardware threads, caches and NUMA nodes, and the part that this process may use."""
    cpus = allowed_cpus()
    cores = read_cores(cpus)
    machine, frequency = describe_machine(), text_of(_FREQUENCY / "cpuinfo_max_freq")
    seen = {cache for cpu in cpus for cache in read_caches(cpu)}
    shapes = Counter((entry.level, entry.kind, entry.size_kib, len(entry.shared_by)) for entry in seen)
    caches = [
        dict(zip(("level", "kind", "size_kib", "cpus_sharing", "count"), (*shape, count), strict=True))
        for shape, count in sorted(shapes.items())
    ]
    return {
        "model": machine["cpu_model"],
        "architecture": machine["architecture"],
        "sockets": len({package for package, _ in cores.values()}),
        "physical_cores": machine["physical_cores"],
        "logical_cpus": machine["cpus"],
        "threads_per_core": machine["cpus"] / machine["physical_cores"],
        "usable_cpus": len(cpus),
        "usable_cores": len(set(cores.values())),
        "cpu_quota": machine["cpu_quota"],
        "flags": machine["cpu_flags"],
        "max_frequency_mhz": int(frequency) / 1000
        if frequency
        else probing.skipped("the kernel reports no frequencies (usual in a virtual machine)"),
        "caches": caches or probing.skipped("sysfs describes no caches"),
        "numa_nodes": read_numa_nodes() or probing.skipped("the kernel names no NUMA nodes"),
        "memory_mib": machine["memory_mib"],
        "memory_limit_mib": machine["memory_limit_mib"],
        "usable_memory_mib": free_memory_bytes() / 2**20,
    }


_IMAGE_COUNT = 24
_SHORTEST_WINDOW_SECONDS = 0.06
_SIDE = 224
_CROP_SHARE = (0.08, 1.0)  # of the area, as RandomResizedCrop's default
_METHOD = (
    "Pillow decodes, crops at random and resizes to 224x224 photographs of about 500x375 pixels "
    "held in memory; one process a hardware thread, pinned, every core's first thread first"
)


def probe_decode(session: probing.ProbeSession) -> probing.Document:
    """Rates by number of threads, and the gain from the second thread of each core."""
    if importlib.util.find_spec("PIL") is None:
        raise probing.missing("Pillow")
    images = [make_sample(random.Random(f"probe:{index}")) for index in range(_IMAGE_COUNT)]
    cores = read_cores(allowed_cpus())
    # More threads than the CPU quota would only be throttled.
    cpus = threads_first_by_core(cores)[: math.ceil(machine_size().vcpus)]
    physical = len({cores[cpu] for cpu in cpus})
    counts = thread_counts(physical, len(cpus))
    window = max(_SHORTEST_WINDOW_SECONDS, session.budget.decode / len(counts) / probing.LEAST_REPEATS)
    rates = _rates(cpus, images, counts, window)
    return {
        "images": {"count": _IMAGE_COUNT, "mean_bytes": sum(map(len, images)) / _IMAGE_COUNT},
        "physical_cores": physical,
        "threads": {str(count): probing.figure(rates[count], "images/s", _METHOD) for count in counts},
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
            for count in [*counts] * probing.LEAST_REPEATS:
                done = [decoder.submit(_decode_for, window) for decoder in decoders[:count]]
                rates[count].append(sum(decoder.result() for decoder in done))
        except BrokenProcessPool as error:
            raise MeasuringError("a decoding process ended early", hint="is there enough memory?") from error
    return rates


def _hyperthread_yield(rates: dict[int, list[float]], physical: int, threads: int) -> probing.Document:
    if threads == physical:
        return probing.skipped("one hardware thread a core is visible")
    shares = [every / first - 1 for every, first in zip(rates[threads], rates[physical], strict=True)]
    method = f"rate with {threads} threads over rate with {physical} (one a core), less 1"
    return probing.figure(shares, "ratio", method)


_images: list[bytes] = []  # the images of a decoding process


def _prepare(cpu: int, images: Sequence[bytes]) -> None:
    """Pin this process to a CPU, keep the images, and decode each once to warm up."""
    os.sched_setaffinity(0, {cpu})
    _images[:] = images
    for image in images:
        decode_image(image, random.Random(cpu))


def _decode_for(seconds: float) -> float:
    """Decode for about `seconds`; returns images per second."""
    draw, done = random.Random(os.getpid()), 0
    start = now = time.perf_counter()
    while now - start < seconds:
        decode_image(_images[done % len(_images)], draw)
        done += 1
        now = time.perf_counter()
    return done / (now - start)


def decode_image(content: bytes, draw: random.Random) -> object:
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


def probe_ram(session: probing.ProbeSession) -> probing.Document:
    """GB/s (10**9 bytes) of reading and copying with one thread, and with one thread on each CPU."""
    cpus = allowed_cpus()
    array_bytes = _array_bytes(cpus)
    document: probing.Document = {}
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


def _figure(session: probing.ProbeSession, work: str, run: Callable[[Work], float]) -> probing.Document:
    """The rate of a work; `run` does it on all threads and returns the bytes of one array."""
    method, moved, function = _WORKS[work]
    array_bytes = run(function)
    seconds = probing.time_calls(lambda: run(function), session.budget.ram_figure)
    return probing.figure([array_bytes * moved / second / 1e9 for second in seconds], "GB/s", method)


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
