"""Memory that a workload needs: on the GPU (with its doubt), and on the host.

GPU memory is traced, not guessed: `models.zoo` runs a step on fake tensors, `profile` keeps what
it found, `step` adds what the optimiser holds, and `peak` turns that into what a GPU shows.
"""

from models.performance.memory.answer import (
    GpuPeak,
    Verdict,
    gpu_peak,
    largest_batch,
    needed_card_mib,
)
from models.performance.memory.host import (
    BASE_PROCESS_MIB,
    LOADER_PROCESS_MIB,
    device_host_mib,
    host_memory_mib,
    loader_workers,
    pipeline_host_mib,
)
from models.performance.memory.peak import PeakModel, bundled_peak_model, usable_mib
from models.performance.memory.profile import MemoryProfile, bundled_profiles, profile_from
from models.performance.memory.records import MemoryAnswer, OnGpu, Question, WhatIf
from models.performance.memory.step import Conditions, Optimizer, StepMemory, step_memory

__all__ = [
    "BASE_PROCESS_MIB",
    "LOADER_PROCESS_MIB",
    "Conditions",
    "GpuPeak",
    "MemoryAnswer",
    "MemoryProfile",
    "OnGpu",
    "Optimizer",
    "PeakModel",
    "Question",
    "StepMemory",
    "Verdict",
    "WhatIf",
    "bundled_peak_model",
    "bundled_profiles",
    "device_host_mib",
    "gpu_peak",
    "host_memory_mib",
    "largest_batch",
    "loader_workers",
    "needed_card_mib",
    "pipeline_host_mib",
    "profile_from",
    "step_memory",
    "usable_mib",
]
