"""`advisor doctor`: checks of this machine, run in parallel, each with advice on how to fix what it finds."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, date, datetime
from enum import StrEnum
from functools import partial
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from advisor.catalog.bundle import BundleFiles
from advisor.domain import LimitedBy
from advisor.errors import AdvisorError, DataError, MeasuringError, one_line
from advisor.extras import install_command
from advisor.files import datasets_folder, user_folder
from advisor.messages import format_counted
from advisor.records import asdict
from advisor.store import default_database_url
from advisor.store.measurements import describe
from advisor.sweeps.machine.environment import allowed_cpus, machine_size, v1_groups, v2_group
from advisor.sweeps.machine.gpu import NO_NVML, gpus
from advisor.sweeps.run.queue import unsaved_files
from advisor.sweeps.trial.cgroups import strongest_limits
from advisor.sweeps.trial.limits import LimitRequest, ResourceLimits
from advisor.sweeps.trial.ownership import find_orphans, remove

SCHEMA = "advisor.doctor/1"


class State(StrEnum):
    """State of a check. `warning`: some things do not work, or not as well; `problem`: common commands will
    fail."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(Struct, frozen=True):
    """Result of a check in one line: what was found, and what to do unless it is OK; `facts` are for
    programs."""

    state: State
    found: str
    advice: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    check: str = ""


Check = Callable[[], Finding]
_ok, _warning, _problem = (partial(Finding, state) for state in State)


def _finding(good: bool, text: str, advice: str, facts: Mapping[str, Any], *, bad: bool = False) -> Finding:
    """A finding that is OK if `good`, a problem if `bad`, else a warning."""
    return _ok(text, facts=facts) if good else (_problem if bad else _warning)(text, advice, facts)


def examine(*, keep_leftovers: bool) -> list[Finding]:
    """The findings of all checks, in the order in which they are shown."""
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
            "clock": check_clock,
        }
    )


def run_checks(checks: Mapping[str, Check]) -> list[Finding]:
    """Run all checks in parallel. A check that raises becomes a problem, and the others still run."""

    def finding(name: str) -> Finding:
        try:
            return replace(checks[name](), check=name)
        except Exception as error:
            text = one_line(f"cannot be told: {type(error).__name__}: {error}")
            advice = "this is a defect of the advisor; please report it with this line"
            return _problem(text, advice, check=name)

    with ThreadPoolExecutor(len(checks)) as threads:
        return list(threads.map(finding, checks))


def document(findings: list[Finding]) -> dict[str, Any]:
    """The JSON document of render/schemas/doctor.schema.json."""
    checks = [{"check": each.check, **asdict(each), "state": each.state.value} for each in findings]
    return {"schema": SCHEMA, "state": worst(findings).value, "checks": checks}


def worst(findings: list[Finding]) -> State:
    """The worst state of the findings."""
    return max((finding.state for finding in findings), key=list(State).index)


_MOST_NAMED = 3


def check_leftovers(*, keep: bool) -> Finding:
    """Remove what killed sweeps left, or with `keep` only report it. Live sweeps are left alone."""
    left = find_orphans()
    outcome = remove(left) if left and not keep else None
    stuck = [orphan.orphan for orphan in outcome.stuck] if outcome else []
    lists = {"found": left, "removed": outcome.gone if outcome else (), "stuck": stuck}
    facts = {
        name: [{"kind": orphan.kind, "name": orphan.name, "command": orphan.command} for orphan in orphans]
        for name, orphans in lists.items()
    }
    named = ", ".join(f"{orphan.kind} {orphan.name}" for orphan in left[:_MOST_NAMED])
    if not left:
        return _ok("none", facts=facts)
    if outcome is None:
        advice = "advisor doctor (without --dry-run) removes it, and so does the next sweep"
        return _warning(f"{len(left)} of killed sweeps: {named}", advice, facts)
    if not stuck:
        return _ok(f"{len(left)} of killed sweeps, removed: {named}", facts=facts)
    text = f"{len(stuck)} of killed sweeps cannot be removed ({outcome.stuck[0].reason}): {named}"
    return _problem(text, f"with the rights for it: sudo advisor doctor, or sudo {stuck[0].command}", facts)


_GIB = 2**30
_SYSTEMD = Path("/run/systemd/system")
_TRIED_MEMORY_MIB = 64.0
_WAYS_OUT = (
    "run as root; as a user, in a scope of your own (systemd-run --user --scope -p Delegate=yes "
    "advisor ..); in a container, with cgroups read-write (docker run --security-opt "
    "writable-cgroups=true, or --privileged; podman run --security-opt unmask=/sys/fs/cgroup)"
)


