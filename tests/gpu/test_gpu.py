"""A measurement on a real CUDA device, by ratios with wide bounds: nothing says how fast a GPU is."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from advisor.answers.measuring import measure_reference
from advisor.domain import DatasetProfile, MemoryFormat, Precision, Stack, Status, Task, Trial, Workload
from advisor.models.zoo.networks import network_info
from advisor.models.zoo.opening import open_network
from advisor.runs.measuring_script import measure_script
from advisor.sweeps.datasets.opening import profile_folder
from advisor.sweeps.formats import read_file
from advisor.sweeps.planning.plan import SYNTHETIC
from tests.gpu.conftest import is_rehearsal
from tests.sweeps.builders import own_network

MEASURED = (Status.OK, Status.CONTAMINATED)
TIMES = {"measure_seconds": 1.0, "min_steps": 3, "max_seconds": 4.0}
FP32 = {"precision": Precision.FP32}
SMALL = network_info("cifar10_cnn")
ROOT = str(Path(__file__).parents[2])
ON_DEVICE = DatasetProfile(
    name=SYNTHETIC, samples=1, bytes_per_sample=12_288.0, storage_format=SYNTHETIC, width=32, height=32
)


def trial(gpu, workload, **plan):
    machine = gpu.machine
    plan = {"gpu": machine.gpu, **TIMES, **plan}
    return Trial(workload=workload, resources=machine.resources, accelerator=machine.accelerator, plan=plan)


def cell(gpu, setting=FP32, task=Task.TRAINING, info=SMALL, batch_size=32, **plan):
    asked = Workload(network=info.name, task=task, batch_size=batch_size, dataset=ON_DEVICE, **setting)
    return trial(gpu, asked, input=SYNTHETIC, **plan)


def behind_the_loader(gpu, photographs, task=Task.TRAINING):
    profile = profile_folder(photographs)
    asked = Workload(network="alexnet", task=task, batch_size=16, dataset=profile)
    return replace(trial(gpu, asked, loader_workers=1, prefetch_factor=2), dataset_path=str(photographs))


@pytest.mark.parametrize(
    ("task", "setting"),
    [
        (Task.INFERENCE, FP32),
        (Task.TRAINING, FP32),
        (Task.TRAINING, {"precision": Precision.AMP}),
        (Task.TRAINING, {"precision": Precision.BF16}),
        (Task.TRAINING, {"precision": Precision.AMP, "memory_format": MemoryFormat.CHANNELS_LAST}),
    ],
    ids=["inference", "fp32", "amp", "bf16", "channels_last"],
)
def test_a_network_steps_on_the_gpu_of_that_name(gpu, task, setting):
    row = gpu.attempt(cell(gpu, setting, task))
    assert row.status in MEASURED, row.reason
    assert row.environment["gpu"] == gpu.name
    assert row.environment["gpu_peak_reserved_mib"] >= row.environment["gpu_peak_allocated_mib"] > 0
    assert len(row.step_seconds) >= 3
    assert row.stage_rates["accelerator"] > 0


def test_a_compiled_network_steps_and_compiling_is_no_step(gpu):
    gpu.needs_a_real_one("inductor generates code for the real device")
    row = gpu.attempt(cell(gpu, {**FP32, "stack": Stack.COMPILE}))
    assert row.status in MEASURED, row.reason
    assert max(row.step_seconds) < 2.0


def test_another_gpu_than_was_asked_for_is_refused(gpu):
    other = replace(gpu.machine, accelerator=replace(gpu.accelerator, gpu="Tesla K80"))
    trial = replace(cell(gpu), accelerator=other.accelerator)
    row = gpu.attempt(trial)
    assert row.status is Status.FAILED
    assert "Tesla K80" in row.reason


def test_nvml_saw_the_gpu_at_work(gpu):
    row = gpu.attempt(cell(gpu))
    state = row.environment["gpu_samples"]
    assert state["count"] >= 2
    assert state["sm_clock_mhz"]["max"] >= state["sm_clock_mhz"]["min"] > 0
    assert state["power_watts"]["mean"] > 0
    assert isinstance(row.environment["gpu_throttle_reasons"], dict)


def test_the_driver_and_torch_know_the_same_gpu(gpu):
    """The one by NVML, the other by CUDA; they count memory a little otherwise."""
    facts = gpu.attempt(cell(gpu)).environment
    known = facts["gpu_facts"].get("mig") or facts["gpu_facts"]
    assert known["name"] == facts["gpu"] == gpu.name
    assert known["memory_mib"] == pytest.approx(facts["gpu_memory_mib"], rel=0.1)
    assert facts["gpu_facts"]["driver"]
    used = facts["gpu_used_memory_mib"]
    # A container may hide its processes from NVML.
    own = facts.get("gpu_process_memory_mib", used)
    assert used >= own >= facts["gpu_peak_allocated_mib"]


def test_the_real_loader_feeds_the_gpu_and_every_stage_is_told(gpu, photographs):
    row = gpu.attempt(behind_the_loader(gpu, photographs))
    assert row.status in MEASURED, row.reason
    # A file system that keeps all files in memory has no storage stage.
    assert {"accelerator", "host", "transfer"} <= set(row.stage_rates)
    assert all(rate > 0 for rate in row.stage_rates.values())


OVERLAP = """
import sys, time
sys.path.insert(0, {root!r})
{prelude}
from itertools import repeat
from statistics import fmean
import torch
from advisor.domain import Precision, Task
from advisor.models.zoo.opening import open_network
from advisor.sweeps.worker.timed_run import StepRunner
from advisor.sweeps.worker.timed_run import TimeBox, timed_steps, warm_up
from advisor.sweeps.worker.engine import TorchEngine

