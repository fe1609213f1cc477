"""Checks of torch, Ray, GPU and driver: asked in processes of their own, with a time limit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from advisor.errors import MeasuringError
from advisor.extras import install_command
from advisor.runs.doctor.finding import Finding, State
from advisor.sweeps.machine.gpu import NO_NVML, gpus

_PATIENCE_SECONDS = 60.0
_DRIVER = Path("/proc/driver/nvidia/version")
_GPU_FACTS = ("name", "driver", "memory_mib")
_TORCH = """
import json, torch
told = {"version": torch.__version__, "cuda_build": torch.version.cuda, "gpus": []}
try:
    torch.zeros(1)
    if torch.cuda.is_available():
        torch.zeros(1, device="cuda")
        told["gpus"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
except RuntimeError as error:
    told["error"] = " ".join(str(error).split())[:200]
print(json.dumps(told))
"""
_RAY = "import json, ray; print(json.dumps({'version': ray.__version__}))"


def check_gpu() -> Finding:
    """What the driver tells; a machine without a GPU is well, too."""
    try:
        known = [{name: gpu[name] for name in _GPU_FACTS} for gpu in gpus()]
    except MeasuringError as error:
        if not _DRIVER.exists() and error.code == NO_NVML:
            text = "no NVIDIA GPU here; --accelerator emulated:T4 or cpu measure without one"
            return Finding(check="gpu", state=State.OK, found=text, facts={"gpus": []})
        return Finding(
            check="gpu",
            state=State.PROBLEM,
            found=str(error),
            facts={"gpus": []},
            advice="load the driver (modprobe nvidia; dmesg tells of Xid errors), or start the "
            "container with --gpus all",
        )
    named = ", ".join(str(gpu.get("name")) for gpu in known) or "the driver knows no GPU"
    driver = next((gpu.get("driver") for gpu in known), None)
    state = State.OK if known else State.WARNING
    return Finding(
        check="gpu",
        state=state,
        found=f"{named}; driver {driver}" if known else named,
        advice="" if known else "look with lspci whether the machine has one",
        facts={"gpus": known},
    )


def check_torch(patience_seconds: float = _PATIENCE_SECONDS, code: str = _TORCH) -> Finding:
    """Whether torch loads, computes, and sees the GPU that the driver has."""
    if not find_spec("torch"):
        return Finding(
            check="torch",
            state=State.WARNING,
            found="not installed: nothing can be measured here",
            advice=install_command("sweep"),
        )
    answer = _asked(code, patience_seconds)
    if "error" in answer:
        return Finding(
            check="torch",
            state=State.PROBLEM,
            found=str(answer["error"]),
            facts=answer,
            advice="install it anew, built for this driver's CUDA: https://pytorch.org/get-started",
        )
    gpus = ", ".join(answer["gpus"])
    text = f"{answer['version']}, " + (f"computes on {gpus}" if gpus else "computes on the CPU")
    if _DRIVER.exists() and not gpus:
        return Finding(
            check="torch",
            state=State.PROBLEM,
            facts=answer,
            found=f"{text}, though a driver is loaded (built for CUDA {answer['cuda_build']})",
            advice="install a torch built for CUDA (https://pytorch.org/get-started), and update "
            "the driver where it is older than that",
        )
    return Finding(check="torch", state=State.OK, found=text, facts=answer)


def check_ray(patience_seconds: float = _PATIENCE_SECONDS, code: str = _RAY) -> Finding:
    """Whether Ray loads; everything but clusters works without it."""
    without = "measure with --executor process meanwhile"
    if not find_spec("ray"):
        return Finding(
            check="ray",
            state=State.WARNING,
            found="not installed",
            advice=f"{install_command('sweep')}; {without}",
        )
    answer = _asked(code, patience_seconds)
    if "error" in answer:
        return Finding(
            check="ray",
            state=State.WARNING,
            found=str(answer["error"]),
            facts=answer,
            advice=f"install it anew (pip install 'ray>=2.60'); {without}",
        )
    return Finding(check="ray", state=State.OK, found=str(answer["version"]), facts=answer)


def _asked(code: str, patience_seconds: float) -> Mapping[str, Any]:
    """The JSON that a child prints last; `error` where there is none."""
    command = [sys.executable, "-P", "-W", "ignore", "-c", code]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=patience_seconds, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return {"error": f"did not load in {patience_seconds:g} s"}
    lines = done.stdout.strip().splitlines()
    try:
        answer: Any = json.loads(lines[-1]) if lines else None
    except ValueError:
        answer = None
    if isinstance(answer, dict):
        return answer
    lines = done.stderr.strip().splitlines()
    ending = lines[-1][:200] if lines else f"ended with code {done.returncode}"
    return {"error": f"does not load: {ending}"}
