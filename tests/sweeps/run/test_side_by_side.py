"""Trials that run at the same time on one machine, for real: each has cores of its own. A Ray of our own
is reached from this machine alone."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from advisor.domain import LimitedBy, Measurement, Status, Task
from advisor.sweeps.machine.environment import allowed_cpus
from advisor.sweeps.trial.placement import placed
from tests.sweeps.builders import REAL_WORKER, resources, trial, trial_on

pytestmark = REAL_WORKER
ROOT = Path(__file__).parents[3]
_HOLDER = """
import sys
from advisor.sweeps.trial.trial_process import run_attempt
from tests.sweeps.builders import resources, trial

script = "import sys, time; print('{}', file=sys.stderr); time.sleep(600)"
run_attempt(
    trial(dataset_path=sys.argv[1], resources=resources(vcpus=float(sys.argv[2]))),
    command=(sys.executable, "-c", f"open({sys.argv[3]!r}, 'w'); {script}"),
)
"""


@pytest.mark.ray
@pytest.mark.skipif(len(allowed_cpus()) < 2, reason="two trials at once need two CPUs")
def test_two_slots_of_a_local_ray_measure_two_trials_on_cores_of_their_own(images):
    from advisor.sweeps.run.ray.executor import RayExecutor

    emulated = {"task": Task.INFERENCE, "accelerator": "emulated:T4", "emulated_step_seconds": 0.02}
    trials = [
        trial_on(images, resources=resources(memory_mib=1024.0 + number), **emulated) for number in range(4)
    ]
    with closing(RayExecutor(slots=2, when_busy="skip")) as executor:
        rows = list(executor.execute(trials))
    assert {row.status for row in rows} <= {Status.OK, Status.CONTAMINATED}
    used = [set(row.environment["cpus_used"]) for row in rows]
    assert all(len(cpus) == 1 for cpus in used)
    assert not used[0] & used[1]  # the first two began together


def measured_alone(entry):
    """A row of a trial that has its CPUs at once, and for half a second."""
    with placed(entry.resources.vcpus, patience_seconds=0.25):
        time.sleep(0.5)
    return Measurement(trial=entry, status=Status.OK, limited_by=LimitedBy.NONE, reason="")


@pytest.mark.ray
def test_trials_of_the_whole_machine_follow_each_other_in_many_slots_and_none_fails():
    """Together they take longer than any of them would wait for CPUs."""
    from advisor.sweeps.run.ray.executor import RayExecutor

    everything = float(len(allowed_cpus()))
    trials = [trial(resources=resources(vcpus=everything, memory_mib=64.0 + number)) for number in range(8)]
    with closing(RayExecutor(slots=8, measure=measured_alone)) as executor:
        rows = list(executor.execute(trials))
    assert [row.reason for row in rows] == [""] * 8


def test_a_measuring_process_that_is_killed_leaves_its_cores_to_the_next(tmp_path):
    everything, begun = float(len(allowed_cpus())), tmp_path / "begun"
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(tmp_path), str(everything), str(begun)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    while not begun.exists():
        time.sleep(0.05)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with placed(everything, patience_seconds=60.0) as placement:
        assert len(placement.cpus) == everything


# In a process of its own: what Ray was told before, by whatever test, is not told to this one.
_LISTENING = """
import psutil
from advisor.sweeps.run.ray.cluster import connected
ray = connected(None)
ray.get(ray.remote(num_cpus=0)(lambda: None).remote())
me = psutil.Process()
for process in [me, *me.children(recursive=True)]:
    for one in process.net_connections(kind="inet"):
        if one.status == psutil.CONN_LISTEN:
            print(one.laddr.ip)
ray.shutdown()
"""
_LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


@pytest.mark.ray
def test_nothing_of_our_ray_listens_on_another_address_than_loopback():
    done = subprocess.run(
        [sys.executable, "-c", _LISTENING], capture_output=True, text=True, check=True, timeout=120
    )
    result = set(done.stdout.split())
    assert result
    assert result <= _LOOPBACK
