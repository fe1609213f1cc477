"""What a GPU did while steps were timed, as rows keep it."""

import json
import os
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.machine.gpu_sampling import GpuSampler, gpu_states, summarised, throttle_shares
from tests.sweeps.machine.nvml_standin import GpuStandIn, nvml_with
from tests.sweeps.machine.test_gpu import a_cut_gpu


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
    with GpuSampler(uuid, every_seconds=0.001) as sampler:
        assert gpu.enough.wait(30)
    return sampler.environment


def test_clocks_power_and_heat_are_sampled_during_the_window(monkeypatch):
    """The clock falls in the window, and NVML is asked before it, too."""
    gpu = Watched(5, clocks=[300, 1590, 1590, 1200])
    found = sampled(monkeypatch, gpu)
    assert found["gpu_samples"]["count"] >= 4
    assert found["gpu_samples"]["sm_clock_mhz"]["min"] == 1200
    assert found["gpu_samples"]["sm_clock_mhz"]["max"] == 1590
    assert found["gpu_samples"]["power_watts"] == {"min": 68.5, "mean": 68.5, "max": 68.5}
    assert found["gpu_samples"]["temperature_celsius"]["max"] == 71
    assert found["gpu_utilization_before_percent"] == 99
    json.dumps(found)


def test_a_throttled_window_says_so_though_the_gpu_is_idle_afterwards(monkeypatch):
    gpu = Watched(4, bits=[0x1, 0x24, 0x24])
    found = sampled(monkeypatch, gpu)
    assert found["gpu_throttle_reasons"] == {"sw_power_cap": 1.0, "sw_thermal_slowdown": 1.0}
    gpu.bits = [0x1]
    assert "gpu_idle" not in found["gpu_throttle_reasons"]


def test_what_a_virtual_gpu_does_not_report_is_left_out(monkeypatch):
    """No throttle reasons would else pass for none."""
    gpu = Watched(2)
    functions = (
        "CurrentClocksEventReasons",
        "CurrentClocksThrottleReasons",
        "PowerUsage",
        "UtilizationRates",
        "ComputeRunningProcesses_v3",
        "ComputeRunningProcesses_v2",
    )
    gpu.missing = frozenset(f"nvmlDeviceGet{name}" for name in functions)
    found = sampled(monkeypatch, gpu)
    assert found.keys() == {"gpu_samples", "gpu_used_memory_mib"}
    assert not {"power_watts", "utilization_percent"} & found["gpu_samples"].keys()


def test_drivers_before_535_call_the_reasons_otherwise(monkeypatch):
    gpu = Watched(2, bits=[0x40])
    gpu.missing = frozenset({"nvmlDeviceGetCurrentClocksEventReasons"})
    assert sampled(monkeypatch, gpu)["gpu_throttle_reasons"] == {"hw_thermal_slowdown": 1.0}


def test_drivers_before_510_count_processes_by_an_older_function(monkeypatch):
    """The package's function without a version raises what is no NVMLError there."""
    gpu = Watched(2, processes=[(os.getpid(), 1200.0), (1, 300.0)])
    gpu.missing = frozenset({"nvmlDeviceGetComputeRunningProcesses_v3"})
    assert sampled(monkeypatch, gpu)["gpu_other_processes"] == 1


@pytest.mark.parametrize(
    ("processes", "others", "own"),
    [
        ([(os.getpid(), 1200.0)], 0, 1200.0),
        ([(os.getpid(), 1200.0), (1, 300.0)], 1, 1200.0),
        ([(4711, 900.0)], 0, 900.0),  # a container's own process, by the host's number
        ([(4711, 900.0), (4712, 300.0)], 1, None),
        ([], 0, None),
    ],
)
def test_neighbours_on_the_gpu_are_counted(monkeypatch, processes, others, own):
    found = sampled(monkeypatch, Watched(2, processes=processes))
    assert found["gpu_other_processes"] == others
    assert found.get("gpu_process_memory_mib") == own


def test_a_slice_is_sampled_with_its_own_memory_and_the_cards_clocks(monkeypatch):
    cut = a_cut_gpu()
    nvml_with(monkeypatch, cut)
    cut.slices[1].processes = [(os.getpid(), 700.0)]
    with GpuSampler("MIG-1") as sampler:
        pass
    found = sampler.environment
    assert found["gpu_process_memory_mib"] == 700.0
    assert found["gpu_samples"]["sm_clock_mhz"]["max"] == 1590


def test_without_nvml_the_row_says_so_and_without_a_gpu_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with GpuSampler("6f6d") as unavailable, GpuSampler(None) as no_gpu:
        pass
    assert unavailable.environment == {"gpu_sampling": "unavailable"}
    assert no_gpu.environment == {}


def test_the_state_of_every_gpu_comes_with_its_uuid(monkeypatch):
    nvml_with(monkeypatch, GpuStandIn(), GpuStandIn(uuid="GPU-a2"))
    assert [state["uuid"] for state in gpu_states()] == ["GPU-6f6d", "GPU-a2"]


FIGURE = st.one_of(st.none(), st.floats(0, 1e4))


@given(st.lists(st.fixed_dictionaries({"power_watts": FIGURE, "sm_clock_mhz": FIGURE}), min_size=1))
def test_a_mean_lies_between_the_extremes_and_what_was_never_known_is_left_out(samples):
    found = summarised(samples)["gpu_samples"]
    assert found["count"] == len(samples)
    for name in ("power_watts", "sm_clock_mhz"):
        known = [one[name] for one in samples if one[name] is not None]
        assert (name in found) == bool(known)
        if known:
            low, mean, high = (found[name][key] for key in ("min", "mean", "max"))
            assert low - 1e-6 <= mean <= high + 1e-6


@given(st.lists(st.integers(0, 0x1FF), min_size=1))
def test_shares_of_throttle_reasons_count_the_samples_that_had_them(bits):
    shares = throttle_shares(bits)
    assert all(0 < share <= 1 for share in shares.values())
    assert ("sw_power_cap" in shares) == any(value & 4 for value in bits)
