"""A campaign: which cells, when a ladder ends, and that nothing measured is ever lost."""

import json
import statistics
import sys
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import (
    MEASURABLE_PRECISIONS,
    ON_CPU,
    Accelerator,
    MemoryFormat,
    Precision,
    Stack,
    Status,
    Task,
)
from advisor.errors import DataError, MeasuringError
from advisor.infra.build.campaign import __main__ as command
from advisor.infra.build.campaign.cells import (
    BRIEF,
    FULL,
    QUICK,
    Ladder,
    Machine,
    Setting,
    host_resources,
    in_order,
    ladders,
    next_cell,
    pipeline_trials,
    synthetic_trial,
)
from advisor.infra.build.campaign.device import device_answer
from advisor.infra.build.campaign.records import Records
from advisor.infra.build.campaign.session import Campaign, measure_ladder, this_machine
from advisor.models.zoo.networks import NETWORKS, Kind, network_info
from advisor.models.zoo.opening import open_network
from advisor.sweeps.formats.files import read_file
from advisor.sweeps.planning.repeating import merged
from tests.sweeps.builders import PROFILE, measurement
from tests.sweeps.own_networks import own_network

MACHINE = Machine(accelerator=ON_CPU, resources=host_resources(4, 2, 16_000), gpu=None)
INFOS = in_order(NETWORKS.values())
FP32 = Setting(precision=Precision.FP32)


def ladder_of(info, budget=FULL, task=Task.INFERENCE, fingerprint=""):
    return Ladder(info=info, task=task, setting=FP32, batches=budget.batches, fingerprint=fingerprint)


LADDER = ladder_of(network_info("cifar10_cnn"))


def cell(batch_size, **changes):
    return measurement(trial=synthetic_trial(LADDER, batch_size, MACHINE, FULL), **changes)


def done(*rows):
    return {row.trial.trial_id: row for row in rows}


def next_size(*rows):
    trial = next_cell(LADDER, MACHINE, FULL, done(*rows))
    return trial and trial.workload.batch_size


FAULT = {"status": Status.FAILED, "step_seconds": (), "reason": "CUDA error: device-side assert"}


FULL_MEMORY = {"status": Status.OUT_OF_MEMORY, "step_seconds": (), "reason": "CUDA out of memory"}


@pytest.mark.parametrize(
    ("last", "following"), [({}, 32), (FULL_MEMORY, None), ({"step_seconds": (4.5, 5.0)}, None)]
)
def test_a_ladder_climbs_until_memory_ends_or_steps_get_long(last, following):
    assert next_size() == 1
    assert next_size(cell(1), cell(8, **last)) == following


@pytest.mark.parametrize("status", [Status.FAILED, Status.TIMED_OUT])
def test_a_fault_costs_one_cell_and_two_in_a_row_the_rest_of_the_ladder(status):
    fault = FAULT | {"status": status}
    assert next_size(cell(1), cell(8, **fault)) == 32
    assert next_size(cell(1), cell(8, **fault), cell(32)) == 128
    assert next_size(cell(1), cell(8, **fault), cell(32, **fault)) is None


def test_training_begins_with_the_smallest_batch_that_can_be_trained_on():
    infos = [network_info("deeplabv3_resnet50")]
    first = {ladder.task: ladder.batches[0] for ladder in ladders(infos, BRIEF, {})}
    assert first[Task.INFERENCE] == 1
    assert first[Task.TRAINING] == 8


def test_classifiers_of_images_come_first_and_fp32_before_any_other_setting():
    kinds = [info.kind for info in INFOS]
    assert kinds == sorted(kinds, key=lambda kind: kind is not Kind.IMAGE)
    settings = [ladder.setting for ladder in ladders(INFOS, FULL, {})]
    assert settings == sorted(settings, key=FULL.settings.index)
    assert settings[0] == FP32


def test_settings_beside_the_usual_one_are_measured_too():
    result = {ladder.setting for ladder in ladders(INFOS, FULL, {})}
    assert {setting.precision for setting in result} == set(MEASURABLE_PRECISIONS)
    assert Setting(precision=Precision.AMP, memory_format=MemoryFormat.CHANNELS_LAST) in result
    assert Setting(precision=Precision.BF16, stack=Stack.COMPILE) in result
    words = [network_info("bert_base")]
    formats = {ladder.setting.memory_format for ladder in ladders(words, FULL, {})}
    assert formats == {MemoryFormat.CONTIGUOUS}


def test_every_cell_is_another_trial_and_another_gpu_too():
    cells = [
        synthetic_trial(ladder, size, MACHINE, FULL).trial_id
        for ladder in ladders(INFOS, FULL, {})
        for size in ladder.batches
    ]
    assert len(set(cells)) == len(cells)
    other = replace(MACHINE, gpu="Tesla T4")
    assert synthetic_trial(LADDER, 1, other, FULL).trial_id not in cells


