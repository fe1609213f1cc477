"""Runs the parts of a probe in order; a part that fails is recorded as skipped, with the reason."""

from __future__ import annotations

import importlib
import itertools
import math
import re
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from advisor.errors import MeasuringError, UsageError, unknown_name
from advisor.extras import install_command, install_hint
from advisor.sweeps.machine.environment import allowed_cpus, describe_machine, describe_versions
from advisor.sweeps.machine.processes import busy_seconds

LEAST_REPEATS = 5
_MOST_REPEATS = 30
# A repeat shorter than this is mostly the noise of clock, scheduler and synchronisation.
_SHORTEST_REPEAT_SECONDS = 0.004
_WARMUP_SHARE = 0.2
_MOST_CALLS_A_REPEAT = 2000

Clock = Callable[[], float]


def time_calls(
    call: Callable[[], object],
    seconds: float,
    *,
    synchronize: Callable[[], object] = lambda: None,
    clock: Clock = time.perf_counter,
) -> list[float]:
    """Seconds per call in each of 5 to 30 repeats, which take about `seconds` together.

    The first call (allocation, compilation, choice of algorithm) never counts; then a fifth of the time warms
    caches and clocks. A repeat has as many calls as take 4 ms, with the device synchronised at both ends."""

    def repeat(calls: int) -> float:
        synchronize()
        start = clock()
        for _ in range(calls):
            call()
        synchronize()
        return (clock() - start) / calls

    repeat(1)
    once = max(repeat(1), 1e-9)
    calls = min(_MOST_CALLS_A_REPEAT, math.ceil(_SHORTEST_REPEAT_SECONDS / once))
    spent = 0.0
    while spent < seconds * _WARMUP_SHARE:
        once = max(repeat(calls), 1e-9)
        spent += once * calls
    affordable = int(seconds * (1 - _WARMUP_SHARE) / (once * calls))
    return [repeat(calls) for _ in range(max(LEAST_REPEATS, min(_MOST_REPEATS, affordable)))]


def largest_affordable(sizes: Sequence[int], seconds_of: Callable[[int], float], seconds: float) -> int:
    """The largest of rising `sizes` of matrices whose product's warm-up and repeats fit in `seconds`.

    `seconds_of` runs a size once. The time of the next size is predicted by the cube of their ratio, so that
    no size runs that is far too large."""
    for size, following in itertools.pairwise(sizes):
        if seconds_of(size) * (following / size) ** 3 * (LEAST_REPEATS + 3) > seconds:
            return size
    seconds_of(sizes[-1])
    return sizes[-1]


class Device(Struct, frozen=True):
    """A torch device; `kind` is `cuda` (its device 0) or `cpu`."""

    kind: str

    def synchronize(self) -> None:
        """Wait until the device has completed all queued work."""
        if self.kind == "cuda":
            load_torch().cuda.synchronize()

    def time_calls(self, call: Callable[[], object], seconds: float) -> list[float]:
        """The result of `time_calls`, with this device synchronised around each repeat."""
        return time_calls(call, seconds, synchronize=self.synchronize)

    def random(self, *shape: int, dtype: Any = None) -> Any:
        """A tensor of normal random numbers; zeros would draw less power and let clocks rise."""
        torch = load_torch()
        return torch.randn(shape, device=self.kind).to(dtype or torch.float32)

    def free(self) -> None:
        """Release cached memory for the next measurement."""
        if self.kind == "cuda":
            load_torch().cuda.empty_cache()


CPU = Device("cpu")
CUDA = Device("cuda")


def has_cuda() -> bool:
    """True if torch is installed and can use a CUDA device."""
    try:
        return bool(load_torch().cuda.is_available())
    except MeasuringError:
        return False


def need_cuda() -> Document:
    """Raise `MeasuringError` that says why torch cannot use CUDA; else an empty document."""
    torch = load_torch()
    if torch.version.cuda is None and torch.version.hip is None:
        raise MeasuringError("this torch is a CPU build", hint="install one built for CUDA")
    if not torch.cuda.is_available():
        raise MeasuringError("torch sees no CUDA device", hint="is the driver loaded and new enough?")
    return {}


