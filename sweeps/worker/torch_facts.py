"""torch's settings, and its share of a GPU's memory. Needs torch."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping
from typing import Any

import torch

from advisor.domain import MIB, Accelerator, AcceleratorKind, Gpu
from advisor.domain.gpu_identity import identified
from advisor.sweeps.machine.gpu import gpu_facts

# They change rates or memory, and stand in no other fact.
_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "NVIDIA_TF32_OVERRIDE")


def torch_facts(device: str) -> dict[str, Any]:
    """Threads, and of a CUDA device its name, libraries and arithmetic, and what the driver knows
    of it (`gpu_facts`; None without NVML). A CPU asks no driver."""
    facts: dict[str, Any] = {"threads": torch.get_num_threads()}
    if device != AcceleratorKind.CUDA:
        return facts
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return facts | {
        "gpu": torch.cuda.get_device_name(),
        "gpu_facts": gpu_facts(gpu_uuid()),
        "gpu_sm_count": properties.multi_processor_count,
        "gpu_memory_mib": properties.total_memory / MIB,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "tf32_convolutions": torch.backends.cudnn.allow_tf32,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }


def present_gpu(sheets: Mapping[str, Gpu]) -> Accelerator:
    """The present CUDA device: a card of `sheets`, a slice of one, or another GPU."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return identified(
        properties.name,
        sheets,
        memory_mib=properties.total_memory / MIB,
        sm_count=properties.multi_processor_count,
        compute_capability=f"{properties.major}.{properties.minor}",
    )


def gpu_uuid() -> str:
    """The present GPU's UUID, without the driver's prefix; of a slice that was made visible by
    name, that name. '' where this torch has none."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if visible.startswith("MIG-"):  # CUDA sees the first slice alone
        return visible.partition(",")[0]
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return str(getattr(properties, "uuid", ""))


def forget_peaks(device: str) -> None:
    """Begin to count the GPU's peaks anew, with no memory kept from before."""
    free_memory(device)
    if device == AcceleratorKind.CUDA:
        torch.cuda.reset_peak_memory_stats()


def peaks(device: str, process_mib: float | None = None) -> dict[str, float]:
    """MiB that tensors took at most since `forget_peaks`, and that torch took from the GPU. Of
    what the driver counts for the process (`process_mib`; None: it does not say) the rest is the
    CUDA context and other libraries, `gpu_context_mib`. Empty on a CPU."""
    if device != AcceleratorKind.CUDA:
        return {}
    reserved = torch.cuda.max_memory_reserved() / MIB
    context = {} if process_mib is None else {"gpu_context_mib": max(0.0, process_mib - reserved)}
    return {
        "gpu_peak_allocated_mib": torch.cuda.max_memory_allocated() / MIB,
        "gpu_peak_reserved_mib": reserved,
        **context,
    }


def free_memory(device: str) -> None:
    """Give back what nobody refers to any more; the CUDA context itself stays."""
    gc.collect()
    if device == AcceleratorKind.CUDA:
        torch.cuda.empty_cache()
