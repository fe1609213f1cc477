"""Names that carry the owner of everything a sweep takes, so that leftovers can be traced to it.

Everything that outlives a process by itself (a cgroup, a folder, a process of its own) is marked
`advisor-PID-STARTTIME-PLACE-..`. A reused pid has another start time; a pid of another machine, boot or
container another place: neither is the owner. The names are the whole register, so that nothing has to be
written before something is taken, and no file can disagree with the machine. Standard library only: the
worker imports this too."""

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

OWNER_VARIABLE = "ADVISOR_OWNER"  # a process of ours carries its owner's mark in its environment
_MARK = re.compile(r"advisor-(\d+)-(\d+)(?:-(\d{10}))?(?:-\d+)*$")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_serial = itertools.count()


class OwnerTag(Struct, frozen=True):
    """A process: `started` in clock ticks since boot; `place` in ten digits, "" where unknown."""

    pid: int
    started: str
    place: str = ""

    def __str__(self) -> str:
        return f"advisor-{self.pid}-{self.started}-{self.place or 0}"

    @property
    def is_elsewhere(self) -> bool:
        """True for an owner on another machine, boot or container: nothing is known of it here."""
        return self.place not in ("", _place_digits())

    @property
    def has_gone(self) -> bool:
        """Whether it runs no more; nobody knows where the system shows no processes."""
        return bool(stat_fields(os.getpid())) and not (
            self.is_elsewhere or is_running(self.pid, self.started)
        )


def own_tag() -> OwnerTag:
    """This process, or the one that it works for (a Ray task works for its driver)."""
    served = tag_in(os.environ.get(OWNER_VARIABLE, ""))
    if served and not served.is_elsewhere and not served.has_gone:
        return served
    return process_tag()


def process_tag() -> OwnerTag:
    """This very process."""
    return OwnerTag(os.getpid(), start_ticks(os.getpid()) or "0", _place_digits())


def new_name() -> str:
    """A name for something that this process takes; another one at every call."""
    return f"{own_tag()}-{os.getpid()}-{next(_serial)}"


def tag_in(name: str) -> OwnerTag | None:
    """The owner in a name; None for names that are not ours."""
    match = _MARK.match(name)
    return OwnerTag(int(match[1]), match[2], match[3] or "") if match else None


def scratch_parent() -> Path:
    """The parent of a worker's scratch folder, short, since a socket's path has 107 bytes."""
    return Path("/tmp" if os.access("/tmp", os.W_OK) else tempfile.gettempdir())


@cache
def place() -> str:
    """The one boot and process namespace in which a pid of ours means us; "" where unknown."""
    try:
        return f"{_BOOT.read_text().strip()}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _place_digits() -> str:
    """`place` short enough for a name."""
    if not place():
        return ""
    return f"{int.from_bytes(hashlib.sha256(place().encode()).digest()[:4]):010d}"


class Owner(Struct, frozen=True):
    """One driver: its `pid` within `place`, a boot and process namespace ('' if unknown)."""

    name: str
    host: str
    place: str
    pid: int
    started: str


def this_process() -> Owner:
    """A new owner: another one at every call, so that a driver differs from the one before."""
    host, pid = socket.gethostname(), os.getpid()
    name = f"{host[:100]}:{pid}:{secrets.token_hex(8)}"
    return Owner(name, host[:255], place(), pid, start_ticks(pid))


def columns_of(owner: Owner) -> dict[str, Any]:
    """The owner as the columns of a row that it owns."""
    columns = asdict(owner)
    return {"owner": columns.pop("name"), **columns}


def process_has_gone(where: str, pid: int, start_time: str) -> bool:
    """Whether that process runs no more; of other machines and containers, never."""
    return bool(where) and where == place() and not is_running(pid, start_time)
