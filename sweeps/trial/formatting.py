"""Formats a trial for people and logs: its name, its planned facts, its ending."""

from __future__ import annotations

from typing import Any

from advisor.domain import Measurement, MemoryFormat, Precision, Stack, Trial
from advisor.domain.results import SETTINGS_OF_STEPS
from advisor.messages import format_mib


def trial_name(trial: Trial) -> str:
    """The trial's name: one short line that distinguishes it from similar trials."""
    workload, resources = trial.workload, trial.resources
    disk = "disk unlimited" if resources.disk.type == "unlimited" else resources.disk.type
    return (
        f"{workload.network} {workload.task} on {steps_text(trial)}, {resources.vcpus:g} vCPU, "
        f"{format_mib(resources.memory_mib)}, {disk}"
    )


def steps_text(trial: Trial) -> str:
    """The accelerators and unusual settings of a trial's steps: '4 x cuda:T4 amp channels_last'."""
    workload = trial.workload
    unusual = {
        workload.precision: Precision.FP32,
        workload.memory_format: MemoryFormat.CONTIGUOUS,
        workload.stack: Stack.EAGER,
    }
    words = [setting.value for setting, usual in unusual.items() if setting is not usual]
    words += [name for name in SETTINGS_OF_STEPS if trial.plan.get(name)]
    several = [f"{trial.processes} x"] if trial.processes > 1 else []
    return " ".join([*several, str(trial.accelerator), *words])


def planned_facts(trial: Trial) -> dict[str, Any]:
    """What a trial is planned to run and with which resources, as a flat dictionary."""
    workload, resources = trial.workload, trial.resources
    return {
        "network": workload.network,
        "task": workload.task.value,
        "batch_size": workload.batch_size,
        "accelerator": str(trial.accelerator),
        "processes": trial.processes,
        "precision": workload.precision.value,
        "memory_format": workload.memory_format.value,
        "stack": workload.stack.value,
        "vcpus": resources.vcpus,
        "memory_mib": resources.memory_mib,
        "disk": resources.disk.type,
        "cache": trial.cache.value,
    }


def ending_facts(measurement: Measurement) -> dict[str, Any]:
    """How a run ended, as a flat dictionary without unknown facts."""
    return _known(
        status=measurement.status.value,
        reason=measurement.reason,
        limited_by=measurement.limited_by.value,
        samples_per_second=measurement.throughput_samples_per_second,
        steps=len(measurement.step_seconds),
        other_cores=measurement.environment.get("other_cores"),
    )


def kept_facts(measurement: Measurement) -> dict[str, Any]:
    """The result of a trial over all its runs, as a flat dictionary without unknown facts."""
    return _known(
        status=measurement.status.value,
        trial=trial_name(measurement.trial),
        samples_per_second=measurement.throughput_samples_per_second,
        reason=measurement.reason,
    )


def _known(**facts: Any) -> dict[str, Any]:
    known = {name: value for name, value in facts.items() if value not in (None, "")}
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in known.items()}
