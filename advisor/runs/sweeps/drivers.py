"""The sweeps of this machine, by the store that they measure into: what `advisor sweep stop` ends,
from before they bring their data.

Each holds an abstract socket that names its process and its store, and goes with the process. A
store is named by what it is (`SqlStore.identity`), not by how a URL spells it.
"""

from __future__ import annotations

import hashlib
import os
import signal
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from advisor.sweeps.trial.ownership import process_tag, tag_in

_PREFIX = "instance-sizing-advisor/into"


@contextmanager
def driving(store_identity: str) -> Iterator[None]:
    """This process measures into that store, as long as the block."""
    with socket.socket(socket.AF_UNIX) as mark:
        mark.bind(f"\0{_place_of(store_identity)}/{process_tag()}")
        yield


def drivers_here(store_identity: str) -> set[int]:
    """The processes of this machine (and container) that measure into that store."""
    begin = f"@{_place_of(store_identity)}/"
    try:
        names = Path("/proc/net/unix").read_text().split()
    except OSError:
        return set()
    tags = (tag_in(name.removeprefix(begin)) for name in names if name.startswith(begin))
    return {tag.pid for tag in tags if tag and not tag.is_elsewhere and not tag.has_gone}


def not_ended(pids: Iterable[int]) -> dict[int, str]:
    """Has each process end as Ctrl-C would; returns why, for those where that is refused. One that
    has gone meanwhile has ended."""
    refused = {}
    for pid in sorted(pids):
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            continue
        except OSError as error:
            refused[pid] = error.strerror or str(error)
    return refused


def _place_of(store_identity: str) -> str:
    return f"{_PREFIX}/{hashlib.sha256(store_identity.encode()).hexdigest()[:16]}"
