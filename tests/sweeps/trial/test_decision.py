"""Which cores and which GPU a trial gets of what is free, on machines of every shape."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import MeasuringError
from advisor.sweeps.trial.placement import Core, GpuDevice, cores_of, placement_of, read_node, wanted_cpus
from tests.sweeps.machine.nvml_standin import GpuStandIn, nvml_with


def machine(sockets=2, cores=4, threads=2, offline=()):
    """Cores of a machine as Linux numbers them: first all first threads, then all second ones."""
    total = sockets * cores
    made = []
    for number in range(total):
        cpus = (number + thread * total for thread in range(threads))
        left = tuple(cpu for cpu in cpus if cpu not in offline)
        if left:
            made.append(Core(number, left, number // cores))
    return made


@st.composite
def nodes(draw):
    sockets, cores = draw(st.integers(1, 2)), draw(st.integers(1, 12))
    threads = draw(st.integers(1, 2))
    offline = draw(st.sets(st.integers(0, sockets * cores * threads - 1), max_size=6))
    made = machine(sockets, cores, threads, offline)
    free = draw(st.lists(st.sampled_from(made), unique=True)) if made else []
    near = st.one_of(st.none(), st.integers(0, sockets - 1))
    gpus = [GpuDevice(f"GPU-{n}", draw(near)) for n in range(draw(st.integers(0, 8)))]
    return free, gpus


def room_of(free):
    """Free CPUs by NUMA node."""
    room = Counter()
    for core in free:
        room[core.numa_node] += len(core.cpus)
    return room


VCPUS = st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0])


@given(nodes(), VCPUS)
def test_a_trial_gets_what_it_asks_for_of_free_whole_cores_or_nothing(node, vcpus):
    free, _ = node
    chosen = placement_of(vcpus, free)
    if chosen is None:
        assert sum(len(core.cpus) for core in free) < wanted_cpus(vcpus)
        return
    assert len(chosen.cpus) == len(set(chosen.cpus)) == wanted_cpus(vcpus)
    assert set(chosen.cores) <= set(free)
    unused = {core: set(core.cpus) - set(chosen.cpus) for core in chosen.cores}
    assert set(chosen.cpus) <= {cpu for core in chosen.cores for cpu in core.cpus}
    assert all(unused[core] < set(core.cpus) for core in chosen.cores)
    assert sum(map(bool, unused.values())) <= 1


@given(nodes(), VCPUS)
def test_the_gpu_and_the_cpus_share_a_numa_node_wherever_one_has_room_for_both(node, vcpus):
    free, gpus = node
    chosen, room = placement_of(vcpus, free, gpus), room_of(free)
    if chosen is None:
        assert not gpus or sum(room.values()) < wanted_cpus(vcpus)
        return
    assert chosen.gpu in gpus
    if any(room[gpu.numa_node] >= wanted_cpus(vcpus) for gpu in gpus if gpu.numa_node is not None):
        assert chosen.gpu_is_near
        assert chosen.numa_node == chosen.gpu.numa_node


@given(nodes(), VCPUS)
def test_no_trial_is_spread_over_sockets_that_one_socket_holds(node, vcpus):
    free, _ = node
    chosen = placement_of(vcpus, free)
    if max(room_of(free).values(), default=0) >= wanted_cpus(vcpus):
        assert chosen.numa_node is not None


@given(nodes(), st.lists(VCPUS, max_size=12))
def test_trials_placed_one_after_the_other_share_no_core_and_no_gpu(node, request):
    free, gpus = node
    cpus, used = [], []
    for vcpus in request:
        chosen = placement_of(vcpus, free, gpus)
        if chosen:
            free = [core for core in free if core not in chosen.cores]
            gpus = [gpu for gpu in gpus if gpu != chosen.gpu]
            cpus += [cpu for core in chosen.cores for cpu in core.cpus]
            used.append(chosen.gpu)
    assert len(set(cpus)) == len(cpus)
    assert len(set(used)) == len(used)


@pytest.mark.parametrize(
    ("vcpus", "cpus"), [(0.5, (3,)), (1.0, (3,)), (2.0, (3, 7)), (3.0, (2, 3, 7)), (1.5, (3, 7))]
)
def test_hardware_threads_of_one_core_go_together_last_core_first(vcpus, cpus):
    assert placement_of(vcpus, machine(sockets=1)).cpus == tuple(sorted(cpus))


def test_a_gpu_whose_socket_is_full_is_better_than_none_and_the_row_can_say_so():
    far = placement_of(4.0, machine(sockets=2)[:4], [GpuDevice("GPU-0", 1)])
    assert far.gpu_is_near is False
    assert placement_of(1.0, [Core(0, (0,))], [GpuDevice("GPU-0", 1)]).gpu_is_near is None


def test_a_small_trial_leaves_the_empty_socket_to_a_large_one():
    free = machine(sockets=2)[2:]
    small = placement_of(2.0, free)
    assert small.numa_node == 0
    assert placement_of(8.0, [core for core in free if core not in small.cores]).numa_node == 1


def test_a_trial_on_several_gpus_takes_as_many_or_none():
    gpus = [GpuDevice(f"GPU-{n}", n // 2) for n in range(4)]
    four = placement_of(16.0, machine(sockets=2), gpus, 4)
    assert set(four.gpus) == set(gpus)
    assert four.gpu_is_near
    two = placement_of(8.0, machine(sockets=2), gpus, 2)
    assert {gpu.numa_node for gpu in two.gpus} == {two.numa_node}
    assert placement_of(1.0, machine(sockets=2), gpus, 5) is None


# Cores and GPUs of a machine, from sysfs and NVML.


def test_threads_of_a_core_and_its_numa_node_come_from_sysfs(tmp_path):
    for cpu in range(8):
        topology = tmp_path / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{cpu % 4 // 2}\n")
        (topology / "thread_siblings_list").write_text(f"{cpu % 4},{cpu % 4 + 4}\n")
        (tmp_path / f"cpu{cpu}" / f"node{cpu % 4 // 2}").mkdir()
    assert cores_of([1, 2, 5, 7], tmp_path) == (Core(1, (1, 5), 0), Core(2, (2,), 1), Core(3, (7,), 1))
    assert cores_of([4, 9], tmp_path / "silent") == (Core(4, (4,)), Core(9, (9,)))


def test_a_trial_may_have_the_gpus_and_slices_that_are_visible_each_on_its_numa_node(monkeypatch):
    cut = GpuStandIn(uuid="GPU-c3")
    cut.slices = [GpuStandIn(uuid=f"MIG-{name}", whole=cut) for name in ("5c89", "77aa")]
    nvml_with(monkeypatch, GpuStandIn(uuid="GPU-a1"), GpuStandIn(uuid="GPU-b2"), cut)
    monkeypatch.setattr("advisor.sweeps.machine.gpu.numa_node", lambda _slot: 1)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    every = ("GPU-a1", "GPU-b2", "MIG-5c89", "MIG-77aa")
    assert read_node().gpus == tuple(GpuDevice(uuid, 1) for uuid in every)
    assert read_node(with_gpus=False).gpus == ()
    for variable, left in {
        "1": ["GPU-b2"],
        "MIG-5c89": ["MIG-5c89"],
        "1,0": ["GPU-b2", "GPU-a1"],
        "GPU-b": ["GPU-b2"],
        "": [],
        "3": [],
        "0,-1,1": ["GPU-a1"],
        "0,0,1": ["GPU-a1"],
        "GPU-": [],
        "GPU-c3": [],
    }.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
        assert read_node().gpus == tuple(GpuDevice(uuid, 1) for uuid in left)
    # One that no UUID names is given to no trial.
    nvml_with(monkeypatch, GpuStandIn(missing=frozenset({"nvmlDeviceGetUUID"})))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert read_node().gpus == ()


def test_numbers_of_gpus_that_differ_count_only_in_the_order_of_addresses(monkeypatch):
    """CUDA's own order has the fastest first, and nobody else can tell which that is."""
    nvml_with(monkeypatch, GpuStandIn(uuid="GPU-a1"), GpuStandIn(uuid="GPU-b2", name="NVIDIA A10G"))
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-b2")
    assert [gpu.uuid for gpu in read_node().gpus] == ["GPU-b2"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(MeasuringError, match="the GPUs of this machine differ"):
        read_node()
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert [gpu.uuid for gpu in read_node().gpus] == ["GPU-a1"]