def missing(package: str) -> MeasuringError:
    """The error for a missing package, with the extra that installs it."""
    return MeasuringError(f"{package} is not installed", hint=install_hint("sweep"))


def load_torch() -> ModuleType:
    """The module torch. Raises `MeasuringError` if it is missing or cannot be loaded."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise missing("torch") from error
    except (ImportError, OSError, RuntimeError) as error:
        raise MeasuringError(
            f"torch cannot be loaded ({error})", hint=f"repair it: {install_command('sweep')}"
        ) from error
    return torch


SCHEMA = "advisor.probe/1"
# In the order of measuring: parts that start processes come before torch is loaded, and the disk comes before
# a GPU warms the machine.
PARTS = {
    "cpu": "model, cores, hardware threads, caches, NUMA, limits of a container",
    "decode": "JPEG decoding with 1 to all hardware threads",
    "ram": "memory bandwidth of one and of all threads",
    "disk": "sequential and random reads past the page cache",
    "gpu": "driver, clocks, memory, PCI Express and copy bandwidth",
    "gemm": "matrix products by precision",
    "operations": "classes of layers, forward and backward",
}
# Parts whose modules have other names.
_MODULES = {"cpu": "host", "decode": "host", "ram": "host", "gemm": "layers", "operations": "layers"}
Document = dict[str, Any]


def chosen_parts(text: str) -> tuple[str, ...]:
    """The named parts in the order of measuring: 'gpu, CPU' -> ('cpu', 'gpu'). Raises `UsageError`."""
    names = [part.strip().lower() for part in text.split(",") if part.strip()]
    for name in names:
        if name not in PARTS:
            raise unknown_name("part", name, PARTS)
    if not names:
        raise UsageError(f"--only takes parts of {', '.join(PARTS)}, separated by commas", field="only")
    return tuple(name for name in PARTS if name in names)


def figure(values: Sequence[float], unit: str, method: str) -> Document:
    """A measured figure: the median of at least one value, with its unit, method and spread.

    `spread` is the interquartile range over the median, 0.0 for a single value; `values` are kept
    unrounded."""
    middle = statistics.median(values)
    spread = 0.0
    if len(values) > 1 and middle:
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
        spread = (high - low) / middle
    return {
        "value": middle,
        "unit": unit,
        "method": method,
        "repeats": len(values),
        "spread": spread,
        "values": list(values),
    }


def skipped(reason: object) -> Document:
    """The node that replaces a missing figure or fact: the reason in one line."""
    return {"skipped": " ".join(str(reason).split())[:400]}


def is_figure(node: object) -> bool:
    """True if a node of the document is a measured figure."""
    return isinstance(node, dict) and "value" in node and "unit" in node


def is_skipped(node: object) -> bool:
    """True if a node of the document is the reason for a missing one."""
    return isinstance(node, dict) and set(node) == {"skipped"}


FINGERPRINT_SCHEMA = "advisor.fingerprint/1"
_MACHINE_FACTS = ("cpu_model", "architecture", "cpus", "physical_cores", "memory_mib", "versions")


def fingerprint(document: Mapping[str, Any]) -> Document:
    """The machine's identity and its figures in a flat form, for a trial's environment.

    `figures` maps a dotted name (`gemm.cuda.fp16`) to `{"value", "unit"}`, unrounded, without skipped ones.
    Two machines can be compared by their common names. `sizes` maps matrices and layers
    (`operations.conv3x3.wide`) to their sizes; layers were timed on `operations_device`."""
    machine, parts = document["machine"], document["parts"]
    return {
        "schema": FINGERPRINT_SCHEMA,
        "probed_at": document["started_at"],
        "quick": document["quick"],
        **{name: machine[name] for name in _MACHINE_FACTS if name in machine},
        "gpus": [gpu["name"] for gpu in parts.get("gpu", {}).get("devices", ())],
        "operations_device": parts.get("operations", {}).get("device"),
        "sizes": dict(_sizes(parts)),
        "figures": {
            name: {"value": result["value"], "unit": result["unit"]} for name, result in figures(parts)
        },
    }


def _sizes(parts: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, int]]]:
    """(name, sizes) of matrices and layers; a layer's sizes are the same in every precision."""
    for name, node in nodes(parts):
        if "sizes" in node:
            yield re.sub(r"^operations\.(fp32|amp)\.", "operations.", name), node["sizes"]


