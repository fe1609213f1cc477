"""`advisor measure --ranks`: how a training scales over processes, and what it refuses."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from advisor.sweeps.machine.processes import is_running, start_ticks, stat_fields
from tests.sweeps.cuda_standin import COMMAND as STAND_IN
from tests.sweeps.measure.test_network import validate

TRAINING = ("measure", "--model", "googlenet", "--task", "training")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accelerator", "runs"), [(("--accelerator", "emulated:T4"), 0), (("--batch-size", "2"), 1)]
)
def test_two_ranks_of_one_node(ask, tmp_path, accelerator, runs):
    """Where the CPU computes, the rank that ran alone is a run like any other."""
    file = tmp_path / "anchor.json"
    options = ("--ranks", "2", "--minutes", "0.05", "--out", str(file), *accelerator)
    code, out, err = ask(*TRAINING, *options)
    assert code == 0, err
    document = json.loads(file.read_text())
    validate(document)
    (row,) = document["scaling"]
    assert (row["ranks"], row["nodes"], row["backend"]) == (2, 1, "gloo")
    assert row["gradient_bytes"] == pytest.approx(4 * 6_624_904, rel=1e-4)
    assert len(document["runs"]) == runs
    assert f"{row['efficiency']:.1%} of 2 times the rate of one" in " ".join(out.split())


@contextmanager
def measuring(folder):
    """`advisor measure` of two ranks that train, and the process ids by rank; torchrun's is None."""
    command = [sys.executable, "-m", "advisor", *TRAINING, "--ranks", "2", "--minutes", "5"]
    emulated = ["--accelerator", "emulated:T4", "--out", str(folder / "anchor.json")]
    with subprocess.Popen([*command, *emulated], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert "training alone" in process.stderr.readline()
            (torchrun,) = children_of(process.pid)
            ranks = {rank_of(pid): pid for pid in children_of(torchrun)}
            assert set(ranks) == {0, 1}
            yield process, {None: torchrun} | ranks
        finally:
            process.kill()


def children_of(parent):
    """Process ids."""
    pids = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if (fields := stat_fields(pid)) and fields[1] == str(parent)]


def rank_of(pid):
    """As torchrun gave it."""
    variables = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return next(int(line[5:]) for line in variables if line.startswith("RANK="))


@pytest.mark.slow
def test_a_lost_rank_is_named(tmp_path):
    """The others wait for it in vain, and end with torchrun."""
    with measuring(tmp_path) as (process, pids):
        os.kill(pids[1], signal.SIGKILL)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "rank 1 was killed" in err


@pytest.mark.slow
def test_a_killed_measurement_leaves_nothing(tmp_path):
    """Kill -9 of the command: torchrun and all ranks end with it."""
    with measuring(tmp_path) as (process, pids):
        running = {pid: start_ticks(pid) for pid in pids.values()}
        process.kill()
        ends_at = time.monotonic() + 60
        while any(is_running(*item) for item in running.items()) and time.monotonic() < ends_at:
            time.sleep(0.1)
        left = [pid for pid, begun in running.items() if is_running(pid, begun)]
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert not left


@pytest.mark.slow
def test_what_any_rank_fails_with_reaches_the_user(ask, tmp_path):
    """Not the table that torchrun makes of it; here the training takes a batch of no memory."""
    code, _, err = ask(
        *TRAINING,
        *shlex.split("--ranks 2 --batch-size 1000000 --minutes 0.05 --out"),
        str(tmp_path / "anchor.json"),
    )
    assert code == 1
    assert "rank" in err
    assert "allocate" in err
    assert "traceback" not in err


@pytest.mark.slow
def test_more_ranks_than_gpus_are_refused_before_they_meet():
    """Each rank has a GPU of its own; here torch sees one, and the rank is one of two."""
    job = {"reference": "googlenet", "batch_size": 2, "precision": "fp32", "minutes": 0.05}
    location = {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "9",
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    done = subprocess.run(
        [*STAND_IN, "advisor.sweeps.measure.ranks", json.dumps(job)],
        env={**os.environ, **location},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["usage"]
    assert "2 ranks on a node take as many GPUs, and it has 1" in said["error"]