def test_a_cell_is_measured_for_ten_seconds_and_an_anchor_cell_for_a_minute():
    def seconds(machine, name):
        cells = (synthetic_trial(LADDER, size, machine, FULL) for size in LADDER.batches)
        return [cell.plan.get(name) for cell in cells]

    gpu = replace(MACHINE, accelerator=Accelerator.parse("cuda"))
    assert seconds(MACHINE, "measure_seconds") == [10.0, 10.0, 60.0, 10.0, 10.0]
    assert seconds(MACHINE, "warmup_seconds") == [None] * 5
    assert seconds(gpu, "warmup_seconds") == [None, None, 60.0, None, None]


def runs_of_anchor(*further):
    """The row of the anchor cell after its first run and these."""
    row = cell(32)
    for changes in further:
        row = merged(row, cell(32, **changes))
    return row


SPOILED = {"status": Status.CONTAMINATED}


@pytest.mark.parametrize(
    ("anchor", "following"),
    [
        (runs_of_anchor(), 32),
        (runs_of_anchor({}), 32),
        (runs_of_anchor({}, {}), None),
        (runs_of_anchor(SPOILED), 32),
        (runs_of_anchor(SPOILED, FAULT), None),
        (cell(32, **FAULT), None),
    ],
)
def test_an_anchor_cell_has_three_runs_after_the_rest_and_a_spoiled_one_is_not_made_up_for(anchor, following):
    assert next_size(cell(1), cell(8), cell(32)) == 128
    rest = [cell(size) for size in LADDER.batches if size != 32]
    assert next_size(*rest, anchor) == following


def test_steps_of_one_thread_are_in_its_cpu_seconds_only_where_that_is_planned():
    assert "clock" not in synthetic_trial(LADDER, 1, MACHINE, BRIEF).plan
    alone = replace(MACHINE, by_cpu_time=True)
    assert synthetic_trial(LADDER, 1, alone, BRIEF).plan["clock"] == "cpu_seconds"


def test_the_campaigns_language_model_has_the_weights_of_the_one_in_the_table():
    transformers = pytest.importorskip("transformers")
    network = open_network("infra/build/campaign/networks/language.py:pythia_1b")
    with torch.device("meta"):
        result = network.build()
    assert isinstance(result, transformers.GPTNeoXForCausalLM)
    assert sum(weights.numel() for weights in result.parameters()) == 1_011_781_632


def test_real_input_is_measured_up_to_the_vcpus_that_are_there():
    infos = [network_info("resnet50"), network_info("cifar10_cnn"), network_info("bert_base")]
    trials = pipeline_trials(infos, MACHINE, FULL, PROFILE, "/data")
    assert {trial.workload.network for trial in trials} == {"resnet50"}
    assert sorted({trial.resources.vcpus for trial in trials}) == [1, 2, 4]
    assert {t.resources.physical_cores for t in trials if t.resources.vcpus == 4} == {2}
    loaders = {(t.plan["loader_workers"], t.plan["prefetch_factor"]) for t in trials}
    assert loaders == {(1, 2), (2, 2), (4, 2), (1, 4), (2, 4)}


