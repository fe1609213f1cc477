"""torch with a CUDA device that is really the CPU: lets the GPU's code run, not be measured."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch

from sweeps.probe import accelerator, gemm, gpu, layers, operations

MODULES = (accelerator, gemm, gpu, layers, operations)
CAPABILITY = (7, 5)


class RehearsedTorch:
    """Everything of torch, but `cuda`, and what is asked to make tensors there."""

    # float16 is slow on CPUs; bfloat16 goes the same ways through autocast.
    float16 = torch.bfloat16
    version = SimpleNamespace(cuda="12.4", hip=None)

    def __init__(self) -> None:
        self.busy = True
        self.cuda = SimpleNamespace(
            is_available=lambda: True,
            device_count=lambda: 1,
            synchronize=lambda: None,
            empty_cache=lambda: None,
            mem_get_info=lambda: (40 * 2**20, 16 * 2**30),
            get_device_capability=lambda _: CAPABILITY,
            get_device_properties=lambda _: SimpleNamespace(
                name="Tesla T4", total_memory=15 * 2**30, major=7, minor=5,
                multi_processor_count=40, L2_cache_size=4194304, uuid="6f6d",
            ),
            Event=lambda: SimpleNamespace(record=lambda: None, query=lambda: not self.busy),
        )  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def ones(self, *shape: Any, device: str = "cpu", pin_memory: bool = False, **more: Any) -> Any:
        """Tensors of "cuda" are on the CPU; a CPU build pins nothing."""
        return torch.ones(*shape, **more)

    def randn(self, *shape: Any, device: str = "cpu") -> Any:
        """See `ones`."""
        return torch.randn(*shape)

    def autocast(self, kind: str, dtype: Any) -> Any:
        """The CPU's autocast, with the same weights and activations."""
        assert kind == "cuda"
        return torch.autocast("cpu", dtype=dtype)


@contextmanager
def rehearsed_cuda(monkeypatch: Any) -> Any:
    """Every module of the probe sees the rehearsed torch."""
    stand_in = RehearsedTorch()
    with monkeypatch.context() as patched:
        for module in MODULES:
            if hasattr(module, "load_torch"):
                patched.setattr(module, "load_torch", lambda: stand_in)
        patched.setattr(torch.nn.Module, "to", lambda module, _device: module)
        yield stand_in
