"""`advisor measure --endpoint` and `--ranks`: what is written, whatever happens, and what is refused."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import jsonschema
import pytest

from advisor.sweeps.machine.processes import is_running, start_ticks, stat_fields
from tests.processes import as_in_a_terminal
from tests.sweeps.cuda_standin import COMMAND as STAND_IN
from tests.sweeps.measure.endpoint.openai_server import WELL, fake_endpoint
from tests.sweeps.measure.endpoint.test_anchors import SCHEMA
from tests.sweeps.measure.test_network import validate

pytestmark = pytest.mark.usefixtures("own_folder")
KEY = "sk-secret-0123456789"
SHORT = ("--minutes", "0.04", "--output-tokens", "10", "--input-tokens", "40")


def test_an_endpoint_is_measured_into_an_anchor(ask, tmp_path):
    served = "--model org/Model-8B --gpu L4 --engine vllm --precision fp8 --concurrency 4,1 --rate 20"
    with fake_endpoint() as endpoint:
        code, shown, output = ask("measure", "--endpoint", endpoint.url, *served.split(), *SHORT)
    assert code == 0, output
    document = json.loads((tmp_path / "anchor-Model-8B.json").read_text())
    jsonschema.validate(document, SCHEMA)
    assert [load["concurrency"] for load in document["loads"]] == [1, 4, None]
    assert document["deployment"] == document["deployment"] | {"gpu": "L4", "precision": "fp8"}
    assert shown.startswith("org/Model-8B by vllm on 1x L4\n")
    for text in ("1 in flight", "4 in flight", "20/s (Poisson)", "without the first token"):
        assert text in shown
    assert max(map(len, shown.splitlines())) <= 100
    assert (tmp_path / "anchor-Model-8B.requests.jsonl").read_text().count("\n") > 10


@pytest.mark.slow
def test_a_server_that_fails_later_leaves_what_was_measured(ask, tmp_path):
    """Exit code 1 with the fault and its way out; the file has the loads until then."""
    with fake_endpoint(behaviours=[*[WELL] * 60, "429"]) as endpoint:
        code, _, text = ask(
            "measure", "--endpoint", endpoint.url, "--model", "m", "--concurrency", "2,3", *SHORT
        )
    document = json.loads((tmp_path / "anchor-m.json").read_text())
    jsonschema.validate(document, SCHEMA)
    assert code == 1
    assert document["loads"][-1]["status"] == "rate_limited"
    assert any("limits how often" in warning for warning in document["warnings"])
    assert "lift the limit" in text


def test_a_server_that_answers_nothing_leaves_no_anchor(ask, tmp_path):
    with fake_endpoint(behaviours=["page"]) as endpoint:
        code, _, text = ask("measure", "--endpoint", endpoint.url, "--model", "m", *SHORT)
    assert code == 1
    assert "text/html" in text
    assert "\x1b" not in text
    assert list(tmp_path.glob("anchor-m.*")) == []


def test_ctrl_c_keeps_what_was_measured(tmp_path):
    """The anchor is written with a warning, and the exit code is Ctrl-C's."""
    load = "--model m --concurrency 1,2 --minutes 1 --output-tokens 10"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    how = {"stderr": subprocess.PIPE, "text": True, "env": environment, "preexec_fn": as_in_a_terminal}
    with fake_endpoint() as endpoint:
        command = [sys.executable, "-m", "advisor", "measure", "--endpoint", endpoint.url, *load.split()]
        with subprocess.Popen(command, cwd=tmp_path, **how) as process:
            requests = tmp_path / "anchor-m.requests.jsonl"
            for line in process.stderr:
                if "completions" in line:
                    break
            while not requests.exists() or requests.read_text().count("\n") < 30:
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            text = process.stderr.read()
            assert process.wait(30) == 130, text
    document = json.loads((tmp_path / "anchor-m.json").read_text())
    assert document["loads"][0]["tpot_seconds"]["count"] > 0
    assert any("interrupted" in warning for warning in document["warnings"])
    assert "Traceback" not in text


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
def test_what_any_rank_fails_with_reaches_the_user(stderr, tmp_path):
    """Not the table that torchrun makes of it; here the training takes a batch of no memory."""
    words = ("--ranks", "2", "--batch-size", "1000000", "--minutes", "0.05", "--out")
    err = stderr(*TRAINING, *words, tmp_path / "anchor.json", code=1)
    assert [word in err for word in ("rank", "allocate", "traceback")] == [True, True, False]


@pytest.mark.slow
def test_more_ranks_than_gpus_are_refused_before_they_meet():
    """Each rank has a GPU of its own; here torch sees one, and the rank is one of two."""
    job = {"reference": "googlenet", "batch_size": 2, "precision": "fp32", "minutes": 0.05}
    location = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9", "PYTHONPATH": str(Path(__file__).parents[3])}
    location |= dict.fromkeys(("RANK", "LOCAL_RANK"), "0")
    location |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), "2")
    command = [*STAND_IN, "advisor.sweeps.measure.ranks", json.dumps(job)]
    how = {"env": os.environ | location, "capture_output": True, "text": True, "timeout": 120}
    done = subprocess.run(command, check=False, **how)
    assert done.returncode == 1
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["usage"]
    assert "2 ranks on a node take as many GPUs, and it has 1" in said["error"]