@given(st.data())
def test_a_kill_at_any_byte_loses_at_most_the_last_row(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("campaign") / "c.jsonl"
    records = Records(path)
    for size in (1, 2):
        records.append(cell(size))
    content = path.read_bytes()
    first = content.index(b"\n") + 1
    path.write_bytes(content[: data.draw(st.integers(first, len(content)))])
    again = Records(path)
    assert cell(1).trial.trial_id in again.done
    again.append(cell(4))
    assert not read_file(path).refused


def test_a_damaged_line_is_told_and_nothing_is_changed(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text("nonsense\n")
    with pytest.raises(DataError, match="line 1"):
        Records(path)
    assert path.read_text() == "nonsense\n"


def test_a_contaminated_cell_is_measured_again_in_the_next_run_but_not_in_this_one(tmp_path):
    records = Records(tmp_path / "c.jsonl")
    records.append(cell(1, status=Status.CONTAMINATED))
    assert records.done
    assert not Records(tmp_path / "c.jsonl").done


def campaign(tmp_path, seconds=300.0, **changes):
    values = {
        "machine": this_machine(ON_CPU, QUICK),
        "budget": replace(QUICK, seconds=0.01, max_seconds=0.1),
        "records": Records(tmp_path / "c.jsonl"),
        "report": lambda _line: None,
        "ends_at": time.monotonic() + seconds,
    }
    return Campaign(**{**values, **changes})


@pytest.mark.slow
def test_a_ladder_is_really_measured_and_resumed(tmp_path):
    first = campaign(tmp_path)
    ladder = ladder_of(network_info("cifar10_cnn"), QUICK)
    assert measure_ladder(first, ladder)
    rows = read_file(tmp_path / "c.jsonl").measurements
    assert [row.trial.workload.batch_size for row in rows] == [1, 2]
    for row in rows:
        step = statistics.fmean(row.step_seconds)
        assert row.stage_rates["accelerator"] == pytest.approx(row.trial.workload.batch_size / step)
    again = campaign(tmp_path)
    assert measure_ladder(again, ladder)
    assert again.measured == sum(row.status is Status.CONTAMINATED for row in rows)


@pytest.mark.slow
def test_the_three_runs_of_an_anchor_cell_are_one_row(tmp_path):
    anchors = replace(QUICK, batches=(2,), anchor_batch=2, anchor_seconds=0.2, seconds=0.01, max_seconds=0.1)
    ladder = ladder_of(network_info("cifar10_cnn"), anchors)
    assert measure_ladder(campaign(tmp_path, budget=anchors), ladder)
    assert len((tmp_path / "c.jsonl").read_text().splitlines()) in (1, 3)
    (row,) = read_file(tmp_path / "c.jsonl").measurements
    # Neighbours may spoil a run: then it is kept as an attempt, or the cell for another time.
    if row.status is Status.OK:
        assert 1 + len(row.repeats) + len(row.attempts) == 3


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import time; time.sleep(600)", "no answer within 0.5 s"),
        ("import os; os.abort()", "signal 6"),
        ("""print('{"error": "torch sees no CUDA device"}')""", "sees no CUDA device"),
    ],
)
def test_a_gpu_that_does_not_answer_ends_the_campaign_in_time(script, said):
    with pytest.raises(MeasuringError, match=said):
        device_answer(
            "name",
            command=(sys.executable, "-c", script),
            patience_seconds=0.5 if "sleep" in script else 60.0,
        )


def test_the_answer_about_the_gpu_is_read_past_other_lines():
    script = """print('[1]'); print('{"x": 1}'); print('{"name": "Tesla T4"}')"""
    assert device_answer("name", command=(sys.executable, "-c", script)) == "Tesla T4"


def test_nothing_begins_when_the_minutes_are_used_up(tmp_path):
    assert not measure_ladder(campaign(tmp_path, seconds=1), LADDER)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ("os.abort()", Status.FAILED),
        ("raise torch.cuda.OutOfMemoryError('CUDA out of memory')", Status.OUT_OF_MEMORY),
    ],
)
def test_what_ends_a_cells_process_costs_that_cell(fault, status, tmp_path):
    network = open_network(own_network(tmp_path, fault))
    batches = replace(QUICK, batches=(1, 2, 4), seconds=0.01, max_seconds=0.1)
    ladder = ladder_of(network.info, batches, fingerprint=network.fingerprint)
    assert measure_ladder(campaign(tmp_path, budget=batches), ladder)
    result = [row.status for row in read_file(tmp_path / "c.jsonl").measurements]
    first, ended, *larger = result
    assert ended is status
    # Out of memory ends the ladder: what is larger has none either.
    assert len(larger) == (status is Status.FAILED)
    # Other processes may spoil one of them.
    assert {first, *larger} <= {Status.OK, Status.CONTAMINATED}


@pytest.mark.slow
def test_a_cell_that_hangs_is_ended_and_recorded(tmp_path):
    network = open_network(own_network(tmp_path, "time.sleep(3600)"))
    ladder = replace(ladder_of(network.info, fingerprint=network.fingerprint), batches=(2,))
    assert measure_ladder(campaign(tmp_path, patience_seconds=-12.0), ladder)
    (row,) = read_file(tmp_path / "c.jsonl").measurements
    assert row.status is Status.TIMED_OUT


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
    expected = capsys.readouterr().err.strip()
    assert said in expected
    assert len(expected.splitlines()) == 1


@pytest.mark.machine
@pytest.mark.slow
def test_the_command_goes_on_where_its_minutes_ended_and_writes_rows_that_can_be_imported(tmp_path):
    out = tmp_path / "deep" / "c.jsonl"
    arguments = ["cpu", "--quick", "--networks", "cifar10_cnn", "--out", str(out)]
    assert command.main([*arguments, "--minutes", "0.05"]) == 0
    assert command.main([*arguments, "--minutes", "4"]) == 0
    read = read_file(out)
    assert len(read.measurements) == 8
    assert not read.refused
    assert json.loads(out.read_text().splitlines()[0])["environment"]["versions"]["torch"]