def nodes(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(dotted name, table) of every table below a node, in the document's order."""
    for name, child in node.items():
        if isinstance(child, dict):
            yield prefix + name, child
            yield from nodes(child, f"{prefix}{name}.")


def figures(node: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(dotted name, figure) of every measured figure below a node."""
    return (entry for entry in nodes(node) if is_figure(entry[1]))


# Above this use of cores by other processes, a warning says that figures are too low.
_BUSY_NEIGHBOUR_CORES = 0.25
# The kernel counts CPU time in hundredths of a second, too coarse for a shorter part.
_SHORTEST_JUDGED_SECONDS = 0.5
_VERSIONS = ("torch", "numpy", "Pillow")


class ProbeBudget(Struct, frozen=True, kw_only=True):
    """Seconds that each kind of measurement may take. After `total` nothing new begins; a machine with CUDA
    gets half as much again, to load its libraries."""

    total: float = 56
    decode: float = 8
    ram_figure: float = 0.6
    disk_window: float = 0.4
    disk_write: float = 3
    disk_file_mib: float = 1024
    transfer_figure: float = 0.5
    gemm_figure: float = 1.2
    operation_figure: float = 0.25


QUICK = ProbeBudget(**{name: value / 4 for name, value in asdict(ProbeBudget()).items()})


class ProbeSession(Struct, kw_only=True):
    """The context that all parts share: time budget, folder, progress report and warnings."""

    budget: ProbeBudget
    disk: Path
    report: Callable[[str], None]
    ends_at: float
    warnings: list[str] = field(default_factory=list)

    def attempt(self, measure: Callable[[], Document]) -> Document:
        """The node that `measure` returns, or the reason of its failure; other figures are not affected."""
        if time.monotonic() > self.ends_at:
            return skipped("the time was used up; probe fewer parts with --only")
        try:
            return measure()
        except Exception as error:
            return skipped(error if isinstance(error, MeasuringError) else f"{type(error).__name__}: {error}")


def run_probe(parts: Iterable[str], *, quick: bool, disk: Path, report: Callable[[str], None]) -> Document:
    """The document `advisor.probe/1` with the given parts (names of `PARTS`), in the order of `PARTS`.

    Never raises because of the machine: a missing part has the reason in its place."""
    budget = QUICK if quick else ProbeBudget()
    began, wanted = time.monotonic(), set(parts)
    session = ProbeSession(budget=budget, disk=disk, report=report, ends_at=began + budget.total)
    document: Document = {
        "schema": SCHEMA,
        "started_at": datetime.now(UTC).isoformat(),
        "quick": quick,
        "machine": {**describe_machine(), "versions": describe_versions(*_VERSIONS)},
        "parts": {},
    }
    chosen = [name for name in PARTS if name in wanted]
    for number, name in enumerate(chosen, start=1):
        report(f"[{number}/{len(chosen)}] {name}: {PARTS[name]}")
        document["parts"][name] = session.attempt(partial(_run_part, name, session))
    return {**document, "seconds": time.monotonic() - began, "warnings": session.warnings}


def _run_part(name: str, session: ProbeSession) -> Document:
    """The result of `probe_NAME` in the part's module, with the cores that other processes used meanwhile."""
    module = importlib.import_module(f"advisor.sweeps.probe.{_MODULES.get(name, name)}")
    probe = getattr(module, f"probe_{name}")
    before, start = _others_seconds(), time.monotonic()
    result: Document = probe(session)
    wall = max(time.monotonic() - start, 1e-9)
    if wall < _SHORTEST_JUDGED_SECONDS:
        return {**result, "seconds": wall}
    others = max(0.0, _others_seconds() - before) / wall
    if others > _BUSY_NEIGHBOUR_CORES:
        session.warnings.append(
            f"{name}: other processes used {others:.1f} cores meanwhile; its figures are too low"
        )
    return {**result, "seconds": wall, "other_cores": others}


def _others_seconds() -> float:
    """CPU seconds since boot on this process's CPUs, without its use and that of its ended children."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return busy_seconds(allowed_cpus()) - sum(usage.ru_utime + usage.ru_stime for usage in usages)
