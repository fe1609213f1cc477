"""Cores, GPUs and disks that several processes of one machine take at the same time."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from advisor.errors import MeasuringError
from advisor.sweeps.trial.placement import Core, GpuDevice, Node, lock_folder, placed

NODE = Node(tuple(Core(n, (n, n + 4), n // 2) for n in range(4)), (GpuDevice("GPU-a", 0),))

# Takes two vCPUs again and again, and writes when it had which CPUs.
_TAKER = """
import json, sys, time
from pathlib import Path
from advisor.sweeps.trial.placement import placed
from tests.sweeps.trial.test_taking import NODE

for _ in range(int(sys.argv[2])):
    with placed(2.0, node=NODE, folder=Path(sys.argv[1])) as placement:
        began = time.monotonic()
        print(json.dumps([began, placement.cpus]), flush=True)
        time.sleep(float(sys.argv[3]))
        print(json.dumps([time.monotonic(), []]), flush=True)
"""


def taker(folder, times, seconds):
    return subprocess.Popen(
        [sys.executable, "-c", _TAKER, str(folder), str(times), str(seconds)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )


def take(folder, vcpus, **options):
    return placed(vcpus, folder=folder, **{"node": NODE, "patience_seconds": 0.0, **options})


def is_refused(folder, vcpus, **options):
    try:
        with take(folder, vcpus, **options):
            return False
    except MeasuringError:
        return True


def test_trials_at_the_same_time_have_cores_of_their_own(tmp_path):
    with ExitStack() as held:
        chosen = [held.enter_context(take(tmp_path, 2.0)).cpus for _ in range(4)]
    assert sorted(cpu for cpus in chosen for cpu in cpus) == list(range(8))
    with take(tmp_path, 8.0) as next_one:
        assert next_one.cpus == tuple(range(8))


def test_more_than_the_machine_has_is_refused_at_once(tmp_path):
    with pytest.raises(MeasuringError, match="9 vCPUs requested, but this machine has 8"):
        take(tmp_path, 9.0, patience_seconds=600.0).__enter__()


def test_what_others_keep_for_too_long_is_refused_and_nothing_is_left_taken(tmp_path):
    with take(tmp_path, 4.0) as entry:
        with pytest.raises(MeasuringError, match="too few free cores"):
            take(tmp_path, 6.0).__enter__()
        with take(tmp_path, 4.0) as other:
            assert not set(entry.cpus) & set(other.cpus)


def test_two_trials_on_one_gpu_come_one_after_the_other(tmp_path):
    with take(tmp_path, 1.0, on_gpu=True) as entry:
        assert entry.gpu == NODE.gpus[0]
        assert is_refused(tmp_path, 1.0, on_gpu=True)
        with take(tmp_path, 1.0) as other:
            assert other.gpu is None


SMALL = replace(NODE, memory_mib=64.0)


def test_trials_together_have_no_more_memory_than_the_machine(tmp_path):
    with take(tmp_path, 1.0, node=SMALL, memory_mib=32.0):
        with take(tmp_path, 1.0, node=SMALL, memory_mib=32.0):
            assert is_refused(tmp_path, 1.0, node=SMALL, memory_mib=0.5)
        with take(tmp_path, 1.0, node=SMALL, memory_mib=31.5):
            pass
        assert is_refused(tmp_path, 1.0, node=SMALL, memory_mib=1000.0)
    with take(tmp_path, 1.0, node=SMALL, memory_mib=1000.0):
        assert is_refused(tmp_path, 1.0, node=SMALL, memory_mib=1.0)
    assert not list(tmp_path.glob("memory-*"))


def test_memory_of_a_process_that_was_killed_is_free_and_its_file_removed(tmp_path):
    (tmp_path / "memory-64.0-of_a_killed_one").touch()
    with take(tmp_path, 1.0, node=SMALL, memory_mib=64.0):
        assert len(list(tmp_path.glob("memory-*"))) == 1


def test_a_disk_is_shared_by_those_who_share_it_only(tmp_path):
    with take(tmp_path, 1.0, disk="8:0", shares_disk=True):
        with take(tmp_path, 1.0, disk="8:0", shares_disk=True):
            pass
        with take(tmp_path, 1.0, disk="8:16"):
            pass
        assert is_refused(tmp_path, 1.0, disk="8:0")


def test_small_trials_do_not_pass_a_large_one_that_waits(tmp_path):
    order = []

    def run(vcpus):
        with take(tmp_path, vcpus, patience_seconds=60.0):
            order.append(vcpus)

    with take(tmp_path, 2.0):
        large = threading.Thread(target=run, args=(8.0,))
        large.start()
        while not is_refused(tmp_path, 1.0):  # until the large one has the turn
            time.sleep(0.01)
    large.join(60)
    assert order == [8.0]


@pytest.mark.slow
def test_processes_that_race_never_have_the_same_core_at_the_same_time(tmp_path):
    racing = [taker(tmp_path, 10, 0.02) for _ in range(6)]
    spans = []
    for process in racing:
        lines = [json.loads(line) for line in process.communicate(timeout=120)[0].splitlines()]
        assert process.returncode == 0
        assert len(lines) == 20
        pairs = zip(lines[::2], lines[1::2], strict=True)
        spans += [(began, ended, set(cpus)) for (began, cpus), (ended, _) in pairs]
    for index, (began, ended, cpus) in enumerate(spans):
        for other_began, other_ended, other_cpus in spans[index + 1 :]:
            if began < other_ended and other_began < ended:
                assert not cpus & other_cpus


def test_a_process_that_is_killed_gives_its_cores_back(tmp_path):
    holders = [taker(tmp_path, 1, 600) for _ in range(4)]
    for holder in holders:
        holder.stdout.readline()
    assert is_refused(tmp_path, 1.0)
    holders[0].kill()
    holders[0].wait()
    with take(tmp_path, 2.0, patience_seconds=60.0) as placement:
        assert len(placement.cpus) == 2
    for holder in holders[1:]:
        holder.kill()
    for holder in holders:
        holder.wait()
        holder.stdout.close()


def test_the_folder_is_one_for_root_and_users_where_run_lock_is_roots_alone(tmp_path, monkeypatch):
    parents = [tmp_path / "of_root", tmp_path / "of_all"]
    for parent, mode in zip(parents, (0o755, 0o1777), strict=True):
        parent.mkdir()
        parent.chmod(mode)
    monkeypatch.setattr("advisor.sweeps.trial.placement._PARENTS", (tmp_path / "none", *parents))
    assert lock_folder().parent == parents[1]


@pytest.mark.machine
@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_another_user_keeps_from_what_root_has(monkeypatch):
    monkeypatch.setenv("ADVISOR_SWEEP_LOCK", "tests-of-two-users")
    folder = lock_folder()
    node = replace(NODE, memory_mib=64.0)

    def refused_to_nobody():
        child = os.fork()
        if not child:
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                os._exit(lock_folder() == folder and is_refused(folder, 8.0, node=node))
            finally:
                os._exit(2)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    try:
        with take(folder, 1.0, node=node):
            assert refused_to_nobody() == 1
        assert refused_to_nobody() == 0
    finally:
        shutil.rmtree(folder)


def test_every_process_of_the_machine_looks_into_one_folder(monkeypatch):
    monkeypatch.setenv("ADVISOR_SWEEP_LOCK", "tests-of-the-folder")
    folder = lock_folder()
    try:
        assert lock_folder() == folder
        assert folder.stat().st_mode & 0o1777 == 0o1777
    finally:
        folder.rmdir()


def test_gpus_of_one_trial_are_taken_together_and_too_few_are_named(tmp_path):
    node = replace(NODE, gpus=tuple(GpuDevice(f"GPU-{n}", 0) for n in range(3)))
    with take(tmp_path, 2.0, node=node, on_gpu=True, gpu_count=2) as both:
        assert both.gpus == node.gpus[:2]
        assert is_refused(tmp_path, 1.0, node=node, on_gpu=True, gpu_count=2)
        with take(tmp_path, 1.0, node=node, on_gpu=True) as other:
            assert other.gpus == node.gpus[2:]
    with (
        pytest.raises(MeasuringError, match="4 GPUs requested, but this machine has 3"),
        take(tmp_path, 1.0, node=node, on_gpu=True, gpu_count=4),
    ):
        pass
