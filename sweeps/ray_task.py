"""What runs on a node of a Ray cluster, around one trial."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from typing import Any

from advisor.domain import LimitedBy, Measurement, Status, Trial
from sweeps.environment import total_memory_mib
from sweeps.executors import Measure
from sweeps.limits.choosing import allowed_cpus, clean_up
from sweeps.serialization import measurement_to_dict, trial_from_dict

Told = dict[str, Any]


def measuring_task(measure: Measure, *, clean: bool) -> Callable[[Told], Iterator[Told]]:
    """A function of a trial that tells, as soon as it begins, its node, and then the measurement.

    `clean` removes first what a killed trial left on that node.
    """

    def run(document: Told) -> Iterator[Told]:
        yield {"node": platform.node()}
        trial = trial_from_dict(document)
        refused = _too_large(trial) if clean else ""
        if clean:
            clean_up()
        yield measurement_to_dict(_failure(trial, refused) if refused else measure(trial))

    return run


def _too_large(trial: Trial) -> str:
    """Why this node cannot hold the trial; Ray's own count of CPUs may be anything."""
    resources, cpus, memory = trial.resources, len(allowed_cpus()), total_memory_mib()
    if resources.vcpus > cpus:
        return f"{resources.vcpus:g} vCPUs asked for, but node {platform.node()} has {cpus}"
    if resources.memory_mib > memory:
        return (
            f"{resources.memory_mib:,.0f} MiB of memory asked for, but node {platform.node()} has "
            f"{memory:,.0f} MiB; ask for less, or start a larger node"
        )
    return ""


def _failure(trial: Trial, reason: str) -> Measurement:
    return Measurement(trial=trial, status=Status.FAILED, limited_by=LimitedBy.NONE, reason=reason)
