"""A06 to A08: what RAM is for."""

from __future__ import annotations

from advisor.domain import CacheState, Measurement
from benchmarks.claims.evidence import Evidence, MissingTrialsError, full_speed, rate_of
from benchmarks.claims.scale import SCALE
from benchmarks.claims.trials import PROCESSES_MIB
from benchmarks.claims.words import Finding, Kind, Verdict, agrees_if

_LIMIT_MIB = 5 * 1024
# A tenth more after ten times the iterations is no growth with iterations.
_FLAT = 1.1


def a06(evidence: Evidence) -> Finding:
    """MXNet's training on RecordIO stays below 5 GB."""
    few, many = evidence.iterations("inception_v3", CacheState.WARM)
    own, later = _own_mib(few), _own_mib(many)
    return Finding(
        kind=Kind.MEASURED,
        verdict=agrees_if(later < _LIMIT_MIB and later < _FLAT * own),
        ours=f"processes hold {own:.0f} MiB after {_steps(few)} steps, {later:.0f} after {_steps(many)}",
        why="Streaming from RecordIO, 2 loader processes; the rest of the memory is page cache, "
        "which gives way. Without a GPU there is no CUDA context (about 1.2 GiB) in it.",
        numbers={"few": _memory(few), "many": _memory(many)},
    )


def a07(evidence: Evidence) -> Finding:
    """Inference over 9.4 GB takes about 7 GB."""
    rows = evidence.memory()
    rates = {mib: full_speed(row) for mib, row in rows.items()}
    data_mib = next(iter(rows.values())).trial.workload.dataset.total_mib
    enough = min(mib for mib, rate in rates.items() if rate >= 0.97 * rates[max(rates)])
    share = (enough - PROCESSES_MIB) / data_mib
    return Finding(
        kind=Kind.MEASURED,
        verdict=Verdict.AGREES if 0.5 <= share <= 1.15 else Verdict.DIFFERS,
        ours=f"flat from {enough:.0f} MiB on: {PROCESSES_MIB:.0f} for the processes and "
        f"{share:.0%} of the data set in the page cache",
        why="Second epoch over an LMDB of "
        f"{data_mib:.0f} MiB from the efficient disk. What is read twice is kept as far as memory "
        "goes; 7 of 9.4 GB is three quarters. A single pass needs none of it.",
        scale=SCALE,
        numbers={
            "data_set_mib": round(data_mib),
            "samples_per_second_by_mib": {f"{m:.0f}": round(r, 1) for m, r in rates.items()},
            "peak_mib": {f"{m:.0f}": _peak_mib(r) for m, r in rows.items()},
        },
    )


def a08(evidence: Evidence) -> Finding:
    """NVCaffe's RAM grows with iterations; more than enough gives no speed."""
    few, many = evidence.iterations("alexnet", CacheState.WARM)
    cold_few, cold_many = evidence.iterations("alexnet", CacheState.COLD)
    rates = [full_speed(row) for row in evidence.memory().values()]
    cache = [_memory(row)["peak_mib"] - _memory(row)["own_mib"] for row in (cold_few, cold_many)]
    growth, grows = cache[1] - cache[0], cache[1] > _FLAT * cache[0]
    return Finding(
        kind=Kind.MEASURED,
        verdict=Verdict.PARTLY if grows and _own_mib(many) < _FLAT * _own_mib(few) else agrees_if(grows),
        ours=f"own memory {_own_mib(few):.0f} MiB after {_steps(few)} steps, {_own_mib(many):.0f} "
        f"after {_steps(many)}; with page cache of a cold LMDB it grew by {growth:.0f} "
        f"MiB from {_steps(cold_few)} to {_steps(cold_many)} steps; the largest memory gives "
        f"{rates[-1] / rates[-2] - 1:+.0%}",
        why="What grows with iterations is the page cache of the mapped LMDB, up to the data set's "
        "size, not the process: `free` cannot tell them apart, a cgroup can. That AlexNet takes "
        "most is not tested: NVCaffe kept a host copy of the weights, of which AlexNet and VGG16 "
        "have the most; an emulated accelerator keeps none.",
        numbers={"cached": [_memory(few), _memory(many)], "cold": [_memory(cold_few), _memory(cold_many)]},
    )


def _own_mib(row: Measurement) -> float:
    rate_of(row)
    return float(row.environment["anonymous_memory_mib"])


def _steps(row: Measurement) -> str:
    return f"{int(row.trial.plan['iterations']):,}"


def _memory(row: Measurement) -> dict[str, float]:
    return {
        "iterations": int(row.trial.plan["iterations"]),
        "own_mib": round(_own_mib(row)),
        "peak_mib": _peak_mib(row),
        "samples_per_second": round(rate_of(row), 1),
    }


def _peak_mib(row: Measurement) -> float:
    """`MissingTrialsError` where the kernel has no peak of the trial's own window."""
    if row.peak_memory_mib is None:
        raise MissingTrialsError("no peak of memory: needs cgroup version 1, or 2 and Linux 6.12")
    return round(row.peak_memory_mib)
