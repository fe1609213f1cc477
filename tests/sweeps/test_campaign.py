"""A campaign: which cells, when a ladder ends, and that nothing measured is ever lost."""

import json
import time
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import Precision, Status, Task
from advisor.errors import DataError
from models.zoo.networks import Kind, network_info
from models.zoo.opening import open_network
from sweeps.campaign import __main__ as command
from sweeps.campaign import running
from sweeps.campaign.cells import (
    FULL,
    QUICK,
    BatchRange,
    Machine,
    batch_ranges,
    batch_sizes,
    default_networks,
    host_resources,
    next_batch,
    pipeline_trials,
    synthetic_trial,
)
from sweeps.campaign.records import Records
from sweeps.campaign.running import Campaign, run_ladder
from sweeps.formats.importing import read_file
from tests.sweeps.builders import PROFILE, measurement

MACHINE = Machine(accelerator="cpu", resources=host_resources(4, 2, 16_000), gpu=None)
LADDER = BatchRange(info=network_info("cifar10_cnn"), task=Task.INFERENCE, precision=Precision.FP32)


def cell(batch_size, **changes):
    return measurement(trial=synthetic_trial(LADDER, batch_size, MACHINE, FULL), **changes)


def done(*rows):
    return {row.trial.trial_id: row for row in rows}


def test_a_ladder_climbs_from_what_is_done():
    assert next_batch(LADDER, MACHINE, FULL, {}) == 1
    assert next_batch(LADDER, MACHINE, FULL, done(cell(1), cell(2))) == 4


@pytest.mark.parametrize(
    "last",
    [
        {"status": Status.OUT_OF_MEMORY, "step_seconds": (), "reason": "CUDA out of memory"},
        {"status": Status.FAILED, "step_seconds": (), "reason": "no kernel"},
        {"step_seconds": (4.5, 5.0)},
    ],
)
def test_a_ladder_ends_without_memory_on_a_fault_and_when_steps_get_long(last):
    assert next_batch(LADDER, MACHINE, FULL, done(cell(1), cell(2, **last))) is None


def test_training_begins_with_the_smallest_batch_that_can_be_trained_on():
    info = network_info("deeplabv3_resnet50")
    training = BatchRange(info=info, task=Task.TRAINING, precision=Precision.FP32)
    assert batch_sizes(training, FULL)[0] == 2
    assert batch_sizes(replace(training, task=Task.INFERENCE), FULL)[0] == 1


def test_classifiers_of_images_come_first_and_fp32_before_any_other_precision():
    kinds = [info.kind for info in default_networks()]
    assert kinds == sorted(kinds, key=lambda kind: kind is not Kind.IMAGE)
    precisions = [batch_range.precision for batch_range in batch_ranges(default_networks(), FULL)]
    assert precisions == sorted(precisions, key=list(Precision).index)


def test_every_cell_is_another_trial_and_another_gpu_too():
    cells = [
        synthetic_trial(batch_range, size, MACHINE, FULL).trial_id
        for batch_range in batch_ranges(default_networks(), FULL)
        for size in (1, 2)
    ]
    assert len(set(cells)) == len(cells)
    other = replace(MACHINE, gpu="Tesla T4")
    assert synthetic_trial(LADDER, 1, other, FULL).trial_id not in cells


def test_real_input_is_measured_up_to_the_vcpus_that_are_there():
    infos = [network_info("resnet50"), network_info("cifar10_cnn"), network_info("bert_base")]
    trials = pipeline_trials(infos, MACHINE, FULL, PROFILE, "/data")
    assert {trial.workload.network for trial in trials} == {"resnet50"}
    assert sorted({trial.resources.vcpus for trial in trials}) == [1, 2, 4]
    assert {t.resources.physical_cores for t in trials if t.resources.vcpus == 4} == {2}


def test_a_row_is_readable_as_soon_as_it_is_appended(tmp_path):
    Records(tmp_path / "c.jsonl").append(cell(1))
    assert set(Records(tmp_path / "c.jsonl").done) == {cell(1).trial.trial_id}


