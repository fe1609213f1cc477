"""Processes whose owner has gone: they carry its mark in their environment."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from advisor.errors import MeasuringError
from sweeps.machine.processes import is_running, start_ticks
from sweeps.trial.orphans.orphan import Orphan, OwnerFilter
from sweeps.trial.ownership import OWNER_VARIABLE, OwnerTag, tag_in

_PATIENCE_SECONDS = 5.0
# Ends by itself with the last process that it serves; killed, it would be started anew.
_ENDS_BY_ITSELF = b"multiprocessing.resource_tracker"
_VARIABLE = f"{OWNER_VARIABLE}=".encode()


def orphan_processes(of_owner: OwnerFilter) -> Iterator[Orphan]:
    """All but this one; those of other users show their environment to root only."""
    for entry in Path("/proc").iterdir() if Path("/proc/self").exists() else ():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        since = start_ticks(int(entry.name))
        tag = _owner_of(entry)
        if tag and of_owner(tag) and is_running(int(entry.name), since):
            yield Orphan(
                kind="process", name=f"{entry.name} ({_words(entry)})", owner=tag,
                command=f"kill -9 {entry.name}", remove=partial(_end, int(entry.name), since),
            )  # fmt: skip


def _owner_of(entry: Path) -> OwnerTag | None:
    try:
        variables = (entry / "environ").read_bytes().split(b"\0")
        if _ENDS_BY_ITSELF in (entry / "cmdline").read_bytes():
            return None
    except OSError:
        return None
    for variable in variables:
        if variable.startswith(_VARIABLE):
            return tag_in(variable[len(_VARIABLE) :].decode(errors="replace"))
    return None


def _words(entry: Path) -> str:
    try:
        return (entry / "comm").read_text().strip()
    except OSError:
        return "?"


def _end(pid: int, since: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while is_running(pid, since):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise MeasuringError("the kernel holds it", hint="does its disk still answer?")
        time.sleep(0.01)
