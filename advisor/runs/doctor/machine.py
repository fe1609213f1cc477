"""Checks of the machine itself: what can be limited, where there is room, what time it is."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from advisor.catalog.bundle import BundleFiles
from advisor.domain import LimitedBy
from advisor.errors import AdvisorError, DataError, MeasuringError
from advisor.extras import install_command
from advisor.files import datasets_folder, user_folder
from advisor.store import default_database_url
from advisor.store.measurements import describe
from advisor.sweeps.machine.cgroups import v1_groups, v2_group
from advisor.sweeps.machine.size import allowed_cpus, machine_size
from advisor.sweeps.run.queue import unsaved_files
from advisor.sweeps.trial.limits.choosing import choose_limiter
from advisor.sweeps.trial.limits.types import LimitRequest, ResourceLimits


class State(StrEnum):
    """`warning`: some things cannot be done, or not as well; `problem`: what is asked of this
    machine most will fail."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(Struct, frozen=True):
    """One line: what is so, and what to do where it is not well; `facts` for programs. `check` names what was
    looked at."""

    state: State
    found: str
    advice: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    check: str = ""


Check = Callable[[], Finding]


# A bundle of this age lacks prices of some newer types.
_WARN_DAYS = 30

_PATIENCE_SECONDS = 5.0
_CLOCKS_APART_SECONDS = 30.0


def check_database(patience_seconds: float = _PATIENCE_SECONDS) -> Finding:
    """Whether it answers, of which version it is, and who measures into it."""
    try:
        state = describe(default_database_url(), patience_seconds=patience_seconds)
    except AdvisorError as error:
        return Finding(State.PROBLEM, str(error), "docs/reference/store.md tells what each trouble means")
    rows = "1 row" if state["rows"] == 1 else f"{state['rows']:,} rows"
    text = f"{state['program']}, {state['name']}: {rows}"
    if state["tables"] == "nothing":
        text += "; its tables are made by the first sweep"
    if state["held"]:
        text += f"; measured into now by {', '.join(state['held'])}"
    if state["left_leases"]:
        text += f"; {state['left_leases']} leases of drivers that are gone, free to take"
    apart = abs(time.time() - state["now"]) if state["now"] else 0.0
    if apart > _CLOCKS_APART_SECONDS:
        return Finding(
            State.WARNING,
            f"{text}; its clock and this one are {apart:.0f} s apart",
            "set both by NTP (timedatectl set-ntp true)",
            facts=state,
        )
    return Finding(State.OK, text, facts=state)


def check_unsaved() -> Finding:
    """Measurements that a database could not take, and that nobody has imported yet."""
    paths = [str(path) for path in unsaved_files()]
    if not paths:
        return Finding(State.OK, "none")
    return Finding(
        State.WARNING,
        f"the database could not take what is in {', '.join(paths)}",
        f"advisor measurements import {paths[0]}, then remove the file",
        facts={"files": paths},
    )


def check_bundle(today: date | None = None) -> Finding:
    """Whether the bundled catalogue is whole, and how old its prices are."""
    today = today or date.today()
    try:
        bundle = _bundle()
        bundle.verify()
        prices = date.fromisoformat(bundle.manifest["clouds"]["aws"]["as_of"])
    except (DataError, KeyError, ValueError) as error:
        return Finding(
            State.PROBLEM,
            str(error),
            f"install the advisor anew: {install_command()} --force-reinstall --no-deps",
        )
    age = (today - prices).days
    digest = str(bundle.manifest["digest"])
    facts = {"digest": digest, "prices_as_of": prices.isoformat(), "age_days": age}
    text = f"whole (digest {digest[:12]}); prices of AWS of {prices}, {age} days old"
    if age <= _WARN_DAYS:
        return Finding(State.OK, text, facts=facts)
    return Finding(
        State.WARNING,
        text,
        "upgrade the advisor, or import newer prices: advisor catalog import",
        facts=facts,
    )


def dates_in_bundle() -> list[date]:
    """When the bundled prices were true; empty where it cannot be read."""
    try:
        return [date.fromisoformat(cloud["as_of"]) for cloud in _bundle().manifest["clouds"].values()]
    except (DataError, KeyError, ValueError):
        return []


def _bundle() -> BundleFiles:
    return BundleFiles(Path(str(files("advisor") / "data")))


_GIB = 2**30
_SYSTEMD = Path("/run/systemd/system")
# A made data set of 10,000 images takes 1.1 GB, rows of a large sweep some tens of MiB.
_ENOUGH_BYTES, _LEAST_BYTES = 2 * _GIB, _GIB // 5
# A batch of 256 images of 224 x 224 in fp32 takes 147 MiB, and a loader has two in hand.
_ENOUGH_SHARED_BYTES = _GIB // 2
_TRIED_MEMORY_MIB = 64.0
_WAYS_OUT = (
    "run as root; as a user, in a scope of your own (systemd-run --user --scope -p Delegate=yes "
    "advisor ..); in a container, with cgroups read-write (docker run --security-opt "
    "writable-cgroups=true, or --privileged; podman run --security-opt unmask=/sys/fs/cgroup)"
)
_LEFT = (("cpu_quota", "CPUs"), ("memory_limit_mib", "MiB of memory"))