def check_limits() -> Finding:
    """Checks that limits of trials can be enforced; it really makes a cgroup, and removes it."""
    if not sys.platform.startswith("linux"):
        return _warning(f"{sys.platform} holds no limits", "measure on Linux")
    request = LimitRequest(vcpus=0.5, memory_mib=_TRIED_MEMORY_MIB, cpus=tuple(allowed_cpus()[:1]))
    size, group = machine_size(), v2_group()
    controllers: list[str] = []
    with suppress(OSError):
        controllers = (group.directory / "cgroup.controllers").read_text().split() if group else []
    facts: dict[str, Any] = {
        "version_1": sorted(v1_groups()),
        "version_2": sorted(controllers),
        "cpu_quota": size.cpu_quota,
        "memory_limit_mib": size.memory_limit_mib,
    }
    try:
        with strongest_limits(request) as hold:
            hold.limit_memory()
            hold.engage()
            facts |= {"limited_by": hold.limited_by.value, "held": dict(hold.held)}
            return replace(_limits_that_hold(hold), facts=facts)
    except (OSError, MeasuringError) as error:
        return _problem(f"a cgroup cannot be made or set ({error})", _WAYS_OUT, facts)


def _limits_that_hold(hold: ResourceLimits) -> Finding:
    if hold.limited_by is LimitedBy.NONE:
        text = "no cgroup of our own can be made: only whole vCPUs and private memory are held"
        return _warning(text, _WAYS_OUT)
    by, group = f"held by {hold.limited_by.value}", hold.usage_source()
    folder = Path(group["group"]) if group["kind"] == LimitedBy.CGROUP_V2 else None
    # Right beneath the root cgroup, systemd switches off the controllers that none of its units needs.
    if folder and _SYSTEMD.is_dir() and not (folder.parent / "cgroup.type").exists():
        return _warning(
            f"vCPUs, memory and disk are {by}, until systemd takes it back",
            "run in a scope of its own: systemd-run --scope -p Delegate=yes advisor ..",
        )
    if folder is None or "io" in (folder / "cgroup.controllers").read_text().split():
        return _ok(f"vCPUs, memory and disk are {by}")
    return _warning(
        f"vCPUs and memory are {by}, disk rates are not (no io controller)",
        "to hold disk rates, run as root, or have io delegated (systemctl edit user@.service: "
        "Delegate=cpu cpuset io memory pids)",
    )


# A generated data set of 10,000 images takes 1.1 GB, the rows of a large sweep some tens of MiB.
_ENOUGH_BYTES, _LEAST_BYTES = 2 * _GIB, _GIB // 5
# A batch of 256 images of 224 x 224 in fp32 takes 147 MiB, and a loader holds two.
_ENOUGH_SHARED_BYTES = _GIB // 2


def check_disk() -> Finding:
    """Free space for rows, data sets and scratch files."""
    folders = {"rows": user_folder(), "data sets": datasets_folder(), "scratch": Path("/tmp")}
    free = {name: _free(path) for name, path in folders.items()}
    facts = {"free_bytes": {str(folders[name]): size for name, size in free.items()}}
    name = min(free, key=lambda name: free[name])
    advice = (
        "free some space, or choose other places: ADVISOR_DATABASE_URL for rows, --data or "
        "XDG_CACHE_HOME for data sets"
    )
    text = f"{free[name] / _GIB:.1f} GiB free for {name} ({folders[name]})"
    return _finding(free[name] >= _ENOUGH_BYTES, text, advice, facts, bad=free[name] < _LEAST_BYTES)


def _free(folder: Path) -> int:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    with suppress(OSError):
        return shutil.disk_usage(folder).free
    return 0


def check_shared_memory(folder: Path = Path("/dev/shm")) -> Finding:
    """Free shared memory, through which loader processes pass batches; containers get 64 MiB by default."""
    free = _free(folder) if folder.is_dir() else 0
    advice = "make it larger (docker run --shm-size 2g), or take small batches"
    text = f"{free / _GIB:.1f} GiB free in {folder}"
    return _finding(free >= _ENOUGH_SHARED_BYTES, text, advice, {"free_bytes": free})


_PATIENCE_SECONDS = 60.0
_DRIVER = Path("/proc/driver/nvidia/version")
_GPU_FACTS = ("name", "driver", "memory_mib")
_TORCH = """
import json, torch
facts = {"version": torch.__version__, "cuda_build": torch.version.cuda, "gpus": []}
try:
    torch.zeros(1)
    if torch.cuda.is_available():
        torch.zeros(1, device="cuda")
        facts["gpus"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
except RuntimeError as error:
    facts["error"] = " ".join(str(error).split())[:200]
print(json.dumps(facts))
"""
_RAY = "import json, ray; print(json.dumps({'version': ray.__version__}))"


def check_torch(patience_seconds: float = _PATIENCE_SECONDS, code: str = _TORCH) -> Finding:
    """Checks that torch loads, computes, and sees the GPU that the driver has."""
    if not find_spec("torch"):
        return _warning("not installed: nothing can be measured here", install_command("sweep"))
    answer = _child_document(code, patience_seconds)
    if "error" in answer:
        advice = "install it anew, built for this driver's CUDA: https://pytorch.org/get-started"
        return _problem(str(answer["error"]), advice, answer)
    gpus = ", ".join(answer["gpus"])
    sees, text = bool(gpus) or not _DRIVER.exists(), f"{answer['version']}, computes on {gpus or 'the CPU'}"
    text += "" if sees else f", though a driver is loaded (built for CUDA {answer['cuda_build']})"
    advice = "install a torch built for CUDA that this driver supports: https://pytorch.org/get-started"
    return _finding(sees, text, advice, answer, bad=True)


