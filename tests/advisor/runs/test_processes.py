"""Commands as child processes: whoever ends one finds it, however early."""

import signal
import subprocess
import sys

EARLY = """
import os, signal, sys
from pathlib import Path
from advisor.runs.processes import command_process

def leave(number, frame):
    raise KeyboardInterrupt

signal.signal(signal.SIGTERM, leave)
# In the child, before any code of this process has run there.
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
with command_process(["sleep", "30"], sys.argv[1], Path(sys.argv[1]) / "a.log") as process:
    print(process.wait())
"""


def test_a_signal_between_fork_and_exec_ends_the_command(tmp_path):
    """Though the parent has a handler of its own, which the child inherits until its exec."""
    done = subprocess.run([sys.executable, "-c", EARLY, tmp_path], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str(-signal.SIGTERM), done.stderr
