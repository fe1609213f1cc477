"""The GPU's parts, rehearsed where there is none: facts are merged, every path runs through."""

import pytest
import torch

from advisor.errors import MeasuringError
from advisor.sweeps.probe import gpu, layers
from advisor.sweeps.probe import session as accelerator
from advisor.sweeps.probe.session import is_figure, is_skipped
from tests.sweeps.cuda_standin import StandIn, installed
from tests.sweeps.machine.nvml_standin import GpuStandIn, nvml_with
from tests.sweeps.probe.test_session import _session
from tests.sweeps.probe.test_showing import document, validate

T4 = {"uuid": "GPU-6f6d", "name": "Tesla T4", "memory_mib": 15360.0, "compute_capability": None}


@pytest.fixture
def rehearsal(monkeypatch):
    """torch and NVML see one T4; nothing takes long."""
    nvml_with(monkeypatch, GpuStandIn())
    monkeypatch.setattr(gpu, "_SMALL_SIDE", 64)
    monkeypatch.setattr(layers, "_SIZES", (32, 64))
    monkeypatch.setitem(layers._BATCHES, "cuda", 1)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tiny tensors on many threads mostly wait for each other
    # Work that is queued lasts longer than any probe waits, unless a test says otherwise.
    device = StandIn(uuid="6f6d", free_mib=40, step_seconds=1e6, sleep=lambda _: None)
    with installed(device):
        yield device
    torch.set_num_threads(threads)


def test_torch_adds_what_the_driver_does_not_know_by_uuid():
    seen = {"torch_index": 0, "uuid": "6f6d", "compute_capability": "7.5", "memory_mib": 15102.0}
    (device,) = gpu.merge_devices([dict(T4)], [seen])
    assert device["compute_capability"] == "7.5"
    assert device["memory_mib"] == 15360.0
    assert device["uuid"] == "GPU-6f6d"
    cut = {"torch_index": 0, "uuid": "MIG-1", "name": "H100 MIG 1g.10gb"}  # the driver does not list it
    assert [device["name"] for device in gpu.merge_devices([dict(T4)], [cut])] == ["Tesla T4", cut["name"]]


def test_a_card_without_its_driver_is_named_and_facts_are_told_where_torch_cannot_use_the_gpu(
    tmp_path, monkeypatch
):
    card = {"slot": "0000:00:1e.0", "name": "TU104GL [Tesla T4]", "vendor_code": "10de"}
    monkeypatch.setattr(gpu, "accelerators", lambda: [card])
    monkeypatch.setattr(accelerator, "has_cuda", lambda: False)
    with pytest.raises(MeasuringError, match=r"TU104GL .*; but NVIDIA's driver does not answer"):
        gpu.probe_gpu(_session(tmp_path, 60.0))
    nvml_with(monkeypatch, GpuStandIn())
    monkeypatch.setattr(accelerator, "has_cuda", lambda: False)
    part = gpu.probe_gpu(_session(tmp_path, 60.0))
    assert part["devices"][0]["name"] == "Tesla T4"
    assert is_skipped(part["rates"])
    validate(document(gpu=part))


def test_the_whole_gpu_part_runs_through(tmp_path, rehearsal):
    part = gpu.probe_gpu(_session(tmp_path, 60.0))
    assert part["devices"][0]["multiprocessors"] == 40
    (state,) = part["under_load"]["gpus"]
    assert (state["uuid"], state["sm_clock_mhz"]) == ("GPU-6f6d", 1590)
    assert part["driver"]["newest_cuda"] == "12.4"
    for direction in ("host_to_device", "device_to_host"):
        assert all(is_figure(entry) for entry in part[direction].values())
    assert is_figure(part["device_copy"])
    validate(document(gpu=part))


def test_the_state_of_an_idle_gpu_does_not_pass_for_that_under_load(tmp_path, rehearsal):
    rehearsal.step_seconds = 0.0
    part = gpu.probe_gpu(_session(tmp_path, 60.0))
    assert "idle again" in part["under_load"]["skipped"]
    states = [{"utilization_percent": 0.0}, {"utilization_percent": None}, {"utilization_percent": 97.0}]
    (warning,) = gpu.busy_gpus(states)
    assert "GPU 2 was 97 % busy" in warning


def test_precisions_that_a_gpu_only_emulates_are_not_measured(tmp_path, rehearsal):
    part = layers.probe_gemm(_session(tmp_path, 60.0))
    assert is_figure(part["cuda"]["fp32"])
    assert is_figure(part["cuda"]["fp16"])
    for precision in ("tf32", "bf16"):
        assert "compute capability 8.0, this GPU has 7.5" in part["cuda"][precision]["skipped"]
    validate(document(gemm=part))


def test_all_layers_run_forward_and_backward_in_fp32_and_amp(tmp_path, rehearsal, monkeypatch):
    convolution = {"channels_in": 4, "channels": 4, "side": 8, "kernel": 3, "groups": 1}
    small = {
        "conv3x3": convolution,
        "lstm": {"steps": 35, "units": 8},
        "depthwise": convolution | {"groups": 4},
        "linear": {"channels_in": 8, "channels": 4},
        **{name: {"channels_in": 4, "side": 8} for name in ("batch_norm", "pooling", "elementwise")},
    }
    monkeypatch.setattr(layers, "LAYERS", {name: {"wide": entry} for name, entry in small.items()})
    monkeypatch.setattr(layers, "SIZES", ("wide",))
    part = layers.probe_operations(_session(tmp_path, 60.0))
    assert part["device"] == "cuda"
    for precision in ("fp32", "amp"):
        for name in small:
            layer = part[precision][name]["wide"]
            assert is_figure(layer["forward"]["time"]), (precision, name, layer)
            assert is_figure(layer["backward"]["time"])
            assert layer["sizes"]["batch"] == 1
    assert "arithmetic" in part["amp"]["lstm"]["wide"]["backward"]
    assert "arithmetic" not in part["fp32"]["pooling"]["wide"]["forward"]
    validate(document(operations=part))


def _layer(name, size, batch=1):
    sizes = layers.LAYERS[name][size] if isinstance(size, str) else size
    return layers.built(name, sizes, accelerator.CPU, batch, torch.float32)


def test_counted_operations_are_those_that_torch_counts():
    from torch.utils.flop_counter import FlopCounterMode

    for name in ("conv3x3", "conv1x1", "depthwise", "linear"):
        layer = _layer(name, "deep", batch=2)
        with FlopCounterMode(display=False) as counter:
            layer.call(*layer.inputs)
        assert counter.get_total_flops() == layer.flops
    assert _layer("lstm", "wide").flops == 2 * 35 * 4 * 200 * 400


@pytest.mark.parametrize(
    ("name", "forward", "backward"),
    [
        # 1x4x8x8 floats are 1024 bytes, and so is what the layer gives out.
        ("elementwise", 3 * 1024, 3 * 1024),
        ("batch_norm", 2 * 1024 + 32, 3 * 1024 + 64),
        # 4x4 outputs of 4 channels: 256 bytes, and 512 of indices.
        ("pooling", 1024 + 256, 256 + 512 + 1024),
    ],
)
def test_traffic_counts_what_must_be_moved_and_no_more(name, forward, backward):
    layer = _layer(name, {"channels_in": 4, "side": 8})
    output = layer.call(*layer.inputs)
    assert layers.moved_bytes(layer, output) == (forward, backward)