def check_gpu() -> Finding:
    """The GPUs that the driver reports; a machine without one is OK."""
    try:
        known = [{name: gpu[name] for name in _GPU_FACTS} for gpu in gpus()]
    except MeasuringError as error:
        if not _DRIVER.exists() and error.code == NO_NVML:
            text = "no NVIDIA GPU here; --accelerator emulated:T4 or cpu measure without one"
            return _ok(text, facts={"gpus": []})
        return _problem(
            str(error),
            "load the driver (modprobe nvidia; dmesg tells of Xid errors), or start the "
            "container with --gpus all",
            {"gpus": []},
        )
    if not known:
        advice = "look with lspci whether the machine has one"
        return _warning("the driver knows no GPU", advice, {"gpus": known})
    named = ", ".join(str(gpu.get("name")) for gpu in known)
    return _ok(f"{named}; driver {known[0].get('driver')}", facts={"gpus": known})


def check_ray(patience_seconds: float = _PATIENCE_SECONDS, code: str = _RAY) -> Finding:
    """Checks that Ray loads; only clusters need it."""
    without = "measure with --executor process meanwhile"
    if not find_spec("ray"):
        return _warning("not installed", f"{install_command('sweep')}; {without}")
    answer = _child_document(code, patience_seconds)
    if "error" in answer:
        advice = f"install it anew (pip install 'ray>=2.60'); {without}"
        return _warning(str(answer["error"]), advice, answer)
    return _ok(str(answer["version"]), facts=answer)


def _child_document(code: str, patience_seconds: float) -> Mapping[str, Any]:
    """The JSON object in a child's last line of output; `error` says why there is none."""
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


_DATABASE_PATIENCE_SECONDS = 5.0
_CLOCKS_APART_SECONDS = 30.0


def check_database(patience_seconds: float = _DATABASE_PATIENCE_SECONDS) -> Finding:
    """Checks that the database answers, its version, and which drivers measure into it."""
    try:
        state = describe(default_database_url(), patience_seconds=patience_seconds)
    except AdvisorError as error:
        return _problem(str(error), "docs/reference/store.md tells what each trouble means")
    text = f"{state['program']}, {state['name']}: {format_counted(state['rows'], 'row')}"
    if state["held"]:
        text += f"; measured into now by {', '.join(state['held'])}"
    if state["left_leases"]:
        text += f"; {state['left_leases']} leases of drivers that are gone, free to take"
    apart = abs(time.time() - state["now"]) if state["now"] else 0.0
    agree = apart <= _CLOCKS_APART_SECONDS
    text += "" if agree else f"; its clock and this one are {apart:.0f} s apart"
    return _finding(agree, text, "set both by NTP (timedatectl set-ntp true)", state)


def check_unsaved() -> Finding:
    """Files with measurements that the database could not take and that are not imported yet."""
    paths = [str(path) for path in unsaved_files()]
    text = f"the database could not take what is in {', '.join(paths)}"
    advice = f"advisor measurements import {' '.join(paths[:1])}, then remove the file"
    return _warning(text, advice, {"files": paths}) if paths else _ok("none")


# An older bundle lacks some newer types.
_WARN_DAYS = 30


def check_bundle(today: date | None = None) -> Finding:
    """Checks that the bundled catalogue is complete, and how old its prices are."""
    try:
        bundle = _bundle()
        bundle.verify()
        prices = _dates_of_prices()["aws"]
    except (DataError, KeyError, ValueError) as error:
        advice = f"install the advisor anew: {install_command()} --force-reinstall --no-deps"
        return _problem(str(error), advice)
    age = ((today or datetime.now(UTC).date()) - prices).days
    digest = str(bundle.manifest["digest"])
    facts = {"digest": digest, "prices_as_of": prices.isoformat(), "age_days": age}
    text = f"the catalogue is whole (digest {digest[:12]}); its AWS prices are {age} days old"
    advice = "advisor catalog refresh, or install a newer release of the advisor"
    return _finding(age <= _WARN_DAYS, text, advice, facts)


def _bundle() -> BundleFiles:
    return BundleFiles(Path(str(files("advisor") / "data")))


def _dates_of_prices() -> dict[str, date]:
    return {name: date.fromisoformat(cloud["as_of"]) for name, cloud in _bundle().manifest["clouds"].items()}


def check_clock(now: datetime | None = None) -> Finding:
    """Checks that the clock is right, at least not before the dates of the bundled prices."""
    now, newest = now or datetime.now(UTC), date.min
    with suppress(DataError, KeyError, ValueError):  # `check_bundle` reports dates that cannot be read
        newest = max(_dates_of_prices().values())
    text, facts = f"{now:%Y-%m-%d %H:%M} UTC", {"now": now.isoformat(timespec="seconds")}
    if now.date() >= newest:
        return _ok(text, facts=facts)
    text += f", which is before the bundled prices ({newest})"
    return _problem(text, "set the clock (timedatectl set-ntp true): clouds refuse wrong times", facts)
