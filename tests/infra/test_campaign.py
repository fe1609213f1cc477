"""The GPU-hour: which cells it has, and that nothing measured is ever lost."""

import subprocess
import sys
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import ON_ANY_GPU, Precision, Status, Task
from advisor.errors import DataError, MeasuringError
from advisor.infra.build.campaign import __main__ as command
from advisor.infra.build.campaign.marks import marks
from advisor.infra.build.campaign.protocol import (
    GPU_HOUR,
    LARGEST,
    NETWORKS,
    SHORT,
    Cell,
    Machine,
    batch_of,
    cells,
    trial_of,
)
from advisor.infra.build.campaign.records import Records
from advisor.infra.build.campaign.session import GpuHour, this_machine
from advisor.models.performance import load_model, paced_gpu
from advisor.models.performance.networks import bundled_networks
from advisor.sweeps.formats import read_file
from advisor.sweeps.probe.session import CPU

SMALL = "advisor/resnet18_cifar@3x32x32"
T4 = paced_gpu("T4")
MACHINE = Machine(
    accelerator=ON_ANY_GPU, resources=this_machine("cpu", {}).resources, gpu="Tesla T4", sheet=T4
)


def test_an_hour_has_every_network_in_three_settings_and_a_tenth_of_them_again():
    every = list(cells(NETWORKS, GPU_HOUR))
    again = [cell for cell in every if cell.again]
    assert len({cell.network.rpartition("@")[0] for cell in every}) == 24
    assert len(every) - len(again) == 9 * len(NETWORKS)
    assert 10 * len(again) == pytest.approx(9 * len(NETWORKS), abs=10)
    assert len({cell.key for cell in every}) == len(every)
    assert every[-len(again) :] == again
    sizes = {key: key.partition("@") for key in NETWORKS}
    unknown = [
        key for key, (name, _, size) in sizes.items() if not bundled_networks().find(name, size).kernels
    ]
    assert unknown == [], "the predictor counts by its table"
    seconds = len(every) * GPU_HOUR.seconds + 3.5 * len(marks(on_gpu=True, is_short=False))
    assert 2_200 < seconds < 3_300  # the rest of the hour starts processes


def test_the_largest_batch_is_what_the_cards_memory_surely_holds():
    def largest(network, task):
        return batch_of(Cell(network=network, task=task, precision=Precision.AMP, batch=LARGEST), MACHINE)

    resnet, bert = NETWORKS[1], "transformers/bert-large-uncased@seq:384"
    assert 64 <= largest(resnet, Task.TRAINING) < largest(resnet, Task.INFERENCE) <= 1024
    assert 1 <= largest(bert, Task.TRAINING) <= 32


@pytest.mark.parametrize(
    "name",
    [
        *("gemm.1024", "conv3x3.3.512.nhwc", "grouped.3.256", "depthwise.9.64", "attention_masked.512"),
        *("attention_math.512", "layer_norm.1048576", "softmax.1048576", "upsample.1048576", "fold.1048576"),
    ],
)
def test_a_mark_computes_as_much_as_it_says(name):
    """What its tensors hold, and torch's own count of FLOPs."""
    from torch.utils.flop_counter import FlopCounterMode

    mark = next(m for m in marks(on_gpu=False, is_short=False) if m.name == name)
    call = mark.call(CPU)
    with FlopCounterMode(display=False) as counter:
        call()
    flops = mark.sizes["batch"] * mark.sizes.get("flops", 0)
    # FlopCounterMode counts no fused attention with a mask on a CPU.
    assert counter.get_total_flops() in (flops, 0)
    assert mark.sizes["elements"] > 0


