"""How fast the CPU is on which a sweep was measured, in the marks that instances have."""

from __future__ import annotations

import statistics

from advisor.catalog.cpus import plain_cpu_name
from advisor.domain import Measurement
from models.performance.pipeline import ReferenceCpu

# Log standard deviation of carrying rates to another CPU of the same architecture by the ratio of
# PassMark's single-thread marks: how far its other mark strays from that ratio (benchmarks/
# vcpu_truth, internals/processors.md). Judgement where the CPU has no mark.
KNOWN_SIGMA = 0.10
UNKNOWN_SIGMA = 0.30
# What the kernel calls it, and what clouds do.
_ARCHITECTURES = {"aarch64": "arm64", "AMD64": "x86_64"}

# Cloud hypervisors hide some names. "AMD EPYC" of family 25 with AVX-512 is Zen 4, the
# generation of AWS m7a (EPYC 9R14).
_ZEN_4 = ("AMD EPYC", "25", "AMD EPYC 9R14")


def reference_cpu(measurement: Measurement) -> ReferenceCpu:
    """The mark of the CPU a trial ran on: from the catalogue's servers with a CPU of that name.

    A CPU that nobody scored counts as fast as the one of the bundled sweep, and its rates are
    carried to other CPUs with the doubt that this deserves.
    """
    kernel = str(measurement.environment.get("architecture") or "x86_64")
    architecture = _ARCHITECTURES.get(kernel, kernel)
    name = _telling_name(measurement)
    score = _score_of(name)
    if score is not None:
        return ReferenceCpu(score=score, sigma=KNOWN_SIGMA, architecture=architecture, model=name)
    bundled = _score_of(_ZEN_4[2])
    assert bundled is not None
    return ReferenceCpu(score=bundled, sigma=UNKNOWN_SIGMA, architecture=architecture, model=name)


def _telling_name(measurement: Measurement) -> str:
    environment = measurement.environment
    name = str(environment.get("cpu_model", ""))
    is_zen = (name, environment.get("cpu_family")) == _ZEN_4[:2]
    if is_zen and "avx512f" in environment.get("cpu_flags", ()):
        return _ZEN_4[2]
    return plain_cpu_name(name)


def _score_of(cpu_model: str) -> float | None:
    """Median mark of the catalogue's servers with this CPU; None where nobody measured one."""
    from advisor.catalog import load_catalog

    scores = [
        instance.cpu.single_thread_score
        for instance in load_catalog().instances()
        if instance.cpu.model == cpu_model and instance.cpu.single_thread_score
    ]
    return round(statistics.median(scores), 1) if scores else None