def check_limits() -> Finding:
    """Whether a trial can be held: groups are really made, and removed again."""
    if not sys.platform.startswith("linux"):
        return Finding(State.WARNING, f"{sys.platform} holds no limits", "measure on Linux")
    request = LimitRequest(vcpus=0.5, memory_mib=_TRIED_MEMORY_MIB, cpus=tuple(allowed_cpus()[:1]))
    size = machine_size()
    facts: dict[str, Any] = {
        "version_1": sorted(v1_groups()),
        "version_2": _version_2(),
        "cpu_quota": size.cpu_quota,
        "memory_limit_mib": size.memory_limit_mib,
    }
    try:
        with choose_limiter(request).hold(request) as hold:
            hold.limit_memory()
            hold.engage()
            facts |= {"limited_by": hold.limited_by.value, "held": dict(hold.held)}
            state, text, advice = _what_is_held(hold)
    except (OSError, MeasuringError) as error:
        return Finding(State.PROBLEM, f"a cgroup cannot be made or set ({error})", _WAYS_OUT, facts=facts)
    left = [f"{facts[name]:g} {unit}" for name, unit in _LEFT if facts[name]]
    text += f"; the container leaves {' and '.join(left)}" if left else ""
    return Finding(state, text, advice, facts=facts)


def _what_is_held(hold: ResourceLimits) -> tuple[State, str, str]:
    if hold.limited_by is LimitedBy.NONE:
        text = "no cgroup of our own can be made: only whole vCPUs and private memory are held"
        return State.WARNING, text, _WAYS_OUT
    by, group = f"held by {hold.limited_by.value}", hold.usage_source()
    folder = Path(group["group"]) if group["kind"] == LimitedBy.CGROUP_V2 else None
    # Beneath the kernel's root, which systemd manages: it switches controllers off there that no unit of its
    # own needs.
    if folder and _SYSTEMD.is_dir() and not (folder.parent / "cgroup.type").exists():
        text = f"vCPUs, memory and disk are {by}, until systemd takes it back"
        advice = "run in a scope of its own: systemd-run --scope -p Delegate=yes advisor .."
        return State.WARNING, text, advice
    if folder is None or "io" in (folder / "cgroup.controllers").read_text().split():
        return State.OK, f"vCPUs, memory and disk are {by}", ""
    text = f"vCPUs and memory are {by}, disk rates are not (no io controller)"
    advice = (
        "to hold disk rates, run as root, or have io delegated (systemctl edit user@.service: "
        "Delegate=cpu cpuset io memory pids)"
    )
    return State.WARNING, text, advice


def check_disk() -> Finding:
    """Room where rows, data sets and scratch files go."""
    folders = {"rows": user_folder(), "data sets": datasets_folder(), "scratch": Path("/tmp")}
    free = {name: _free(path) for name, path in folders.items()}
    facts = {"free_bytes": {str(folders[name]): size for name, size in free.items()}}
    name = min(free, key=lambda name: free[name])
    text = f"{free[name] / _GIB:.1f} GiB free for {name} ({folders[name]})"
    if free[name] >= _ENOUGH_BYTES:
        return Finding(State.OK, text, facts=facts)
    advice = (
        "free some space, or choose other places: ADVISOR_DATABASE_URL for rows, --data or "
        "XDG_CACHE_HOME for data sets"
    )
    return Finding(State.WARNING if free[name] >= _LEAST_BYTES else State.PROBLEM, text, advice, facts=facts)


def check_shared_memory(folder: Path = Path("/dev/shm")) -> Finding:
    """Loader processes hand batches over there; a container's has 64 MiB by default."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return Finding(
            State.WARNING,
            f"there is no {folder}",
            "mount a tmpfs there; loader processes hand batches over in it",
        )
    text, facts = f"{free / _GIB:.1f} GiB free in {folder}", {"free_bytes": free}
    if free >= _ENOUGH_SHARED_BYTES:
        return Finding(State.OK, text, facts=facts)
    return Finding(
        State.WARNING, text, "make it larger (docker run --shm-size 2g), or take small batches", facts=facts
    )


def check_clock(dates: Sequence[date], now: datetime | None = None) -> Finding:
    """The time cannot be before what has been already: the dates of the bundle's prices."""
    now = now or datetime.now(UTC)
    text, facts = f"{now:%Y-%m-%d %H:%M} UTC", {"now": now.isoformat(timespec="seconds")}
    if dates and now.date() < max(dates):
        return Finding(
            State.PROBLEM,
            f"{text}, which is before the bundled prices ({max(dates)})",
            "set the clock (chronyc makestep, timedatectl set-ntp true): ages and order "
            "of what is measured depend on it, and clouds refuse wrong times",
            facts=facts,
        )
    return Finding(State.OK, text, facts=facts)


def _version_2() -> list[str]:
    group = v2_group()
    with suppress(OSError):
        return sorted((group.directory / "cgroup.controllers").read_text().split()) if group else []
    return []


def _free(folder: Path) -> int:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return shutil.disk_usage(tempfile.gettempdir()).free if os.access("/", os.R_OK) else 0
