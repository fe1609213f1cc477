"""What one trial's process measures, in this process."""

import json
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from msgspec.structs import replace

from advisor.domain import MemoryFormat, Stack, Stage, Status, Task
from advisor.sweeps.datasets.making import write_samples
from advisor.sweeps.datasets.opening import profile_folder
from advisor.sweeps.worker.measuring import measure, runner_of
from tests.sweeps.builders import PROFILE, resources, trial

MADE = replace(PROFILE, name="made-in-memory", storage_format="synthetic", samples=1_000_000)
BRIEF = {"measure_seconds": 0.1, "min_steps": 4, "max_seconds": 0.5}
JOB = {"usage_source": {"kind": "process-tree"}, "cpus": [0]}


def a_trial(accelerator="cpu", plan=BRIEF, **changes):
    values = {"network": "cifar10_cnn", "task": Task.INFERENCE, "batch_size": 2, "dataset": MADE}
    emulated = 0.01 if accelerator.startswith("emulated") else None
    values |= {"accelerator": accelerator, "plan": plan, "emulated_step_seconds": emulated}
    return trial(**{**values, **changes})


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def without_cuda(monkeypatch):
    """Whoever asks for the GPU is found out: a context would take a gigabyte of the trial's."""
    for name in ("_lazy_init", "is_available", "get_device_name", "current_device", "synchronize"):
        monkeypatch.setattr(torch.cuda, name, Mock(side_effect=AssertionError("CUDA was asked for")))


@pytest.mark.usefixtures("without_cuda", "threads")
@pytest.mark.parametrize("accelerator", [pytest.param("cpu", marks=pytest.mark.slow), "emulated:T4"])
def test_a_trial_that_computes_on_no_gpu_asks_for_none(accelerator):
    row = measure(a_trial(accelerator), JOB)
    assert row.environment["gpu"] is None
    assert row.step_seconds
    assert "gpu_peak_reserved_mib" not in row.environment


@pytest.mark.slow
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("task", [Task.INFERENCE, Task.TRAINING])
def test_a_synthetic_trial_is_its_network_alone(task):
    row = measure(a_trial(task=task, plan={**BRIEF, "input": "synthetic"}), JOB)
    assert row.status in (Status.OK, Status.CONTAMINATED)
    alone = row.stage_rates[Stage.ACCELERATOR.value]
    assert list(row.stage_rates) == [Stage.ACCELERATOR.value]
    assert alone == pytest.approx(row.throughput_samples_per_second)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a compiler on a CPU")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch about itself
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("task", [Task.INFERENCE, Task.TRAINING])
def test_a_compiled_trial_compiles_before_its_limits_are_on(task, tmp_path, monkeypatch):
    """And leaves its kernels where the next trial looks for them."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    changed = a_trial(task=task, resources=resources(vcpus=1.0))
    workload = replace(changed.workload, stack=Stack.COMPILE, memory_format=MemoryFormat.CHANNELS_LAST)
    changed = replace(changed, workload=workload, plan={**BRIEF, "input": "synthetic"})
    compiled = []

    def get_set(*_limits):
        compiled.extend(path for path in tmp_path.rglob("*") if path.suffix in (".cpp", ".so"))

    assert measure(changed, JOB, get_set).step_seconds
    assert compiled


def test_a_gpu_has_two_steps_in_flight_and_a_cpu_none():
    opened = SimpleNamespace(fingerprint="", build=lambda: torch.nn.Linear(2, 2))
    waiting = a_trial("emulated:T4", plan={**BRIEF, "synchronise_each_step": True})
    entries = (a_trial("emulated:T4"), a_trial("cpu"), waiting)
    assert [runner_of(entry, opened).depth for entry in entries] == [2, 0, 0]


@pytest.mark.slow
@pytest.mark.usefixtures("threads")
def test_of_more_files_than_it_can_read_a_warm_trial_has_those_in_memory_that_come_first(
    tmp_path, monkeypatch
):
    """As if it could read no more than 8 of 30; a data set of millions is never opened whole."""
    write_samples(tmp_path, range(30), seed=0)
    monkeypatch.setattr("advisor.sweeps.worker.measuring._MOST_READ_FILES", 8)
    dropped = []
    monkeypatch.setattr("advisor.sweeps.worker.measuring.evict", lambda paths: dropped.append({*paths}))
    plan = {**BRIEF, "loader_workers": 1, "prefetch_factor": 2}
    data = {"dataset": profile_folder(tmp_path), "dataset_path": str(tmp_path)}
    row = measure(trial(task=Task.PREPROCESSING, plan=plan, **data), JOB)
    assert [len(paths) for paths in dropped[:2]] == [8, 30]
    assert row.step_seconds
    assert row.environment["cached_share_before"] in (None, 1.0)


# Networks on a CPU without AVX-512, which oneDNN and ATen can be told to take this one for.

WITHOUT_AVX512 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
STEPS = """
import json
from advisor.domain import Precision, Task
from advisor.models.zoo.opening import open_network
from advisor.sweeps.worker.timed_run import StepRunner
from advisor.sweeps.worker.engine import TorchEngine

environments = {}
for precision in Precision.FP32, Precision.BF16, Precision.AMP:
    for task in Task.INFERENCE, Task.TRAINING:
        opened = open_network("lstm_ptb_small")
        engine = TorchEngine(opened, device="cpu", task=task, precision=precision)
        StepRunner(engine, depth=0).submit(*opened.synthetic_batch(2))
        environments[f"{task} {precision}"] = engine.environment
print(json.dumps(environments))
"""


@pytest.fixture(scope="module")
def environments():
    command = [sys.executable, "-W", "error", "-c", STEPS]
    environment = {**os.environ, **WITHOUT_AVX512}
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-2000:]
    return json.loads(process.stdout)


def test_an_lstm_that_onednn_lacks_runs_on_the_native_kernels_and_its_environment_says_so(environments):
    native = {"cpu_kernels": "native, without oneDNN"}
    assert environments["inference bf16"] == environments["training bf16"] == native
    assert environments["inference amp"] == environments["training amp"] == native
    assert environments["inference fp32"] == environments["training fp32"] == {}


# The worker as somebody starts it by hand.


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [(["--help"], 0, "Reads one line of JSON on stdin"), ([], 1, "no trial on stdin")],
)
def test_it_says_what_it_reads(words, code, says):
    command = [sys.executable, "-P", "-m", "advisor.sweeps.worker", *words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)
    assert says in done.stdout + done.stderr
