"""The worker as somebody starts it by hand."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [(["--help"], 0, "Reads one line of JSON on stdin"), ([], 1, "no trial on stdin")],
)
def test_it_says_what_it_reads(words, code, says):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "advisor.sweeps.worker", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == code
    assert says in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
