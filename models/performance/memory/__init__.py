"""Memory that a workload needs: on the GPU (with its doubt), and on the host.

GPU memory is replayed, not guessed: `advisor.models.zoo.live_memory` follows a step without computing it and
asks torch's allocator what that takes. `table` has it for every network that ships, `steps` adds what the
optimiser holds, and `peak` the CUDA context and the doubt.
"""

from advisor.models.performance.memory.peak import (
    GpuPeak,
    MemoryAnswer,
    OnGpu,
    PeakModel,
    Question,
    Verdict,
    WhatIf,
    bundled_peak_model,
    card_mib,
    gpu_peak,
    largest_batch,
    needed_card_mib,
    usable_mib,
)
from advisor.models.performance.memory.steps import (
    BASE_PROCESS_MIB,
    LOADER_PROCESS_MIB,
    Conditions,
    MemoryProfile,
    Optimizer,
    Point,
    StepMemory,
    device_host_mib,
    host_memory_mib,
    loader_workers,
    pipeline_host_mib,
    profile_from,
    step_memory,
)
from advisor.models.performance.memory.table import MemoryTable, bundled_memory, bundled_profile, has_memory

__all__ = [
    "BASE_PROCESS_MIB",
    "LOADER_PROCESS_MIB",
    "Conditions",
    "GpuPeak",
    "MemoryAnswer",
    "MemoryProfile",
    "MemoryTable",
    "OnGpu",
    "Optimizer",
    "PeakModel",
    "Point",
    "Question",
    "StepMemory",
    "Verdict",
    "WhatIf",
    "bundled_memory",
    "bundled_peak_model",
    "bundled_profile",
    "card_mib",
    "device_host_mib",
    "gpu_peak",
    "has_memory",
    "host_memory_mib",
    "largest_batch",
    "loader_workers",
    "needed_card_mib",
    "pipeline_host_mib",
    "profile_from",
    "step_memory",
    "usable_mib",
]