@given(st.data())
def test_a_kill_at_any_byte_loses_at_most_the_last_row(tmp_path_factory, data):
    place = tmp_path_factory.mktemp("campaign") / "c.jsonl"
    records = Records(place)
    for size in (1, 2):
        records.append(cell(size))
    content = place.read_bytes()
    first = content.index(b"\n") + 1
    place.write_bytes(content[: data.draw(st.integers(first, len(content)))])
    again = Records(place)
    assert cell(1).trial.trial_id in again.done
    again.append(cell(4))
    assert not read_file(place).refused


def test_a_damaged_line_is_told_and_nothing_is_changed(tmp_path):
    place = tmp_path / "c.jsonl"
    place.write_text("nonsense\n")
    with pytest.raises(DataError, match="line 1"):
        Records(place)
    assert place.read_text() == "nonsense\n"


def test_a_contaminated_cell_is_measured_again_in_the_next_run_but_not_in_this_one(tmp_path):
    records = Records(tmp_path / "c.jsonl")
    records.append(cell(1, status=Status.CONTAMINATED))
    assert records.done
    assert not Records(tmp_path / "c.jsonl").done


def campaign(tmp_path, seconds=60.0):
    return Campaign(
        machine=MACHINE, budget=replace(QUICK, seconds=0.01, max_seconds=0.1),
        records=Records(tmp_path / "c.jsonl"), environment={"cpu_model": "EPYC"},
        report=lambda _line: None, ends_at=time.monotonic() + seconds,
    )  # fmt: skip


def test_a_ladder_is_really_measured_and_resumed(tmp_path):
    first = campaign(tmp_path)
    assert run_ladder(first, LADDER, open_network("cifar10_cnn"))
    rows = read_file(tmp_path / "c.jsonl").measurements
    assert [row.trial.workload.batch_size for row in rows] == [1, 2]
    for row in rows:
        assert row.throughput_samples_per_second == pytest.approx(row.stage_rates["accelerator"])
    again = campaign(tmp_path)
    assert run_ladder(again, LADDER, open_network("cifar10_cnn"))
    assert again.measured == sum(row.status is Status.CONTAMINATED for row in rows)


def test_nothing_begins_when_the_minutes_are_used_up(tmp_path):
    assert not run_ladder(campaign(tmp_path, seconds=1), LADDER, open_network("cifar10_cnn"))
    assert not read_file_if_any(tmp_path)


def read_file_if_any(tmp_path):
    return list(tmp_path.iterdir())


def test_out_of_memory_is_a_result_and_the_campaign_goes_on(tmp_path, monkeypatch):
    def full(_engine, batch_size):
        raise torch.cuda.OutOfMemoryError(f"CUDA out of memory at {batch_size}")

    monkeypatch.setattr(running.TorchEngine, "batch", full)
    assert run_ladder(campaign(tmp_path), LADDER, open_network("cifar10_cnn"))
    (row,) = read_file(tmp_path / "c.jsonl").measurements
    assert row.status is Status.OUT_OF_MEMORY
    assert "CUDA out of memory at 1" in row.reason


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["gpu"], 1, "CPU build" if torch.version.cuda is None else ""),
        (["cpu", "--networks", "alexnett"], 2, "did you mean alexnet?"),
        (["cpu", "--networks", "alexnet", "--data", "/nonexistent"], 2, "no folder"),
    ],
)
def test_what_cannot_be_measured_is_one_line(arguments, code, said, capsys, tmp_path, monkeypatch):
    if torch.cuda.is_available() and arguments[0] == "gpu":
        pytest.skip("there is a GPU here")
    monkeypatch.chdir(tmp_path)
    assert command.main(arguments) == code
    told = capsys.readouterr().err.strip()
    assert said in told
    assert len(told.splitlines()) == 1


@pytest.mark.machine
@pytest.mark.slow
def test_the_command_goes_on_where_its_minutes_ended_and_writes_rows_that_can_be_imported(tmp_path):
    out = tmp_path / "deep" / "c.jsonl"
    arguments = ["cpu", "--quick", "--networks", "cifar10_cnn", "--out", str(out)]
    assert command.main([*arguments, "--minutes", "0.05"]) == 0
    assert command.main([*arguments, "--minutes", "4"]) == 0
    found = read_file(out)
    assert len(found.measurements) == 8
    assert not found.refused
    assert json.loads(out.read_text().splitlines()[0])["environment"]["versions"]["torch"]