@given(st.data())
def test_a_kill_at_any_byte_loses_at_most_the_last_row(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("campaign") / "c.jsonl"
    records = records_in(path)
    for name in "ab":
        records.append({"mark": name, "seconds": 1.0})
    content = path.read_bytes()
    first = content.index(b"\n") + 1
    path.write_bytes(content[: data.draw(st.integers(first, len(content)))])
    again = records_in(path)
    assert "a" in again.done
    again.append({"mark": "c", "seconds": 1.0})
    assert "c" in records_in(path).done


def records_in(path):
    return Records(path, lambda row: row["mark"])


def test_a_damaged_line_is_told_and_a_missing_device_ends_the_run_with_its_reason(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text("nonsense\n")
    with pytest.raises(DataError, match="line 1"):
        records_in(path)
    assert path.read_text() == "nonsense\n"
    campaign = hour(tmp_path)
    campaign.command = (sys.executable, "-c", """print('{"error": "torch sees no CUDA device"}')""")
    with pytest.raises(MeasuringError, match="sees no CUDA device"):
        campaign.run()


# A process that answers as one on a T4 would, 20 % faster than the predictor says: no GPU is here.
FAKE = """
import json, sys
job = json.loads(sys.stdin.readline())
def say(**what): print(json.dumps(what), flush=True)
say(facts={"gpu": "Tesla T4", "gpu_memory_mib": 15095.0, "gpu_sm_count": 40, "versions": {"torch": "2.9"}})
from advisor.infra.build.campaign.marks import marks
sizes = {m.key: m for m in marks(on_gpu=True, is_short=True)}
for key in job.get("marks", ()):
    mark = sizes.get(key)
    more = {"name": mark.name, "precision": mark.precision, "sizes": mark.sizes} if mark else {}
    say(row={"mark": key, "status": "ok", "seconds": 1e-3, **more})
for cell in job.get("cells", ()):
    END
    say(row={"cell": cell["cell"], "batch": cell["batch"], "status": "ok",
             "step_seconds": [cell["batch"] / 100] * 8})
say(done=True)
"""


def hour(tmp_path, said=None, seconds=600.0, end="", networks=(NETWORKS[1],), **changes):
    changes |= {"ends_at": time.monotonic() + seconds, "report": ([] if said is None else said).append}
    changes |= {"command": (sys.executable, "-c", FAKE.replace("END", end)), "networks": networks}
    return GpuHour.of(tmp_path / "hour.jsonl", device="cuda", plan=SHORT, **changes)


def test_the_predictor_says_its_rate_before_each_row_and_the_document_is_one_command_from_fit(tmp_path):
    said = []
    assert hour(tmp_path, said).run()
    keys = [cell.key for cell in cells((NETWORKS[1],), SHORT)]
    told = [line.partition(":")[2] for line in said if ": told " in line]
    assert len(told) == len(keys)
    assert all("rows/s (" in line for line in told)
    for key in keys:
        named = [line for line in said if line.startswith(f"{key}:")]
        assert [": told " in line for line in named] == [True, False]
    files = ["--from", tmp_path / "hour.jsonl", "--out", tmp_path / "model.json"]
    fit = [sys.executable, "-m", "advisor", "fit", *files]
    done = subprocess.run(fit, capture_output=True, text=True, check=True)
    assert "GPU steps of" in done.stdout
    assert "on T4" in done.stdout
    model = load_model(tmp_path / "model.json")
    assert len(model.gpu_observations.steps) == 4
    assert {layer.name for layer in model.gpu_observations.layers} >= {"gemm.1024", "attention.512"}


@pytest.mark.parametrize(
    ("end", "reason"), [("import os; os.abort()", "signal 6"), ("import time; time.sleep(600)", "hung")]
)
def test_what_ends_or_hangs_costs_one_cell_and_the_next_run_goes_on(tmp_path, end, reason):
    once = f"if cell['cell'].endswith('training/fp32/1'): {end}"
    first = hour(tmp_path, end=once, patience_seconds=-20.0 if "sleep" in end else 60.0)
    assert first.run()
    rows = {row.trial.plan["cell"]: row for row in read_file(tmp_path / "hour.jsonl").measurements}
    failed = [key for key, row in rows.items() if row.status is Status.FAILED]
    assert failed == [f"{NETWORKS[1]}/training/fp32/1"]
    assert reason in rows[failed[0]].reason
    again = hour(tmp_path, end=once)
    assert (again.run(), again.measured) == (True, 0)


def test_a_piece_ends_in_time_and_the_next_one_measures_the_rest(tmp_path):
    assert not hour(tmp_path, seconds=1.0).run()
    assert hour(tmp_path).run()
    assert len(read_file(tmp_path / "hour.jsonl").measurements) == 5


def test_a_library_that_is_missing_leaves_its_networks_out(tmp_path):
    said = []
    gone = 'if "vgg" in job["network"]: say(error="torchvision/vgg16 needs torchvision"); sys.exit(1)'
    assert hour(tmp_path, said, end=gone, networks=NETWORKS[1:3]).run()
    assert any(line.startswith("left out: ") and "vgg16" in line for line in said)


def test_a_trial_says_that_its_steps_are_bare_and_which_cell_it_is():
    cell = Cell(network=NETWORKS[1], task=Task.TRAINING, precision=Precision.AMP, batch="32")
    trial = trial_of(cell, 32, MACHINE, GPU_HOUR)
    assert (trial.workload.network, trial.workload.input) == ("torchvision/resnet50", "3x224x224")
    assert trial.workload.protocol == "bench"
    assert trial.plan["cell"] == cell.key


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_which_part_is_missing(tmp_path, capsys):
    assert command.main(["gpu-hour", "--out", str(tmp_path / "c.jsonl")]) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "CUDA" in line