network = open_network({network!r})
engine = TorchEngine(network, device="cuda", task=Task.INFERENCE, precision=Precision.FP32)
runner = StepRunner(engine)
batch = [part.pin_memory() for part in network.synthetic_batch({batch_size}, torch.device("cpu"))]

def mean_step(batches):
    warm_up(runner, batches, 10)
    return fmean(timed_steps(runner, batches, TimeBox(seconds=1.0, min_steps=10, max_seconds=5.0)))

def slept(seconds):
    while True:
        time.sleep(seconds)
        yield batch

alone = mean_step(repeat(batch))
print(mean_step(slept(alone)) / alone)
"""


def test_loading_and_computing_overlap(gpu):
    """Few kernels and a loader as long as a step: one after the other, each step would take twice as long."""
    prelude = (
        "from tests.sweeps.cuda_standin import StandIn, installed\n"
        "gpu = installed(StandIn(step_seconds=0.05))\ngpu.__enter__()"
    )
    network, batch_size = ("cifar10_cnn", 4) if is_rehearsal() else ("vgg16", 64)
    script = OVERLAP.format(
        root=ROOT, network=network, batch_size=batch_size, prelude=prelude if is_rehearsal() else ""
    )
    command = [sys.executable, "-c", script]
    answer = subprocess.run(command, capture_output=True, check=True, text=True)
    assert float(answer.stdout) <= 1.4


ASSERTION = "torch.zeros(4, device=images.device)[torch.full((9,), 99, device=images.device)].sum().item()"
# The stand-in's memory is this machine's: it can only be said to be full.
TOO_MUCH = (
    "raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 90 GiB')"
    if is_rehearsal()
    else "torch.empty(2 * torch.cuda.get_device_properties(0).total_memory, "
    "dtype=torch.uint8, device=images.device)"
)


def rows_of_three_batches(gpu, tmp_path, fault):
    network = open_network(own_network(tmp_path, fault))
    known = {"info": network.info, "network_fingerprint": network.fingerprint}
    return [gpu.attempt(cell(gpu, FP32, Task.INFERENCE, batch_size=size, **known)) for size in (1, 2, 4)]


def test_a_device_side_assert_costs_one_cell(gpu, tmp_path):
    rows = rows_of_three_batches(gpu, tmp_path, ASSERTION)
    assert rows[0].status in MEASURED, rows[0].reason
    assert rows[1].status is Status.FAILED
    assert rows[2].status in MEASURED, rows[2].reason


def test_a_full_gpu_is_no_fault(gpu, tmp_path):
    row = rows_of_three_batches(gpu, tmp_path, TOO_MUCH)[1]
    assert row.status is Status.OUT_OF_MEMORY
    assert "the GPU's memory is full" in row.reason


def test_a_gpu_hour_measures_marks_and_networks_and_goes_on(gpu, tmp_path):
    gpu.needs_a_real_one("it starts its own processes")
    out = tmp_path / "hour.jsonl"
    keys = "torchvision/resnet18@3x224x224,torchvision/mobilenet_v2@3x224x224"
    command = [*gpu.program("advisor.infra.build.campaign"), "gpu-hour", "--short", "--networks", keys]
    for minutes in ("0.5", "4"):
        asked = [*command, "--out", str(out), "--minutes", minutes]
        assert subprocess.run(asked, check=False).returncode == 0
    rows = read_file(out).measurements
    assert len(rows) == 9
    assert {row.environment["gpu"] for row in rows} == {gpu.name}
    assert {row.status for row in rows} <= set(MEASURED)
    figures = next(row.environment["fingerprint"] for row in rows if "fingerprint" in row.environment)
    assert all(figure["value"] > 0 for figure in figures["figures"].values())


def measured_anchor(gpu, reference, **options):
    values = {"tasks": (Task.TRAINING,), "precision": Precision.FP32, "data": None, "runs": 2}
    return measure_reference(
        reference,
        on_progress=lambda _line: None,
        command=gpu.program("advisor.sweeps.measure"),
        **{**values, **options},
    )


def test_an_anchor_is_of_this_gpu_and_of_several_processes(gpu):
    found = measured_anchor(gpu, "cifar10_cnn", minutes=0.3, profile=not is_rehearsal())
    assert (found["device"]["kind"], found["device"]["gpu"]) == ("cuda", gpu.name)
    assert {run["process"] for run in found["runs"]} == {0, 1}
    assert all(run["gpu_state"]["gpu_samples"] for run in found["runs"])


def test_an_anchor_survives_a_lost_gpu(gpu, tmp_path):
    gpu.needs_a_real_one("the stand-in's device never stops computing")
    own = own_network(tmp_path, ASSERTION)
    found = measured_anchor(gpu, own, minutes=0.1, tasks=(Task.INFERENCE,), runs=1)
    assert [run["status"] for run in found["runs"]] == ["ok", "failed"]
    assert any("stopped computing" in warning for warning in found["warnings"])


SCRIPT = """
import sys, time, torch
sys.path.insert(0, {root!r})
{prelude}
from advisor.sweeps.hook import steps

