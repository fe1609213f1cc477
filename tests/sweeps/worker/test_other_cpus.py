"""Networks on a CPU without AVX-512, which oneDNN and ATen can be told to take this one for."""

import json
import os
import subprocess
import sys

import pytest

WITHOUT_AVX512 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
STEPS = """
import json
from advisor.domain import Precision, Task
from advisor.models.zoo.opening import open_network
from advisor.sweeps.worker.step_runner import StepRunner
from advisor.sweeps.worker.torch_engine import TorchEngine

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
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", STEPS],
        env={**os.environ, **WITHOUT_AVX512},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    return json.loads(process.stdout)


def test_an_lstm_that_onednn_lacks_runs_on_the_native_kernels_and_its_environment_says_so(environments):
    native = {"cpu_kernels": "native, without oneDNN"}
    assert environments["inference bf16"] == environments["training bf16"] == native
    assert environments["inference amp"] == environments["training amp"] == native


def test_an_lstm_that_onednn_has_keeps_its_kernels(environments):
    assert environments["inference fp32"] == environments["training fp32"] == {}
