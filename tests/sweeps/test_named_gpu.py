"""Trials that name their GPU, from the plan of a rented machine to the answer.

torch.cuda and NVML are stand-ins in a real worker: what is shown is that the rows go the whole way, not how
fast a T4 is."""

import json
from contextlib import closing, nullcontext
from functools import partial

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.catalog.gpus import sheet_of
from advisor.cli.main import cli
from advisor.domain import Accelerator, LimitedBy, Precision, Status, Task
from advisor.models.zoo.opening import open_network
from advisor.store.measurements import open_store
from advisor.sweeps.anchors import read_anchor
from advisor.sweeps.planning.plan import merged
from advisor.sweeps.trial.trial_process import run_attempt
from advisor.sweeps.worker.engine import gpu_uuid, peaks
from advisor.sweeps.worker.measuring import runner_of
from tests.advisor.conftest import account
from tests.sweeps.builders import REAL_WORKER, trial_on
from tests.sweeps.cuda_standin import COMMAND, StandIn, installed, worker_environment

__all__ = ["account"]
T4 = Accelerator.parse("cuda:T4")


def on_a_t4(images):
    return trial_on(images, accelerator="cuda:T4", task=Task.INFERENCE)


def measured_with_standins(entry):
    return run_attempt(entry, command=COMMAND)


def advisor(*words):
    answer = CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


class TestInARealWorker:
    pytestmark = REAL_WORKER

    def test_what_a_worker_measures_on_a_named_gpu_is_stored_fitted_and_an_anchor(
        self, images, tmp_path, monkeypatch
    ):
        """The stage run failed: `Invalid device string: 'cuda:T4'`; and no anchor was taken."""
        monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
        row = measured_with_standins(on_a_t4(images))
        assert row.status in (Status.OK, Status.CONTAMINATED), row.reason
        assert row.stage_rates["accelerator"] > 0
        assert (row.environment["gpu"], row.environment["gpu_sm_count"]) == ("Tesla T4", 40)
        assert row.environment["gpu_facts"]["power_limit_watts"] == 70.0
        assert row.environment["gpu_samples"]["count"] >= 1
        assert row.environment["gpu_context_mib"] == 0.0  # as much as torch's in the stand-ins
        facts = {"driver", "compute_capability", "ecc_mode", "persistence_mode", "mig_mode"}
        assert facts <= row.environment["gpu_facts"].keys()
        assert {"cuda", "cudnn", "tf32_convolutions", "variables"} <= row.environment.keys()
        assert row.environment["variables"] == {"NVIDIA_TF32_OVERRIDE": "0"}
        # What else this machine does, and whether it can hold limits, is not the matter here.
        row = replace(row, status=Status.OK, reason="", limited_by=LimitedBy.CGROUP_V2)
        with closing(open_store()) as store:
            store.join(row, merged)
            (kept,) = store.read().measurements
        assert kept == row
        assert advisor("fit", "-o", "json")["gpu_steps"]["taken"] == 1
        exported = tmp_path / "t4.jsonl"
        CliRunner().invoke(cli, ["measurements", "export", "--out", str(exported)])
        sheets = load_catalog().gpus
        sheet = partial(sheet_of, sheets=sheets)
        (anchor,) = read_anchor(exported, sheet, Precision.FP32).observations
        assert anchor.gpu is sheets["T4"]

    def test_what_is_measured_beside_others_on_the_gpu_is_contaminated(self, images, monkeypatch):
        for name, value in worker_environment(neighbours=1).items():
            monkeypatch.setenv(name, value)
        row = measured_with_standins(on_a_t4(images))
        assert row.status is Status.CONTAMINATED, row.reason
        assert row.environment["gpu_other_processes"] == 1


@pytest.mark.parametrize(
    ("device", "refusal"),
    [
        (StandIn(), ""),
        (StandIn(name="NVIDIA L4", memory_mib=22_574, multiprocessors=58), "node is: L4"),
        (StandIn(name="Tesla T4", memory_mib=7_680), "a slice of a card"),
        (
            StandIn(name="GRID T4-16Q", memory_mib=16_384),
            r"T4 was requested.*a slice of a card \(GRID T4-16Q, 16,384 MiB",
        ),
    ],
)
def test_a_trial_computes_on_the_card_that_it_names_and_on_no_other(images, device, refusal):
    refused = pytest.raises(Exception, match=refusal) if refusal else nullcontext()
    with installed(device), refused:
        assert runner_of(on_a_t4(images), open_network("googlenet")).engine


@pytest.mark.parametrize(
    ("visible", "uuid"), [(None, "6f6d"), ("GPU-6f6d", "6f6d"), ("MIG-b2", "MIG-b2"), ("", "6f6d")]
)
def test_a_slice_goes_by_the_name_that_makes_it_visible(monkeypatch, visible, uuid):
    """CUDA may give a slice the UUID of its card."""
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with installed(StandIn(uuid="6f6d")):
        assert gpu_uuid() == uuid


def test_what_the_driver_counts_beyond_torchs_memory_is_the_context():
    with installed():
        assert peaks("cuda", 1_650.0)["gpu_context_mib"] == 450.0
        assert "gpu_context_mib" not in peaks("cuda")
    assert peaks("cpu", 1_650.0) == {}
