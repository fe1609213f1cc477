"""What NVML says of GPUs, asked of a stand-in beneath the real package: no driver is here."""

import json
import os
import signal
import subprocess
import sys
import threading
from ctypes.util import find_library
from types import SimpleNamespace

import pytest

from advisor.errors import MeasuringError
from advisor.sweeps.machine import gpu as driver
from tests.sweeps.builders import SleepingClock
from tests.sweeps.machine.nvml_standin import GpuStandIn, nvml_with


def a_cut_gpu():
    whole = GpuStandIn(uuid="GPU-a1", name="NVIDIA A100-SXM4-40GB", total_mib=40960.0, sms=108)
    name = "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    size = {"name": name, "total_mib": 4864.0, "sms": 14}
    whole.slices = [GpuStandIn(uuid=f"MIG-{n}", whole=whole, **size) for n in range(2)]
    return whole


def test_a_gpu_has_the_facts_that_rates_depend_on_and_a_slice_its_own_size(monkeypatch):
    nvml_with(monkeypatch, GpuStandIn())
    (facts,) = driver.gpus()
    assert driver.gpu_facts("the only one of a container may go by another name") == facts
    assert (facts["name"], facts["memory_mib"], facts["driver"]) == ("Tesla T4", 15360, "550.54.15")
    assert (facts["newest_cuda"], facts["compute_capability"]) == ("12.4", "7.5")
    assert (facts["power_limit_watts"], facts["ecc_mode"]) == (70.0, "Enabled")
    assert (facts["mig_mode"], facts["mig_slices"]) == ("Disabled", [])
    assert (facts["pci_slot"], facts["max_pcie_width"]) == ("0000:00:1e.0", 16)
    nvml_with(monkeypatch, a_cut_gpu())
    facts = driver.gpu_facts("MIG-1")
    assert (facts["name"], facts["mig_mode"]) == ("NVIDIA A100-SXM4-40GB", "Enabled")
    named = {"uuid": "MIG-1", "name": "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "profile": "1g.5gb"}
    assert facts["mig"] == {**named, "memory_mib": 4864.0, "sm_count": 14}
    assert len(facts["mig_slices"]) == 2


@pytest.mark.parametrize("uuid", ["a1", "GPU-a1"])
def test_a_gpu_is_found_by_its_uuid_as_torch_and_as_the_driver_have_it(monkeypatch, uuid):
    nvml_with(monkeypatch, GpuStandIn(missing=frozenset({"nvmlDeviceGetEccMode"})), GpuStandIn(uuid="GPU-a1"))
    assert driver.gpu_facts(uuid)["uuid"] == "GPU-a1"
    assert driver.gpu_facts("another") is None
    assert [state["uuid"] for state in driver.gpu_states()] == ["GPU-6f6d", "GPU-a1"]
    assert {facts["ecc_mode"] for facts in driver.gpus()} == {None}


@pytest.mark.skipif(find_library("nvidia-ml") is not None, reason="this machine has NVIDIA's driver")
def test_without_a_driver_nothing_is_known_and_the_error_says_how_to_get_one():
    """The real package."""
    pytest.importorskip("pynvml")
    with pytest.raises(MeasuringError, match="install the NVIDIA driver") as refused:
        driver.Nvml()
    assert refused.value.code == driver.NO_NVML
    assert driver.gpu_facts("any") is None


def test_the_numa_node_of_a_gpu_is_read_by_its_pci_address(tmp_path):
    for slot, node in (("0000:00:1e.0", "1"), ("0000:00:1f.0", "-1")):
        (tmp_path / slot).mkdir()
        (tmp_path / slot / "numa_node").write_text(f"{node}\n")
    assert driver.numa_node("0000:00:1e.0", tmp_path) == 1
    assert driver.numa_node("0000:00:1f.0", tmp_path) is None
    assert driver.numa_node(None, tmp_path) is None


# What a GPU did while steps were timed, as rows keep it.

UNKNOWN = 2**22 + 1  # above the largest number of a process (proc_sys_kernel(5): pid_max)


class Watched(GpuStandIn):
    """Says when it was asked `many` times."""

    def __init__(self, many, **values):
        super().__init__(**values)
        object.__setattr__(self, "enough", threading.Event())
        self._many = many

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        if name == "asked" and value >= getattr(self, "_many", 1 << 30):
            self.enough.set()


def sampled(monkeypatch, gpu, uuid="6f6d"):
    """The environment of a window in which the GPU was asked as often as it waits for."""
    nvml_with(monkeypatch, gpu)
    with driver.GpuSampler(uuid, every_seconds=0.001) as sampler:
        assert gpu.enough.wait(30)
    return sampler.environment


def test_clocks_power_and_heat_are_sampled_and_a_clock_that_fell_is_seen(monkeypatch):
    gpu = Watched(5, clocks=[1590, 1590, 1590, 1200])
    sample = sampled(monkeypatch, gpu)
    seen = sample["gpu_samples"]
    assert seen["count"] >= 5
    assert (seen["sm_clock_mhz"]["min"], seen["sm_clock_mhz"]["max"]) == (1200, 1590)
    assert set(seen["power_watts"].values()) == {68.5}
    assert seen["temperature_celsius"]["max"] == 71
    json.dumps(sample)
    clocks = [1600, 1600, 1500, 1500, 1400, 1400, 1200]
    seen = driver.summarised([{"sm_clock_mhz": clock} for clock in clocks])["gpu_samples"]["sm_clock_mhz"]
    assert (seen["first_third"], seen["last_third"]) == (1600, 1300)


@pytest.mark.parametrize(("busy", "result"), [([0], 0), ([80, 30, 0], 0), ([80, 70, 90, 70, 70, 70, 70], 70)])
def test_a_gpu_is_busy_before_only_if_it_stays_so(monkeypatch, busy, result):
    """What ended just now is still in the average."""
    clock = SleepingClock()
    time = SimpleNamespace(monotonic=clock, sleep=clock.sleep)
    monkeypatch.setattr("advisor.sweeps.machine.gpu.time", time)
    nvml_with(monkeypatch, GpuStandIn(busy=busy))
    assert driver.busy_percent("6f6d") == result


def test_where_nvml_is_silent_or_missing_nothing_is_known_and_the_way_to_it_is_told(monkeypatch):
    nvml_with(monkeypatch, GpuStandIn(missing=frozenset({"nvmlDeviceGetUtilizationRates"})))
    assert driver.busy_percent("6f6d") is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert driver.busy_percent("6f6d") is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with driver.GpuSampler("6f6d") as unavailable, driver.GpuSampler(None) as no_gpu:
        pass
    assert unavailable.environment == {"gpu_sampling": "unavailable"}
    assert no_gpu.environment == {}
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(MeasuringError, match=r"nvidia-ml-py is not installed.*\[sweep\]"):
        driver.gpus()
    assert driver.gpu_facts("any") is None


def test_a_throttled_window_says_so_and_what_a_virtual_gpu_does_not_report_is_left_out(monkeypatch):
    gpu = Watched(4, bits=[0x24])
    sample = sampled(monkeypatch, gpu)
    assert sample["gpu_throttle_reasons"] == {"sw_power_cap": 1.0, "sw_thermal_slowdown": 1.0}
    gpu.bits = [0x1]
    assert "gpu_idle" not in sample["gpu_throttle_reasons"]
    # No throttle reasons would else pass for none.
    gpu = Watched(2)
    functions = "CurrentClocksThrottleReasons PowerUsage UtilizationRates ComputeRunningProcesses_v3"
    gpu.missing = frozenset(f"nvmlDeviceGet{name}" for name in functions.split())
    sample = sampled(monkeypatch, gpu)
    assert sample.keys() == {"gpu_samples", "gpu_used_memory_mib"}
    assert not {"power_watts", "utilization_percent"} & sample["gpu_samples"].keys()


@pytest.mark.parametrize(
    ("processes", "others", "own"),
    [
        ([(os.getpid(), 1200.0)], 0, 1200.0),
        ([(os.getpid(), 1200.0), (1, 300.0)], 1, 1200.0),
        # In a container: our own by the host's number, or a neighbour's while we are hidden.
        ([(UNKNOWN, 900.0)], None, None),
        ([(UNKNOWN, 900.0), (UNKNOWN + 1, 300.0)], 1, None),
        ([], None, None),
    ],
)
def test_neighbours_on_the_gpu_are_counted_where_it_is_known_who_is_one(monkeypatch, processes, others, own):
    sample = sampled(monkeypatch, Watched(2, processes=processes))
    assert sample.get("gpu_other_processes") == others
    assert sample.get("gpu_process_memory_mib") == own


def test_of_a_script_all_processes_count_and_of_a_slice_its_own_memory(monkeypatch):
    """A script of two processes, watched from outside."""
    command = ["sh", "-c", "sleep 60 & echo $!; wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as script:
        child = int(script.stdout.readline())
        gpu = GpuStandIn(processes=[(script.pid, 500.0), (child, 200.0), (os.getpid(), 50.0)])
        nvml_with(monkeypatch, gpu)
        with driver.GpuSampler("6f6d", group=script.pid) as sampler:
            pass
        os.killpg(script.pid, signal.SIGKILL)
    names = ("gpu_process_memory_mib", "gpu_other_processes")
    assert [sampler.environment[name] for name in names] == [700.0, 1]
    cut = a_cut_gpu()
    nvml_with(monkeypatch, cut)
    cut.slices[1].processes = [(os.getpid(), 700.0)]
    with driver.GpuSampler("MIG-1") as sampler:
        pass
    environment = sampler.environment
    assert environment["gpu_process_memory_mib"] == 700.0
    assert environment["gpu_samples"]["sm_clock_mhz"]["max"] == 1590
