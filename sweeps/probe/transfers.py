"""Copy rates of the first GPU: to and from the host, and within its own memory."""

from __future__ import annotations

from functools import partial

from advisor.domain import MIB
from sweeps.probe.accelerator import CUDA
from sweeps.probe.extras import load_torch
from sweeps.probe.figures import Document, figure
from sweeps.probe.session import Session

_TRANSFER_BYTES = 128 * MIB
_COPY_BYTES = 1024 * MIB
_SHARE_OF_FREE_MEMORY = 0.2


def copy_rates(session: Session) -> Document:
    """GB/s (10**9 bytes) over the bus, from pinned and pageable memory, and on the device."""
    seconds = session.budget.transfer_figure
    document: Document = {
        direction: {
            memory: session.attempt(partial(_transfer, direction, memory, seconds))
            for memory in ("pinned", "pageable")
        }
        for direction in ("host_to_device", "device_to_host")
    }
    document["device_copy"] = session.attempt(partial(_device_copy, seconds))
    CUDA.free()
    return document


def _transfer(direction: str, memory: str, seconds: float) -> Document:
    torch, pinned = load_torch(), memory == "pinned"
    size = _fitting(_TRANSFER_BYTES)
    host = torch.ones(size, dtype=torch.uint8, pin_memory=pinned)
    device = torch.ones(size, dtype=torch.uint8, device="cuda")
    source, target = (host, device) if direction == "host_to_device" else (device, host)
    copy = partial(target.copy_, source, non_blocking=pinned)
    times = CUDA.time_calls(copy, seconds)
    method = f"torch copies {size // MIB} MiB, {memory} host memory"
    return figure([size / time_ / 1e9 for time_ in times], "GB/s", method)


def _device_copy(seconds: float) -> Document:
    torch = load_torch()
    size = _fitting(_COPY_BYTES)
    source = torch.ones(size // 4, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    times = CUDA.time_calls(partial(target.copy_, source), seconds)
    method = f"torch copies {size // MIB} MiB within the GPU, bytes read and written counted"
    return figure([2 * size / time_ / 1e9 for time_ in times], "GB/s", method)


def _fitting(wanted: int) -> int:
    """At most a fifth of the GPU's free memory, in whole MiB."""
    free, _ = load_torch().cuda.mem_get_info()
    return max(MIB, min(wanted, int(free * _SHARE_OF_FREE_MEMORY)) // MIB * MIB)
