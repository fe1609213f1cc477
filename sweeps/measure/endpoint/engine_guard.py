"""Runs an engine, and ends it with all of its processes once whoever wanted it is gone.

`python -m advisor.sweeps.measure.endpoint.engine_guard COMMAND..`: the standard input is a pipe whose other
end the parent holds. However the parent ends, kill -9 included, the kernel closes that end. Should this
process be killed too, the next command finds the engine by the mark in its environment."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from advisor.sweeps.machine.processes import end_group
from advisor.sweeps.trial.orphans import orphan_processes, owner_is_me, remove
from advisor.sweeps.trial.ownership import OWNER_VARIABLE, own_tag

_LOOK_EVERY_SECONDS = 0.2
# An engine of several processes takes its time to end in order.
_SECONDS_TO_END = 10.0
_ROOT = str(Path(__file__).parents[4])


def main(command: Sequence[str]) -> int:
    """Run the command until it ends, or the standard input does; its exit code."""
    os.environ.pop(OWNER_VARIABLE, None)  # the engine's owner is this process
    signal.signal(signal.SIGTERM, _leave)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=_environment(), start_new_session=True)
    try:
        while process.poll() is None:
            if select.select([0], [], [], _LOOK_EVERY_SECONDS)[0] and not os.read(0, 1 << 10):
                break  # the parent has gone
    finally:
        end_group(process, _SECONDS_TO_END)  # then children in other groups
        remove(orphan for orphan in orphan_processes() if owner_is_me(orphan.owner))
    return process.returncode


def _environment() -> dict[str, str]:
    """The user's own, without the folder that this package was found in, and with our mark."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    own = os.pathsep.join(path for path in paths if path and path != _ROOT)
    environment = dict(os.environ) | {OWNER_VARIABLE: str(own_tag()), "PYTHONPATH": own}
    return environment if own else {k: v for k, v in environment.items() if k != "PYTHONPATH"}


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