layers = [torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(28800, 8)]
network = torch.nn.Sequential(*layers).to("cuda")
optimiser = torch.optim.SGD(network.parameters(), 0.01)
batch = (torch.rand(64, 3, 32, 32, device="cuda"), torch.zeros(64, dtype=torch.long, device="cuda"))
for epoch in range(2):
    for images, labels in steps([batch] * 200):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(network(images), labels).backward()
        optimiser.step()
    torch.cuda.synchronize()
    time.sleep(1)
raise SystemExit(3)
"""


def test_a_script_that_fails_after_its_loop_is_measured_by_its_gpus_clock(gpu, tmp_path):
    prelude = "from tests.sweeps.cuda_standin import installed\ngpu = installed()\ngpu.__enter__()"
    script = SCRIPT.format(prelude=prelude if is_rehearsal() else "", root=ROOT)
    (tmp_path / "train.py").write_text(script)
    command = [sys.executable, str(tmp_path / "train.py")]
    found = measure_script(command, minutes=1, on_progress=lambda _line: None)
    assert (found["device"]["kind"], found["device"]["gpu"]) == ("cuda", gpu.name)
    (run,) = found["runs"]
    assert run["gaps_seconds"][0] >= 1.0
    assert run["samples_per_second"] >= run["batch_size"] * run["steps"] / sum(run["step_seconds"])
    assert sum(run["waited_seconds"]) <= 0.5 * sum(run["step_seconds"])
    assert any("exit code 3" in warning for warning in found["warnings"])


def test_the_probe_finds_the_gpu_and_times_it(gpu):
    gpu.needs_a_real_one("it times copies and matrices")
    command = [*gpu.program("advisor.sweeps.probe"), "--only", "gpu,gemm", "--quick"]
    answer = subprocess.run(command, capture_output=True, check=True, text=True)
    parts = json.loads(answer.stdout)["parts"]
    assert gpu.name in [device["name"] for device in parts["gpu"]["devices"]]
    assert parts["gemm"]["cuda"]["fp16"]["value"] > 0
