"""How far the kernel reads ahead on the disk of the data.

Linux's default is 128 KiB, as on a cloud server. A machine that reads ahead by megabytes fetches
many images for each one that is asked for at random, and a cold data set is soon in the cache.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from advisor.errors import MeasuringError, UsageError
from advisor.sweeps.machine.mounts import block_device

_SYS_DEV = Path("/sys/dev/block")


@contextmanager
def read_ahead(folder: Path, kib: int | None = None, sys_dev: Path = _SYS_DEV) -> Iterator[int | None]:
    """Set the read-ahead of the disk behind `folder` and restore it on leaving; with None leave
    it as it is. Gives the value in force; None where no disk is known."""
    device = block_device(folder)
    file = sys_dev / (device or "none") / "queue" / "read_ahead_kb"
    if not file.exists():
        if kib is not None:
            raise UsageError(f"no disk of '{folder}' is known to set --read-ahead of; leave it out")
        yield None
        return
    before = int(file.read_text())
    # A polite kill must restore it, too; by itself SIGTERM would leave no time for that.
    handler = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        if kib is not None:
            file.write_text(str(kib))
        yield kib or before
    except PermissionError as error:
        raise MeasuringError("--read-ahead needs root; leave it out, or ask for root") from error
    finally:
        signal.signal(signal.SIGTERM, handler)
        if kib is not None and kib != before and int(file.read_text()) != before:
            file.write_text(str(before))


def require_same(stored: int | None, now: int | None) -> None:
    """Refuse to mix trials that were measured with different read-aheads."""
    if stored != now:
        raise UsageError(
            f"what is stored here was measured with a read-ahead of {stored} KiB, and now it is "
            f"{now}; name another --work, or --read-ahead {stored}"
        )
