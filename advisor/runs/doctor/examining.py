"""All checks, side by side: the slowest (loading torch) is how long it takes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from advisor.errors import MeasuringError, one_line
from advisor.extras import install_command
from advisor.records import asdict
from advisor.runs.doctor.machine import (
    Check,
    Finding,
    State,
    check_bundle,
    check_clock,
    check_database,
    check_disk,
    check_limits,
    check_shared_memory,
    check_unsaved,
    dates_in_bundle,
)
from advisor.sweeps.machine.gpu import NO_NVML, gpus
from advisor.sweeps.trial.orphan import Orphan
from advisor.sweeps.trial.orphan_removal import find_orphans, remove

_TOLD_COMMANDS = 3


def check_leftovers(*, keep: bool) -> Finding:
    """Remove it, or with `keep` only tell of it; what a live sweep owns is none."""
    left = find_orphans()
    if not left:
        return Finding(State.OK, "none", facts=_facts([], [], []))
    if keep:
        return Finding(
            State.WARNING,
            f"of killed sweeps: {_named(left)}",
            "advisor doctor (without --dry-run) removes it, and so does the next sweep",
            facts=_facts(left, [], []),
        )
    outcome = remove(left)
    stuck = [orphan.orphan for orphan in outcome.stuck]
    facts = _facts(left, outcome.gone, stuck)
    if not stuck:
        text = f"of killed sweeps, removed: {_named(left)}"
        return Finding(State.OK, text, facts=facts)
    reasons = sorted({orphan.reason for orphan in outcome.stuck})
    commands = "; ".join(f"sudo {orphan.command}" for orphan in stuck[:_TOLD_COMMANDS])
    commands += "; .. (-o json has all)" * (len(stuck) > _TOLD_COMMANDS)
    return Finding(
        State.PROBLEM,
        f"cannot be removed ({'; '.join(reasons)}): {_named(stuck)}",
        f"with the rights for it: sudo advisor doctor, or {commands}",
        facts=facts,
    )


def _named(left: list[Orphan]) -> str:
    """'5 cgroups (/sys/..), 1 folder (/tmp/..)': one name of each kind."""
    names = []
    for kind, count in Counter(orphan.kind for orphan in left).items():
        first = next(orphan.name for orphan in left if orphan.kind == kind)
        many = f"{kind}{'es' if kind.endswith('s') else 's'} ({first}, ..)"
        names.append(f"{count} {many}" if count > 1 else f"1 {kind} ({first})")
    return ", ".join(names)


def _facts(*lists: Any) -> dict[str, list[dict[str, str]]]:
    rows = [
        [{"kind": orphan.kind, "name": orphan.name, "command": orphan.command} for orphan in some]
        for some in lists
    ]
    return dict(zip(("found", "removed", "stuck"), rows, strict=True))


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
    """Checks the driver's report; a machine without a GPU is well, too."""
    try:
        known = [{name: gpu[name] for name in _GPU_FACTS} for gpu in gpus()]
    except MeasuringError as error:
        if not _DRIVER.exists() and error.code == NO_NVML:
            text = "no NVIDIA GPU here; --accelerator emulated:T4 or cpu measure without one"
            return Finding(State.OK, text, facts={"gpus": []})
        return Finding(
            State.PROBLEM,
            str(error),
            "load the driver (modprobe nvidia; dmesg tells of Xid errors), or start the "
            "container with --gpus all",
            facts={"gpus": []},
        )
    named = ", ".join(str(gpu.get("name")) for gpu in known) or "the driver knows no GPU"
    driver = next((gpu.get("driver") for gpu in known), None)
    state = State.OK if known else State.WARNING
    return Finding(
        state,
        f"{named}; driver {driver}" if known else named,
        "" if known else "look with lspci whether the machine has one",
        facts={"gpus": known},
    )


