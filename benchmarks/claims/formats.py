"""Storage formats: cached against cold, and the vCPUs that each of them asks for."""

from __future__ import annotations

from advisor.domain import CacheState, Measurement
from benchmarks.claims.evidence import Evidence, full_speed, host_rate_per_vcpu, read_bytes_per_sample
from benchmarks.claims.knees import knee_of
from benchmarks.claims.scale import SCALE
from benchmarks.claims.trials import KNEE_FORMATS

_FILES = "files"


def formats_document(evidence: Evidence) -> list[dict[str, object]]:
    """GoogLeNet's inference by format: cached, cold, and the host's rate of a vCPU."""
    return [_format_row(name, vcpus, cache, row) for (name, vcpus, cache), row in evidence.formats().items()]


def _format_row(name: str, vcpus: float, cache: CacheState, row: Measurement) -> dict[str, object]:
    return {
        "format": name,
        "vcpus": vcpus * SCALE,
        "cache": cache.value,
        "samples_per_second": round(full_speed(row), 1),
        "host_samples_per_second_and_vcpu": round(
            row.stage_rates.get("host", 0.0) / row.trial.resources.vcpus, 1
        ),
        "read_bytes_per_sample": read_bytes_per_sample(row),
    }


def vcpus_needed(evidence: Evidence) -> list[dict[str, object]]:
    """Modelled: a P100's rate over the measured host rate of a vCPU, by network, task and format.

    The host rates of JPEG files and LMDB are each network's own. Tar and RecordIO hold the same
    JPEG bytes: their rates are taken in the ratio to files that GoogLeNet's show.
    """
    hosts = {
        name: host_rate_per_vcpu(row)
        for (name, vcpus, cache), row in evidence.formats().items()
        if vcpus == 2.0 and cache is CacheState.WARM
    }
    curves = evidence.curves()
    needed: list[dict[str, object]] = []
    for (network, task, storage), rows in curves.items():
        if storage != _FILES or (network, task, KNEE_FORMATS[0]) not in curves:
            continue
        files = knee_of(rows).vcpus_needed
        by_format = {
            name: files * hosts[_FILES] / rate for name, rate in hosts.items() if name not in KNEE_FORMATS
        }
        for name in KNEE_FORMATS:
            by_format[name] = knee_of(curves[network, task, name]).vcpus_needed
        needed.append(
            {
                "network": network,
                "task": task.value,
                "vcpus": {name: round(value, 2) for name, value in sorted(by_format.items())},
            }
        )
    return needed
