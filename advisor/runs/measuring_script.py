"""Measures a user's training script: its steps, if it calls our hook, and the resources that it uses."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from advisor.catalog import load_catalog
from advisor.catalog.prices import OfferQuery
from advisor.domain import Market
from advisor.domain.machines import Range
from advisor.errors import MeasuringError, UsageError
from advisor.runs.processes import how_it_ended
from advisor.sweeps.hook import FILE_VARIABLE, PROFILE_VARIABLE, SECONDS_VARIABLE, unfinished
from advisor.sweeps.machine.environment import local_cpu
from advisor.sweeps.machine.gpu import GpuSampler
from advisor.sweeps.machine.processes import end_group
from advisor.sweeps.measure.document import (
    FEWEST_STEPS,
    RecordedSteps,
    anchor_of_script,
    document,
    gpu_uuid,
    read_steps,
)
from advisor.sweeps.measure.usage import FEWEST_SAMPLES, Sample, UsageSampler, usage_of

_LOOK_EVERY_SECONDS = 0.2
_SECONDS_TO_END = 5.0
# Loading data and compiling may take long, but a script that never calls the hook must be ended, too.
_SECONDS_TO_BEGIN = 900.0
_SOURCE_TREE = Path(__file__).resolve().parents[2]
# Memory of an instance that the system needs beside the script.
_SYSTEM_MIB = 512
_HOOK = "advisor.sweeps.hook"
_ADVICE = "wrap the loop's loader: `from advisor.sweeps.hook import steps`, `for batch in steps(loader):`"

Progress = Callable[[str], None]


def measure_script(
    command: Sequence[str],
    *,
    minutes: float,
    on_progress: Progress,
    runs: int = 1,
    profile: bool = True,
    seconds_to_begin: float = _SECONDS_TO_BEGIN,
) -> dict[str, Any]:
    """The anchor of a script's training loop, from `runs` runs within `minutes`; each ends once it is
    measured. Without the hook only resource usage is measured. `UsageError` if the script cannot be started,
    `MeasuringError` for too few steps, or a hook that it never reaches."""
    has_hook = _calls_hook(command)
    begun = time.monotonic()
    recorded: list[RecordedSteps] = []
    warnings: list[str] = []
    samples: list[Sample] = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory(prefix="advisor-measure-") as folder:
            path = Path(folder) / "steps.jsonl"
            with (
                _started(command, _environment(path, minutes / runs, profile)) as process,
                UsageSampler(process.pid) as sampler,
            ):
                on_progress(f"running {' '.join(command)}")
                if not has_hook:
                    _wait(process, unfinished(path).exists, begun + 60 * minutes, ends=True)
                is_timed = has_hook or unfinished(path).exists()
                state = _watch(process, path, seconds_to_begin, on_progress) if is_timed else {}
                code = process.poll()
            samples = samples or sampler.samples
            if not is_timed and (code is None or len(samples) >= FEWEST_SAMPLES):
                break
            recorded.append(_recorded(path, code))
            recorded[-1].facts["gpu_state"] = state
        if code:
            warnings.append(f"the script {how_it_ended(code)}: the steps until then count")
    seconds = time.monotonic() - begun
    if not recorded:
        return _untimed(command, seconds, _usage(samples))
    anchor = anchor_of_script(command, recorded, seconds, warnings)
    if len(samples) >= FEWEST_SAMPLES:
        anchor["usage"] = _usage(samples, anchor["runs"][0]["samples_per_second"])
    return anchor


def _untimed(command: Sequence[str], seconds: float, usage: Mapping[str, Any]) -> dict[str, Any]:
    return document(
        what={"kind": "script", "command": list(command), "unit": "sample"},
        device={"kind": "cuda" if usage["gpus"] else "cpu", "gpu": None, "threads": None},
        runs=[],
        seconds=seconds,
        usage=usage,
        warnings=[f"no step was timed, so no answer takes it for an anchor; {_ADVICE}"],
    )


def _usage(samples: Sequence[Sample], samples_per_second: float | None = None) -> dict[str, Any]:
    usage = usage_of(samples, samples_per_second)
    return usage | {"instances": instances_for(usage)}


def instances_for(usage: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The three cheapest on-demand instances in us-east-1 with the resources that the steady state needs; a
    CPU here counts as a vCPU."""
    needs, catalog = usage["needs"], load_catalog()
    query = OfferQuery(
        cloud="aws",
        region="us-east-1",
        market=Market.ON_DEMAND,
        accelerated=bool(needs["gpus"]),
        vcpus=Range(needs["vcpus"]),
        memory_mib=Range(needs["memory_mib"] + _SYSTEM_MIB),
        min_gpu_memory_mib=needs["gpu_memory_mib"] or None,
    )
    architecture = local_cpu().architecture
    serving = sorted(
        (offer.price.usd_per_hour, offer.instance.name)
        for offer in catalog.offers(query)
        if (instance := offer.instance).cpu.architecture == architecture
        and instance.current
        and not instance.burstable
        and instance.gpu_count * instance.gpu_fraction >= needs["gpus"]
        # The catalogue has no EBS rate for types of 2006 to 2008.
        and (instance.ebs_baseline_mib_per_second or 0.0) >= max(1.0, needs["disk_mib_per_second"])
    )
    return [{"instance": name, "usd_per_hour": usd} for usd, name in serving[:3]]


