"""Runs the parts of a probe in order; whatever goes wrong in one becomes its reason."""

from __future__ import annotations

import importlib
import resource
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from advisor.errors import MeasuringError
from advisor.sweeps.machine.environment import describe_machine, describe_versions
from advisor.sweeps.machine.processes import busy_seconds
from advisor.sweeps.machine.size import allowed_cpus
from advisor.sweeps.probe.figures import PARTS, SCHEMA, Document, skipped

# Other processes above this share of a core get a warning: they take from what is measured.
_BUSY_NEIGHBOUR_CORES = 0.25
# The kernel counts in hundredths of a second; what is shorter cannot be judged.
_SHORTEST_JUDGED_SECONDS = 0.5
_VERSIONS = ("torch", "numpy", "Pillow")


class ProbeBudget(Struct, frozen=True, kw_only=True):
    """Seconds that each kind of measurement may take; past `total` nothing new begins (a machine with
    CUDA gets half as much again, to load its libraries)."""

    total: float
    decode: float
    ram_figure: float
    disk_window: float
    disk_write: float
    disk_file_mib: int
    transfer_figure: float
    gemm_figure: float
    operation_figure: float


FULL = ProbeBudget(
    total=56,
    decode=8,
    ram_figure=0.6,
    disk_window=0.4,
    disk_write=3,
    disk_file_mib=1024,
    transfer_figure=0.5,
    gemm_figure=1.2,
    operation_figure=0.25,
)
QUICK = ProbeBudget(
    total=12,
    decode=1.5,
    ram_figure=0.1,
    disk_window=0.06,
    disk_write=0.5,
    disk_file_mib=256,
    transfer_figure=0.15,
    gemm_figure=0.3,
    operation_figure=0.05,
)


class ProbeSession(Struct, kw_only=True):
    """The context of every part: its time budget, its folder, and its progress report."""

    budget: ProbeBudget
    disk: Path
    report: Callable[[str], None]
    ends_at: float
    warnings: list[str] = field(default_factory=list)

    def attempt(self, measure: Callable[[], Document]) -> Document:
        """The measured node, or why there is none; a failed figure costs no other one."""
        if time.monotonic() > self.ends_at:
            return skipped("the time was used up; probe fewer parts with --only")
        try:
            return measure()
        except MeasuringError as error:
            return skipped(error)
        except Exception as error:
            return skipped(f"{type(error).__name__}: {error}")

    def allow_more_time(self) -> None:
        """CUDA is there: its libraries take seconds to load."""
        self.ends_at += self.budget.total / 2


def run_probe(parts: Iterable[str], *, quick: bool, disk: Path, report: Callable[[str], None]) -> Document:
    """The document `advisor.probe/1` of the asked parts (names of `PARTS`), in their order.

    Never raises for what a machine lacks: the place of what is missing says why.
    """
    budget = QUICK if quick else FULL
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
    """`probe(session)` of `sweeps/probe/<name>.py`, with what others did meanwhile."""
    probe = importlib.import_module(f"advisor.sweeps.probe.{name}").probe
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
    """CPU time since boot on the CPUs that this process may use, less its own and its ended
    children's."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    try:
        return busy_seconds(allowed_cpus()) - own
    except (OSError, AttributeError):  # no /proc, no affinity: not Linux
        return 0.0
