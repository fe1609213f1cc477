"""Names that include the owner of everything a sweep creates, so that leftovers can be traced to it.

Everything that may outlive its process (a cgroup, a folder, a child process) is marked
`advisor-PID-STARTTIME-PLACE-..`. A process with a reused pid has another start time, and one of another
machine, boot or container another place, so neither is the owner. There is no register besides these names:
nothing has to be written first, and no file can disagree with the machine. Standard library only: the worker
imports this too."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import secrets
import socket
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from advisor.sweeps.machine.processes import is_running, start_ticks, stat_fields

OWNER_VARIABLE = "ADVISOR_OWNER"  # the environment variable with a process's owner
_MARK = re.compile(r"advisor-(\d+)-(\d+)(?:-(\d{10}))?(?:-\d+)*$")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_serial = itertools.count()


class OwnerTag(Struct, frozen=True):
    """A process: `started` in clock ticks since boot; `place` as ten digits, "" if unknown."""

    pid: int
    started: str
    place: str = ""

    def __str__(self) -> str:
        return f"advisor-{self.pid}-{self.started}-{self.place or 0}"

    @property
    def is_elsewhere(self) -> bool:
        """Whether the owner belongs to another machine, boot or container, which is unknown here."""
        return self.place not in ("", _place_digits())

    @property
    def has_gone(self) -> bool:
        """Whether the process has ended; False if the system shows no processes."""
        return bool(stat_fields(os.getpid())) and not (
            self.is_elsewhere or is_running(self.pid, self.started)
        )


def own_tag() -> OwnerTag:
    """The tag of this process, or of the one that it works for (a Ray task works for its driver)."""
    served = tag_in(os.environ.get(OWNER_VARIABLE, ""))
    if served and not served.is_elsewhere and not served.has_gone:
        return served
    return process_tag()


def process_tag() -> OwnerTag:
    """The tag of this process."""
    return OwnerTag(os.getpid(), start_ticks(os.getpid()) or "0", _place_digits())


def new_name() -> str:
    """A unique name for something that this process creates."""
    return f"{own_tag()}-{os.getpid()}-{next(_serial)}"


def tag_in(name: str) -> OwnerTag | None:
    """The owner in a name; None for a name without a mark."""
    match = _MARK.match(name)
    return OwnerTag(int(match[1]), match[2], match[3] or "") if match else None


def scratch_parent() -> Path:
    """The parent of workers' scratch folders; it is short, since a socket's path has at most 107 bytes."""
    return Path("/tmp" if os.access("/tmp", os.W_OK) else tempfile.gettempdir())


@cache
def place() -> str:
    """The boot and process namespace in which our process ids are valid; "" if unknown."""
    try:
        return f"{_BOOT.read_text().strip()}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _place_digits() -> str:
    """A hash of `place` in ten digits, short enough for a name."""
    if not place():
        return ""
    return f"{int.from_bytes(hashlib.sha256(place().encode()).digest()[:4]):010d}"


class Owner(Struct, frozen=True):
    """A driver of a sweep: its `pid` within `place`, a boot and process namespace ("" if unknown)."""

    name: str
    host: str
    place: str
    pid: int
    started: str


def this_process() -> Owner:
    """A new owner for this process; each call returns another one, so that successive drivers differ."""
    host, pid = socket.gethostname(), os.getpid()
    name = f"{host[:100]}:{pid}:{secrets.token_hex(8)}"
    return Owner(name, host[:255], place(), pid, start_ticks(pid))


def columns_of(owner: Owner) -> dict[str, Any]:
    """The owner as database columns."""
    columns = asdict(owner)
    return {"owner": columns.pop("name"), **columns}


def process_has_gone(where: str, pid: int, start_time: str) -> bool:
    """Whether a process has ended; False for other machines and containers, where that is unknown."""
    return bool(where) and where == place() and not is_running(pid, start_time)
