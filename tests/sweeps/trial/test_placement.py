"""Which cores, GPU and disk a trial gets of what is free, and that several processes of one machine
never take the same."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.errors import MeasuringError
from advisor.sweeps.trial import placement as placing
from tests.sweeps.machine.nvml_standin import GpuStandIn, nvml_with


def machine(sockets=2, cores=4, threads=2, offline=()):
    """Cores of a machine as Linux numbers them: first all first threads, then all second ones."""
    total = sockets * cores
    left = [
        tuple(cpu for cpu in range(n, threads * total, total) if cpu not in offline) for n in range(total)
    ]
    return [placing.Core(number, cpus, number // cores) for number, cpus in enumerate(left) if cpus]


@st.composite
def nodes(draw):
    sockets, cores = draw(st.integers(1, 2)), draw(st.integers(1, 12))
    threads = draw(st.integers(1, 2))
    offline = draw(st.sets(st.integers(0, sockets * cores * threads - 1), max_size=6))
    made = machine(sockets, cores, threads, offline)
    free = draw(st.lists(st.sampled_from(made), unique=True)) if made else []
    near = st.one_of(st.none(), st.integers(0, sockets - 1))
    gpus = [placing.GpuDevice(f"GPU-{n}", draw(near)) for n in range(draw(st.integers(0, 8)))]
    return free, gpus


def room_of(free):
    """Free CPUs by NUMA node."""
    room = Counter()
    for core in free:
        room[core.numa_node] += len(core.cpus)
    return room


VCPUS = st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0])


@given(nodes(), VCPUS)
def test_a_trial_gets_what_it_asks_for_of_free_whole_cores_on_one_socket_or_nothing(node, vcpus):
    free, _ = node
    chosen = placing.placement_of(vcpus, free)
    if chosen is None:
        assert sum(len(core.cpus) for core in free) < placing.wanted_cpus(vcpus)
        return
    assert len(chosen.cpus) == len(set(chosen.cpus)) == placing.wanted_cpus(vcpus)
    assert set(chosen.cores) <= set(free)
    unused = {core: set(core.cpus) - set(chosen.cpus) for core in chosen.cores}
    assert set(chosen.cpus) <= {cpu for core in chosen.cores for cpu in core.cpus}
    assert all(unused[core] < set(core.cpus) for core in chosen.cores)
    assert sum(map(bool, unused.values())) <= 1
    if max(room_of(free).values(), default=0) >= placing.wanted_cpus(vcpus):
        assert chosen.numa_node is not None


@given(nodes(), VCPUS)
def test_the_gpu_and_the_cpus_share_a_numa_node_wherever_one_has_room_for_both(node, vcpus):
    free, gpus = node
    chosen, room = placing.placement_of(vcpus, free, gpus), room_of(free)
    if chosen is None:
        assert not gpus or sum(room.values()) < placing.wanted_cpus(vcpus)
        return
    assert chosen.gpu in gpus
    if any(room[gpu.numa_node] >= placing.wanted_cpus(vcpus) for gpu in gpus if gpu.numa_node is not None):
        assert chosen.gpu_is_near
        assert chosen.numa_node == chosen.gpu.numa_node


@pytest.mark.parametrize(
    ("vcpus", "cpus"), [(0.5, (3,)), (1.0, (3,)), (2.0, (3, 7)), (3.0, (2, 3, 7)), (1.5, (3, 7))]
)
def test_hardware_threads_of_one_core_go_together_last_core_first(vcpus, cpus):
    assert placing.placement_of(vcpus, machine(sockets=1)).cpus == tuple(sorted(cpus))


def test_a_small_trial_leaves_the_empty_socket_and_several_gpus_are_taken_together_or_none():
    free = machine(sockets=2)[2:]
    small = placing.placement_of(2.0, free)
    assert small.numa_node == 0
    assert placing.placement_of(8.0, [core for core in free if core not in small.cores]).numa_node == 1
    far = placing.placement_of(4.0, machine(sockets=2)[:4], [placing.GpuDevice("GPU-0", 1)])
    assert far.gpu_is_near is False
    unknown = placing.placement_of(1.0, [placing.Core(0, (0,))], [placing.GpuDevice("GPU-0", 1)])
    assert unknown.gpu_is_near is None
    gpus = [placing.GpuDevice(f"GPU-{n}", n // 2) for n in range(4)]
    four = placing.placement_of(16.0, machine(sockets=2), gpus, 4)
    assert (set(four.gpus), four.gpu_is_near) == (set(gpus), True)
    two = placing.placement_of(8.0, machine(sockets=2), gpus, 2)
    assert {gpu.numa_node for gpu in two.gpus} == {two.numa_node}
    assert placing.placement_of(1.0, machine(sockets=2), gpus, 5) is None


# Cores and GPUs of a machine, from sysfs and NVML.


def test_threads_of_a_core_and_its_numa_node_come_from_sysfs(tmp_path):
    for cpu in range(8):
        topology = tmp_path / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{cpu % 4 // 2}\n")
        (topology / "thread_siblings_list").write_text(f"{cpu % 4},{cpu % 4 + 4}\n")
        (tmp_path / f"cpu{cpu}" / f"node{cpu % 4 // 2}").mkdir()
    expected = ((1, (1, 5), 0), (2, (2,), 1), (3, (7,), 1))
    assert placing.cores_of([1, 2, 5, 7], tmp_path) == tuple(placing.Core(*core) for core in expected)
    assert placing.cores_of([4, 9], tmp_path / "silent") == (placing.Core(4, (4,)), placing.Core(9, (9,)))


def test_a_trial_may_have_the_gpus_and_slices_that_are_visible_each_on_its_numa_node(monkeypatch):
    cut = GpuStandIn(uuid="GPU-c3")
    cut.slices = [GpuStandIn(uuid=f"MIG-{name}", whole=cut) for name in ("5c89", "77aa")]
    nvml_with(monkeypatch, GpuStandIn(uuid="GPU-a1"), GpuStandIn(uuid="GPU-b2"), cut)
    monkeypatch.setattr("advisor.sweeps.machine.gpu.numa_node", lambda _slot: 1)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    every = ("GPU-a1", "GPU-b2", "MIG-5c89", "MIG-77aa")
    assert placing.read_node().gpus == tuple(placing.GpuDevice(uuid, 1) for uuid in every)
    assert placing.read_node(with_gpus=False).gpus == ()
    visible = {"1": ["GPU-b2"], "MIG-5c89": ["MIG-5c89"], "1,0": ["GPU-b2", "GPU-a1"], "GPU-b": ["GPU-b2"]}
    visible |= {"0,-1,1": ["GPU-a1"], "0,0,1": ["GPU-a1"], "": [], "3": [], "GPU-": [], "GPU-c3": []}
    for variable, left in visible.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
        assert placing.read_node().gpus == tuple(placing.GpuDevice(uuid, 1) for uuid in left)
    # One that no UUID names is given to no trial.
    nvml_with(monkeypatch, GpuStandIn(missing=frozenset({"nvmlDeviceGetUUID"})))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert placing.read_node().gpus == ()


def test_numbers_of_gpus_that_differ_count_only_in_the_order_of_addresses(monkeypatch):
    """CUDA's own order has the fastest first, and nobody else can tell which that is."""
    nvml_with(monkeypatch, GpuStandIn(uuid="GPU-a1"), GpuStandIn(uuid="GPU-b2", name="NVIDIA A10G"))
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-b2")
    assert [gpu.uuid for gpu in placing.read_node().gpus] == ["GPU-b2"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(MeasuringError, match="the GPUs of this machine differ"):
        placing.read_node()
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert [gpu.uuid for gpu in placing.read_node().gpus] == ["GPU-a1"]


# Taken by several processes at the same time.

NODE = placing.Node(
    tuple(placing.Core(n, (n, n + 4), n // 2) for n in range(4)), (placing.GpuDevice("GPU-a", 0),)
)

# Takes two vCPUs again and again, and writes when it had which CPUs.
_TAKER = """
import json, sys, time
from pathlib import Path
from advisor.sweeps.trial.placement import placed
from tests.sweeps.trial.test_placement import NODE

for _ in range(int(sys.argv[2])):
    with placed(2.0, node=NODE, folder=Path(sys.argv[1])) as placement:
        began = time.monotonic()
        print(json.dumps([began, placement.cpus]), flush=True)
        time.sleep(float(sys.argv[3]))
        print(json.dumps([time.monotonic(), []]), flush=True)
"""


def taker(folder, times, seconds):
    command = [sys.executable, "-c", _TAKER, str(folder), str(times), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3])


def take(folder, vcpus, **options):
    return placing.placed(vcpus, folder=folder, **{"node": NODE, "patience_seconds": 0.0, **options})


def is_refused(folder, vcpus, **options):
    with suppress(MeasuringError), take(folder, vcpus, **options):
        return False
    return True


def test_trials_at_the_same_time_have_cores_of_their_own_and_a_disk_only_by_consent(tmp_path):
    with ExitStack() as held:
        chosen = [held.enter_context(take(tmp_path, 2.0)).cpus for _ in range(4)]
    assert sorted(cpu for cpus in chosen for cpu in cpus) == list(range(8))
    with take(tmp_path, 8.0) as next_one:
        assert next_one.cpus == tuple(range(8))
    with pytest.raises(MeasuringError, match="9 vCPUs requested, but this machine has 8"):
        take(tmp_path, 9.0, patience_seconds=600.0).__enter__()
    with take(tmp_path, 4.0) as entry:
        with pytest.raises(MeasuringError, match="too few free cores"):
            take(tmp_path, 6.0).__enter__()
        with take(tmp_path, 4.0) as other:
            assert not set(entry.cpus) & set(other.cpus)
    with take(tmp_path, 1.0, disk="8:0", shares_disk=True):
        assert not is_refused(tmp_path, 1.0, disk="8:0", shares_disk=True)
        assert not is_refused(tmp_path, 1.0, disk="8:16")
        assert is_refused(tmp_path, 1.0, disk="8:0")


def test_trials_on_one_gpu_come_one_after_the_other_and_gpus_of_one_trial_are_taken_together(tmp_path):
    with take(tmp_path, 1.0, on_gpu=True) as entry:
        assert entry.gpu == NODE.gpus[0]
        assert is_refused(tmp_path, 1.0, on_gpu=True)
        with take(tmp_path, 1.0) as other:
            assert other.gpu is None
    node = replace(NODE, gpus=tuple(placing.GpuDevice(f"GPU-{n}", 0) for n in range(3)))
    with take(tmp_path, 2.0, node=node, on_gpu=True, gpu_count=2) as both:
        assert both.gpus == node.gpus[:2]
        assert is_refused(tmp_path, 1.0, node=node, on_gpu=True, gpu_count=2)
        with take(tmp_path, 1.0, node=node, on_gpu=True) as other:
            assert other.gpus == node.gpus[2:]
    with pytest.raises(MeasuringError, match="4 GPUs requested, but this machine has 3"):
        take(tmp_path, 1.0, node=node, on_gpu=True, gpu_count=4).__enter__()


SMALL = replace(NODE, memory_mib=64.0)


def test_trials_together_have_no_more_memory_than_the_machine_and_a_killed_ones_is_free(tmp_path):
    with take(tmp_path, 1.0, node=SMALL, memory_mib=32.0):
        with take(tmp_path, 1.0, node=SMALL, memory_mib=32.0):
            assert is_refused(tmp_path, 1.0, node=SMALL, memory_mib=0.5)
        assert not is_refused(tmp_path, 1.0, node=SMALL, memory_mib=31.5)
        assert is_refused(tmp_path, 1.0, node=SMALL, memory_mib=1000.0)
    with take(tmp_path, 1.0, node=SMALL, memory_mib=1000.0):
        assert is_refused(tmp_path, 1.0, node=SMALL, memory_mib=1.0)
    assert not list(tmp_path.glob("memory-*"))
    (tmp_path / "memory-64.0-of_a_killed_one").touch()
    with take(tmp_path, 1.0, node=SMALL, memory_mib=64.0):
        assert len(list(tmp_path.glob("memory-*"))) == 1


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
        assert (process.returncode, len(lines)) == (0, 20)
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


@pytest.mark.machine
@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_another_user_keeps_from_what_root_has(monkeypatch):
    monkeypatch.setenv("ADVISOR_SWEEP_LOCK", "tests-of-two-users")
    folder = placing.lock_folder()
    node = replace(NODE, memory_mib=64.0)

    def refused_to_nobody():
        child = os.fork()
        if not child:
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                os._exit(placing.lock_folder() == folder and is_refused(folder, 8.0, node=node))
            finally:
                os._exit(2)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    try:
        with take(folder, 1.0, node=node):
            assert refused_to_nobody() == 1
        assert refused_to_nobody() == 0
    finally:
        shutil.rmtree(folder)


def test_one_folder_is_looked_into_by_every_process_of_the_machine_by_root_and_users(monkeypatch, tmp_path):
    monkeypatch.setenv("ADVISOR_SWEEP_LOCK", "tests-of-the-folder")
    folder = placing.lock_folder()
    try:
        assert placing.lock_folder() == folder
        assert folder.stat().st_mode & 0o1777 == 0o1777
    finally:
        folder.rmdir()
    parents = [tmp_path / "of_root", tmp_path / "of_all"]
    for parent, mode in zip(parents, (0o755, 0o1777), strict=True):
        parent.mkdir()
        parent.chmod(mode)
    monkeypatch.setattr("advisor.sweeps.trial.placement._PARENTS", (tmp_path / "none", *parents))
    assert placing.lock_folder().parent == parents[1]