def check_torch(patience_seconds: float = _PATIENCE_SECONDS, code: str = _TORCH) -> Finding:
    """Whether torch loads, computes, and sees the GPU that the driver has."""
    if not find_spec("torch"):
        return Finding(State.WARNING, "not installed: nothing can be measured here", install_command("sweep"))
    answer = _child_document(code, patience_seconds)
    if "error" in answer:
        return Finding(
            State.PROBLEM,
            str(answer["error"]),
            "install it anew, built for this driver's CUDA: https://pytorch.org/get-started",
            facts=answer,
        )
    gpus = ", ".join(answer["gpus"])
    text = f"{answer['version']}, " + (f"computes on {gpus}" if gpus else "computes on the CPU")
    if _DRIVER.exists() and not gpus:
        return Finding(
            State.PROBLEM,
            f"{text}, though a driver is loaded (built for CUDA {answer['cuda_build']})",
            "install a torch built for CUDA (https://pytorch.org/get-started), and update "
            "the driver where it is older than that",
            facts=answer,
        )
    return Finding(State.OK, text, facts=answer)


def check_ray(patience_seconds: float = _PATIENCE_SECONDS, code: str = _RAY) -> Finding:
    """Whether Ray loads; everything but clusters works without it."""
    without = "measure with --executor process meanwhile"
    if not find_spec("ray"):
        return Finding(State.WARNING, "not installed", f"{install_command('sweep')}; {without}")
    answer = _child_document(code, patience_seconds)
    if "error" in answer:
        advice = f"install it anew (pip install 'ray>=2.60'); {without}"
        return Finding(State.WARNING, str(answer["error"]), advice, facts=answer)
    return Finding(State.OK, str(answer["version"]), facts=answer)


def _child_document(code: str, patience_seconds: float) -> Mapping[str, Any]:
    """The JSON that a child prints last; `error` where there is none."""
    command = [sys.executable, "-P", "-W", "ignore", "-c", code]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=patience_seconds, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return {"error": f"did not load in {patience_seconds:g} s"}
    with suppress(ValueError):
        answer = json.loads((done.stdout.strip().splitlines() or [""])[-1])
        if isinstance(answer, dict):
            return answer
    lines = done.stderr.strip().splitlines()
    return {"error": f"does not load: {lines[-1][:200] if lines else f'ended with code {done.returncode}'}"}


SCHEMA = "advisor.doctor/1"


def examine(*, keep_leftovers: bool) -> list[Finding]:
    """Every check's finding, in the order in which they are told."""
    return run_checks(
        {
            "leftovers": partial(check_leftovers, keep=keep_leftovers),
            "limits": check_limits,
            "disk space": check_disk,
            "shared memory": check_shared_memory,
            "torch": check_torch,
            "gpu": check_gpu,
            "ray": check_ray,
            "database": check_database,
            "unsaved measurements": check_unsaved,
            "bundle": check_bundle,
            "clock": lambda: check_clock(dates_in_bundle()),
        }
    )


def run_checks(checks: Mapping[str, Check]) -> list[Finding]:
    """All at once; a check that fails itself is a problem, and hides no other."""
    with ThreadPoolExecutor(len(checks)) as threads:
        return list(threads.map(_finding, checks.items()))


def _finding(named: tuple[str, Check]) -> Finding:
    name, check = named
    try:
        return replace(check(), check=name)
    except Exception as error:
        text = one_line(f"cannot be told: {type(error).__name__}: {error}")
        advice = "this is a defect of the advisor; please report it with this line"
        return Finding(State.PROBLEM, text, advice, check=name)


def document(findings: list[Finding]) -> dict[str, Any]:
    """JSON, see render/schemas/doctor.schema.json."""
    return {
        "schema": SCHEMA,
        "state": worst(findings).value,
        "checks": [{"check": each.check, **asdict(each), "state": each.state.value} for each in findings],
    }


def worst(findings: list[Finding]) -> State:
    """A problem is worse than a warning."""
    return max((finding.state for finding in findings), key=list(State).index)
