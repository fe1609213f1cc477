"""Ctrl-C and SIGTERM at any moment of a sweep: nothing is left, and it is said how to go on."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from advisor.sweeps.trial.ownership import find_orphans
from tests.processes import as_in_a_terminal

LEAVING = """
import os, sys, time
from pathlib import Path
from advisor.cli import main
from advisor.cli.main import leaving_cleanly
from advisor.sweeps.trial.ownership import new_name, scratch_parent
import click

@click.command()
def sweep():
    with leaving_cleanly(lambda: "kept"):
        folder = scratch_parent() / new_name()
        folder.mkdir()
        try:
            print(folder, flush=True)
            time.sleep(60)
        finally:
            if len(sys.argv) > 1:
                print("leaving", flush=True)
                time.sleep(60)

main.cli.add_command(sweep, "sweep")
main.LateGroup.get_command = lambda *_: sweep
main.main(["sweep"])
"""


def started(*command, **options):
    return subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=as_in_a_terminal,
        **options,
    )


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_the_first_signal_gives_back_what_was_taken_and_says_what_is_kept(number, code):
    process = started("-c", LEAVING)
    folder = Path(process.stdout.readline().strip())
    assert folder.is_dir()
    process.send_signal(number)
    lines = process.communicate(timeout=60)[1].splitlines()
    # Another test on this machine may have left a killed sweep, which is removed on the way in.
    assert all(line.startswith("removed what a killed sweep left") for line in lines[:-1])
    assert (process.returncode, lines[-1]) == (code, "advisor: kept")
    assert not folder.exists()


def test_a_second_signal_does_not_wait_and_leaves_nothing_either():
    process = started("-c", LEAVING, "slowly")
    folder = Path(process.stdout.readline().strip())
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "leaving\n"
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 143
    assert "abandoned" in said
    assert not folder.exists()


def of(pid):
    """What that process has, or has left."""
    return find_orphans(lambda mark: mark.pid == pid)


def making(pid, home):
    return list(home.rglob("*.unfinished-*"))


def running(pid, home):
    return {"process", "folder"} <= {item.kind for item in of(pid)}


@pytest.mark.kills
@pytest.mark.machine
@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize(("phase", "executor"), [(making, "process"), (running, "process"), (running, "ray")])
def test_a_sweep_can_be_ended_in_every_phase(images, tmp_path, phase, executor, number, code):
    process = started(
        *shlex.split("-m advisor sweep run --networks googlenet --tasks preprocessing --vcpus 1"),
        *shlex.split("--memory 1GiB --disks unlimited --executor"),
        executor,
        *(() if phase is making else ("--data", str(images))),
        env={**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)},
    )
    while not phase(process.pid, tmp_path) and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(number)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == code, said
    assert "the same command" in said.splitlines()[-1]
    assert of(process.pid) == []
    assert making(process.pid, tmp_path) == []