def _calls_hook(command: Sequence[str]) -> bool:
    """True if the command or its script names the hook; `UsageError` for a script that cannot be read."""
    script = next((part for part in command if part.endswith(".py")), None)
    if script and not os.access(script, os.R_OK) and "-m" not in command and "-c" not in command:
        # Without this, Python's message for a missing script would come late, from a child process.
        raise UsageError(
            f"there is no file {script} that can be read", hint="start it as you do without the advisor"
        )
    text = " ".join(command)
    for part in command:
        with suppress(OSError):
            text += Path(part).read_text(errors="replace") if part.endswith(".py") else ""
    return _HOOK in text


def _watch(
    process: subprocess.Popen[bytes], path: Path, seconds_to_begin: float, on_progress: Progress
) -> dict[str, Any]:
    """Wait until the steps are written or the script ends; returns the GPU's state meanwhile."""
    if _wait(process, unfinished(path).exists, time.monotonic() + seconds_to_begin):
        on_progress("the script called the hook: timing its steps")
    _wait(process, lambda: gpu_uuid(path) is not None)
    with GpuSampler(gpu_uuid(path) or None, group=process.pid) as sampler:
        _wait(process, path.exists)
    return sampler.environment


def _wait(
    process: subprocess.Popen[bytes],
    is_ready: Callable[[], bool],
    until: float = math.inf,
    *,
    ends: bool = False,
) -> bool:
    while not (ready := is_ready()) and process.poll() is None:
        if time.monotonic() > until:
            if ends:
                return False
            raise MeasuringError("the script did not reach steps(loader) in time", hint=_ADVICE)
        time.sleep(_LOOK_EVERY_SECONDS)
    return ready


def _recorded(path: Path, code: int | None) -> RecordedSteps:
    """The script's recorded steps, even if it failed later; `MeasuringError` without any."""
    file = next((file for file in (path, unfinished(path)) if file.exists()), None)
    recorded = read_steps(file) if file else None
    if recorded and recorded.rows and (not code or len(recorded.rows) >= FEWEST_STEPS):
        return recorded
    if code:
        raise MeasuringError(
            f"the script {how_it_ended(code)} (what it said is above)", hint="nothing was written"
        )
    why = "made not one step" if recorded else "never called the hook"
    raise MeasuringError(f"the script ended and {why}", hint=_ADVICE)


@contextmanager
def _started(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start the command in a new session, so that its loader processes can be ended with it."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise UsageError(f"cannot start '{command[0]}' ({error.strerror or error})") from error
    try:
        yield process
    finally:
        end_group(process, _SECONDS_TO_END)


def _environment(path: Path, minutes: float, profile: bool) -> dict[str, str]:
    """The variables for the script; our packages come last in its path, so that its packages go first."""
    paths = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), str(_SOURCE_TREE)]
    return dict(os.environ) | {
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        FILE_VARIABLE: str(path),
        SECONDS_VARIABLE: str(minutes * 60),
        PROFILE_VARIABLE: str(int(profile)),
    }
