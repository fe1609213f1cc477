"""Cores and GPUs of a machine, from sysfs and NVML."""

import pytest

from advisor.errors import MeasuringError
from advisor.sweeps.trial.placement.node import Core, GpuDevice, cores_of, read_node
from tests.sweeps.machine.nvml_standin import GpuStandIn, nvml_with


def test_threads_of_a_core_and_its_numa_node_come_from_sysfs(tmp_path):
    for cpu in range(8):
        topology = tmp_path / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{cpu % 4 // 2}\n")
        (topology / "thread_siblings_list").write_text(f"{cpu % 4},{cpu % 4 + 4}\n")
        (tmp_path / f"cpu{cpu}" / f"node{cpu % 4 // 2}").mkdir()
    assert cores_of([1, 2, 5, 7], tmp_path) == (Core(1, (1, 5), 0), Core(2, (2,), 1), Core(3, (7,), 1))


def test_each_cpu_is_a_core_of_its_own_where_sysfs_is_silent(tmp_path):
    assert cores_of([4, 9], tmp_path) == (Core(4, (4,)), Core(9, (9,)))


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


def test_a_gpu_that_no_uuid_names_is_given_to_no_trial(monkeypatch):
    nvml_with(monkeypatch, GpuStandIn(missing=frozenset({"nvmlDeviceGetUUID"})))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
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
