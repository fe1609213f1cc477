"""What only torch knows of the GPU, asked in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

_PROBED = ("gpu", "gemm")


def gpu_name() -> str:
    """What CUDA calls its device 0; `MeasuringError` that says which part is missing."""
    from sweeps.probe.accelerator import need_cuda

    need_cuda()
    import torch

    return torch.cuda.get_device_name(0)


def short_fingerprint() -> dict[str, Any]:
    """Copy rates and matrix products of the GPU, in about ten seconds."""
    from sweeps.probe.figures import fingerprint
    from sweeps.probe.session import run_probe

    return fingerprint(run_probe(_PROBED, quick=True, disk=Path(), report=_report))


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")
