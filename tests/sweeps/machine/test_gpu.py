"""What NVML says of GPUs, asked of a stand-in beneath the real package: no driver is here."""

import sys
from ctypes.util import find_library

import pytest

from advisor.errors import MeasuringError
from advisor.sweeps.machine.gpu import NO_NVML, Nvml, gpu_facts, gpus, numa_node, pci_address
from tests.sweeps.machine.nvml_standin import GpuStandIn, nvml_with


def a_cut_gpu():
    whole = GpuStandIn(uuid="GPU-a1", name="NVIDIA A100-SXM4-40GB", total_mib=40960.0, sms=108)
    name = "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    whole.slices = [
        GpuStandIn(uuid=f"MIG-{n}", name=name, total_mib=4864.0, sms=14, whole=whole) for n in range(2)
    ]
    return whole


def test_a_gpu_has_the_facts_that_rates_depend_on(monkeypatch):
    nvml_with(monkeypatch, GpuStandIn())
    (facts,) = gpus()
    assert (facts["name"], facts["memory_mib"], facts["driver"]) == ("Tesla T4", 15360, "550.54.15")
    assert (facts["newest_cuda"], facts["compute_capability"]) == ("12.4", "7.5")
    assert (facts["power_limit_watts"], facts["ecc_mode"]) == (70.0, "Enabled")
    assert (facts["mig_mode"], facts["mig_slices"]) == ("Disabled", [])
    assert (facts["pci_slot"], facts["max_pcie_width"]) == ("0000:00:1e.0", 16)


def test_what_a_driver_does_not_report_is_not_known(monkeypatch):
    nvml_with(monkeypatch, GpuStandIn(missing=frozenset({"nvmlDeviceGetEccMode"})))
    assert gpus()[0]["ecc_mode"] is None


@pytest.mark.parametrize("uuid", ["a1", "GPU-a1"])
def test_a_gpu_is_found_by_its_uuid_as_torch_and_as_the_driver_have_it(monkeypatch, uuid):
    nvml_with(monkeypatch, GpuStandIn(), GpuStandIn(uuid="GPU-a1", name="NVIDIA L4"))
    assert gpu_facts(uuid)["name"] == "NVIDIA L4"
    assert gpu_facts("another") is None


def test_the_only_gpu_of_a_container_may_go_by_another_name(monkeypatch):
    nvml_with(monkeypatch, GpuStandIn())
    assert gpu_facts("another")["name"] == "Tesla T4"


def test_a_slice_has_its_own_size_and_the_facts_of_the_card(monkeypatch):
    nvml_with(monkeypatch, a_cut_gpu())
    facts = gpu_facts("MIG-1")
    assert (facts["name"], facts["mig_mode"]) == ("NVIDIA A100-SXM4-40GB", "Enabled")
    assert facts["mig"] == {
        "uuid": "MIG-1",
        "name": "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "profile": "1g.5gb",
        "memory_mib": 4864.0,
        "sm_count": 14,
    }
    assert len(facts["mig_slices"]) == 2


@pytest.mark.skipif(find_library("nvidia-ml") is not None, reason="this machine has NVIDIA's driver")
def test_without_a_driver_nothing_is_known_and_the_error_says_how_to_get_one():
    """The real package."""
    pytest.importorskip("pynvml")
    with pytest.raises(MeasuringError, match="install the NVIDIA driver") as refused:
        Nvml()
    assert refused.value.code == NO_NVML
    assert gpu_facts("any") is None


def test_without_the_package_nothing_is_known_and_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(MeasuringError, match=r"nvidia-ml-py is not installed.*\[sweep\]"):
        gpus()
    assert gpu_facts("any") is None


def test_the_numa_node_of_a_gpu_is_read_by_its_pci_address(tmp_path):
    for slot, node in (("0000:00:1e.0", "1"), ("0000:00:1f.0", "-1")):
        (tmp_path / slot).mkdir()
        (tmp_path / slot / "numa_node").write_text(f"{node}\n")
    assert numa_node(pci_address("00000000:00:1E.0"), tmp_path) == 1
    assert numa_node(pci_address("00000000:00:1F.0"), tmp_path) is None
    assert numa_node(pci_address(None), tmp_path) is None
