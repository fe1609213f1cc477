"""Who holds a lease: a process, known again also when it has gone and its number is reused."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from typing import Any

from sweeps.machine.processes import is_running, start_ticks
from sweeps.trial.ownership import place


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """One driver. `place` is the one boot and process namespace in which `pid` means it; empty
    where the system does not tell."""

    name: str
    host: str
    place: str
    pid: int
    started: str


def this_process() -> Owner:
    """A new owner: another one at every call, so that a driver is told from the one before."""
    host, pid = socket.gethostname(), os.getpid()
    return Owner(
        name=f"{host[:100]}:{pid}:{secrets.token_hex(8)}",
        host=host[:255],
        place=place(),
        pid=pid,
        started=start_ticks(pid),
    )


def columns_of(owner: Owner) -> dict[str, Any]:
    """The owner as the columns of a row that it owns."""
    return {
        "owner": owner.name,
        "host": owner.host,
        "place": owner.place,
        "pid": owner.pid,
        "started": owner.started,
    }


def has_gone(where: str, pid: int, start_time: str) -> bool:
    """Whether that process runs no more; of other machines and containers, never."""
    return bool(where) and where == place() and not is_running(pid, start_time)
