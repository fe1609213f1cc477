"""A trial on several GPUs: a process each, real ones here, on emulated GPUs and on this CPU."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import Stack, Status, Task
from advisor.models.zoo.opening import open_network
from advisor.sweeps.datasets.making import write_samples
from advisor.sweeps.trial.trial_process import run_attempt
from advisor.sweeps.worker.group import common_steps
from tests.sweeps.builders import PROFILE, TIME_BOX, resources, trial

paces = st.lists(st.floats(0.01, 2.0), min_size=1, max_size=8)
GOOD = (Status.OK, Status.CONTAMINATED)  # others may work on this machine


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    write_samples(folder, range(200), seed=0)
    return folder


def two(images, **changes):
    size = resources(vcpus=2.0, physical_cores=2.0, memory_mib=4096.0, gpu_count=2)
    data = {"dataset_path": str(images), "dataset": replace(PROFILE, samples=200)}
    return trial(resources=size, plan={**TIME_BOX, "measure_seconds": 1.0}, **data, **changes)


@given(paces, st.integers(20, 60))
def test_common_steps_have_the_rate_of_all_processes_together(seconds, count):
    """Each process at a pace of its own, all begin at once: the sum of their rates, to a step."""
    runs = [(pace * count, [pace] * count) for pace in seconds]
    steps = common_steps(runs)
    window = min(pace * count for pace in seconds)
    done = sum(window / pace for pace in seconds)
    assert sum(steps) <= window * (1 + 1e-9)
    assert abs(len(steps) * len(runs) - done) <= 2 * len(runs)


def test_what_one_process_did_before_or_after_the_others_does_not_count():
    early, late = (10.0, [1.0] * 10), (13.0, [1.0] * 10)
    assert common_steps([early, late]) == pytest.approx([1.0] * 7)
    assert common_steps([early] * 3) == pytest.approx([1.0] * 10)


@pytest.mark.machine
@pytest.mark.slow
def test_two_emulated_gpus_side_by_side_are_one_machine(images):
    """No more than both together give; every common step has a batch of each."""
    emulated = {"accelerator": "emulated:T4", "emulated_step_seconds": 0.5}
    entry = two(images, task=Task.INFERENCE, batch_size=4, **emulated)
    row = run_attempt(entry)
    assert row.status in GOOD, row.reason
    assert entry.samples_per_step == 8
    assert row.throughput_samples_per_second <= 8 / 0.5 * 1.05
    assert (row.environment["processes"], row.environment["gradient_exchange"]) == (2, None)
    assert row.stage_rates == {"accelerator": pytest.approx(16.0)}


@pytest.mark.machine
@pytest.mark.slow
def test_two_processes_train_one_network_and_the_first_is_measured_alone_too(images):
    row = run_attempt(two(images, network="cifar10_cnn", task=Task.TRAINING, batch_size=16))
    assert row.status in GOOD, row.reason
    assert row.environment["gradient_exchange"] == "gloo"
    assert row.throughput_samples_per_second > 0
    assert row.stage_rates["accelerator"] > 0
    assert "stage_failures" not in row.environment


@pytest.mark.machine
@pytest.mark.slow
def test_what_several_processes_train_is_compiled_where_the_trial_asks_for_that(
    images, tmp_path, monkeypatch
):
    """And leaves its kernels where the next trial looks for them."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    changed = two(images, network="cifar10_cnn", task=Task.TRAINING, batch_size=16)
    changed = replace(changed, workload=replace(changed.workload, stack=Stack.COMPILE))
    row = run_attempt(changed)
    assert row.status in GOOD, row.reason
    assert row.environment["gradient_exchange"] == "gloo"
    assert [path for path in tmp_path.rglob("*") if path.suffix in (".cpp", ".so")]


@pytest.mark.machine
@pytest.mark.slow
def test_why_a_process_failed_is_found_among_what_its_libraries_print(images, tmp_path):
    """Here the user's own file prints and fails in the second process."""
    own = tmp_path / "own.py"
    own.write_text(
        "import multiprocessing, torch\n"
        "def build():\n"
        "    if multiprocessing.parent_process():\n"
        "        print('{}', flush=True)\n"
        "        raise RuntimeError('no room for a second one')\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(10))\n"
        "INPUT_SHAPE = (3, 8, 8)\n"
    )
    changed = two(images, network=f"{own}:build", task=Task.INFERENCE, accelerator="cpu", batch_size=4)
    opened = open_network(changed.workload.network)
    changed = replace(changed, plan={**changed.plan, "network_fingerprint": opened.fingerprint})
    row = run_attempt(changed, timeout_seconds=100.0)
    assert row.status is Status.FAILED
    assert "process 1: " in row.reason
    assert "no room for a second one" in row.reason


@pytest.mark.machine
@pytest.mark.slow
def test_a_machine_with_fewer_gpus_than_the_trial_has_processes_is_refused(images):
    row = run_attempt(two(images, task=Task.INFERENCE, accelerator="cuda"), timeout_seconds=100.0)
    assert row.status is Status.FAILED
    assert "2 processes, each on a GPU of its own, and CUDA sees 0" in row.reason


@pytest.mark.machine
@pytest.mark.slow
def test_a_process_that_is_killed_ends_the_trial_with_its_name_and_leaves_none(images):
    changed = two(images, network="cifar10_cnn", task=Task.TRAINING, batch_size=16)
    changed = replace(changed, plan={**TIME_BOX, "measure_seconds": 120.0, "max_seconds": 120.0})
    killed = threading.Thread(target=kill_companion)
    killed.start()
    row = run_attempt(changed, timeout_seconds=100.0)
    killed.join()
    assert row.status is Status.FAILED
    assert "process 1 was killed" in row.reason
    assert companions() == []


def companions():
    """Process ids of those beneath this process."""
    result = []
    for entry in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it ends, or has
            result += [entry.pid] * (any("spawn_main" in word for word in entry.cmdline()))
    return result


def kill_companion():
    deadline = time.monotonic() + 90.0
    while time.monotonic() < deadline:
        for pid in companions():
            time.sleep(8.0)  # torch is loaded by then; any moment is good
            os.kill(pid, signal.SIGKILL)
            return
        time.sleep(0.2)
