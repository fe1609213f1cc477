"""Looking after processes that a test has started."""

import os
import signal
import time
from pathlib import Path


def gone(pid):
    """Whether a process ends within five seconds; a zombie is gone."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def as_in_a_terminal():
    """For `preexec_fn`: a shell's background job, and what it starts, ignores Ctrl-C and hangups."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def all_of(terminal):
    """What is drawn on a pseudo terminal until its other end is closed."""
    seen = b""
    try:
        while chunk := os.read(terminal, 1 << 16):
            seen += chunk
    except OSError:  # the other end is closed
        pass
    os.close(terminal)
    return seen.decode()
