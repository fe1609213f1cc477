"""What a campaign's machine is: the facts that go into every row. Needs torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from advisor.errors import MeasuringError
from sweeps.campaign.cells import Machine, host_resources
from sweeps.machine import nvidia_smi
from sweeps.machine.environment import (
    describe_machine,
    describe_versions,
    physical_cores,
    total_memory_mib,
)
from sweeps.probe.accelerator import need_cuda
from sweeps.probe.figures import fingerprint
from sweeps.probe.session import run_probe
from sweeps.trial.limits.choosing import allowed_cpus

_VERSIONS = ("torch", "torchvision", "numpy", "Pillow", "timm")
_PROBED = ("gpu", "gemm")
ONE_THREAD_TIMING = "process_time around each step: CPU seconds of the only thread"


def this_machine(accelerator: str) -> Machine:
    """The whole of this machine; `MeasuringError` where CUDA is asked for and not usable."""
    if accelerator == "cuda":
        need_cuda()
    return Machine(
        accelerator=accelerator,
        # Whole MiB: a reboot must not make other trials of the same ones.
        resources=host_resources(len(allowed_cpus()), physical_cores(), round(total_memory_mib())),
        gpu=torch.cuda.get_device_name(0) if accelerator == "cuda" else None,
    )


def is_one_thread(machine: Machine) -> bool:
    """Whether steps run on one CPU in one thread, so that its CPU seconds are theirs."""
    return (
        machine.accelerator == "cpu"
        and machine.resources.vcpus == 1
        and torch.get_num_threads() == 1
    )


def describe(machine: Machine) -> dict[str, Any]:
    """The environment of every row: machine, versions, GPU, driver, clocks, and how torch is
    set to compute."""
    facts = {
        **describe_machine(),
        "versions": describe_versions(*_VERSIONS),
        "gpu": machine.gpu,
        "threads": torch.get_num_threads(),
        "timing": "perf_counter around each step, device synchronised after each",
    }
    if machine.accelerator != "cuda":
        return facts
    return facts | {
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "tf32_convolutions": torch.backends.cudnn.allow_tf32,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "gpu_memory_mib": torch.cuda.get_device_properties(0).total_memory / 2**20,
        "gpu_facts": ask_nvidia_smi(nvidia_smi.FACT_FIELDS),
    }


def ask_nvidia_smi(fields: dict[str, str]) -> list[nvidia_smi.Facts] | None:
    """All GPUs' facts or present state; None where nvidia-smi cannot tell."""
    try:
        return nvidia_smi.query(fields)
    except MeasuringError:
        return None


def short_fingerprint(report: Callable[[str], None]) -> dict[str, Any]:
    """Copy rates and matrix products of the GPU, in about ten seconds."""
    from pathlib import Path

    return fingerprint(run_probe(_PROBED, quick=True, disk=Path(), report=report))
