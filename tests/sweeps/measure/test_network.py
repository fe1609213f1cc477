"""`measure_network`: a valid small document of what a network does here."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from advisor.domain import Precision, Task
from advisor.errors import MeasuringError, UsageError
from advisor.sweeps import measure as package
from advisor.sweeps.measure import measure_network
from advisor.sweeps.measure.document import RecordedSteps, anchor_of_script, best_run, goes_on
from tests.sweeps.builders import own_network
from tests.sweeps.cuda_standin import StandIn, installed
from tests.sweeps.machine.nvml_standin import GpuStandIn, nvml_with

pytestmark = pytest.mark.vector

SCHEMA = json.loads((Path(package.__file__).parent / "anchor.schema.json").read_text())


def validate(document):
    Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(document)))


def run(rate, *step_seconds):
    return {"samples_per_second": rate, "step_seconds": list(step_seconds)}


def test_the_ladder_goes_on_while_rates_rise_and_time_is_left():
    assert goes_on([], 0.0, 4)
    assert goes_on([run(10, 0.1), run(15, 0.13)], 10.0, 4)
    assert goes_on([run(10, 0.1), run(9.9, 0.2)], 10.0, 4)
    assert not goes_on([run(10, 0.1), run(9.0, 0.2)], 10.0, 4)
    assert not goes_on([run(10, 0.1), run(None)], 10.0, 4)
    assert not goes_on([run(10, 0.1)], 0.9, 4)
    assert best_run([run(None), run(2, 1.0), run(3, 1.0)])["samples_per_second"] == 3
    assert best_run([run(None)]) is None


@pytest.mark.machine
@pytest.mark.slow
def test_a_network_gives_a_valid_document():
    lines = []
    document = measure_network("cifar10_cnn", minutes=0.08, device="cpu", report=lines.append)
    validate(document)
    assert {entry["task"] for entry in document["runs"]} == {"inference", "training"}
    assert document["operators"]["inference"]
    assert document["captured"]["training"]["conv_3x3"]["flops_per_sample"] > 0
    assert any("not on a GPU" in warning for warning in document["warnings"])
    assert lines


class Lost(StandIn):
    """A GPU that never answers again once it is asked."""

    def synchronize(self, device=None):
        raise RuntimeError("CUDA error: device-side assert triggered")


def test_what_was_measured_before_the_gpu_was_lost_is_kept(tmp_path):
    fault = "raise RuntimeError('CUDA error: device-side assert triggered')"
    own = own_network(tmp_path, fault, when="self.training")
    kept = []
    with installed(Lost(step_seconds=0.002)):
        document = measure_network(own, minutes=0.05, keep=kept.append, profile=False)
    validate(document)
    *good, last = document["runs"]
    assert {(run["task"], run["status"]) for run in good} == {("inference", "ok")}
    assert (last["task"], last["status"]) == ("training", "failed")
    assert "stopped computing in training at batch 1" in document["warnings"][-1]
    assert [len(entry["runs"]) for entry in kept] == list(range(1, len(document["runs"])))


def test_steps_on_a_gpu_last_from_completion_to_completion_and_others_are_looked_at_before(
    tmp_path, monkeypatch
):
    """Where the host launches faster than the GPU computes, a step takes what the GPU takes."""
    own = own_network(tmp_path)
    with installed(StandIn(step_seconds=0.02)):
        document = measure_network(
            own, minutes=0.02, tasks=(Task.INFERENCE,), profile=False, batches={Task.INFERENCE: 2}
        )
    validate(document)
    (run,) = document["runs"]
    assert min(run["step_seconds"]) >= 0.0199
    assert run["gpu_state"] == {"gpu_sampling": "unavailable"}
    # Later its own last run would pass for others.
    nvml_with(monkeypatch, GpuStandIn(busy=[0, 99]))
    own = own_network(tmp_path)
    with installed(StandIn(step_seconds=0.002, uuid="6f6d")):
        document = measure_network(own, minutes=0.02, tasks=(Task.INFERENCE,), profile=False)
    validate(document)
    assert document["device"]["gpu_utilization_before_percent"] == 0
    states = [run["gpu_state"] for run in document["runs"]]
    assert all(state["gpu_samples"]["utilization_percent"]["max"] == 99 for state in states)
    assert not any("gpu_utilization_before_percent" in state for state in states)


@pytest.mark.slow
def test_tokens_are_counted_where_a_row_holds_several():
    document = measure_network(
        "lstm_ptb_small", minutes=0.05, device="cpu", tasks=(Task.INFERENCE,), precision=Precision.BF16
    )
    validate(document)
    first = document["runs"][0]
    assert first["samples_per_second"] * min(first["step_seconds"]) <= 20 * first["batch_size"]
    assert document["what"]["unit"] == "token"
    assert document["captured"] == {}


def test_images_for_a_network_that_takes_none_are_refused(tmp_path):
    with pytest.raises(UsageError, match="takes no images"):
        measure_network("lstm_ptb_small", data=tmp_path)


def recorded(rows, epochs=(), **changes):
    of_no_gpu = dict.fromkeys(("gpu", "gpu_peak_allocated_mib", "gpu_peak_reserved_mib"))
    facts = {"torch": "2.13.0", "threads": 2, "device": "cpu", **of_no_gpu}
    return RecordedSteps([list(row) for row in rows], list(epochs), facts | changes)


STEADY = [(0.1, 0.5, 16.0)] * 30


def test_a_scripts_rate_is_over_its_steps_and_each_run_stays_with_its_epochs():
    start, stall = [(0.0, 9.0, 16.0)] * 3, [(0.0, 10.0, 16.0)]
    document = anchor_of_script(["python", "train.py"], [recorded(start + STEADY + stall + STEADY)], 3.0)
    validate(document)
    run = document["runs"][0]
    seconds = sum(run["step_seconds"])
    assert run["samples_per_second"] == pytest.approx(16 * run["steps"] / seconds)
    assert max(run["step_seconds"]) == 10.0
    assert run["warmup_step_seconds"][:3] == [9.0] * 3
    short = anchor_of_script(["x"], [recorded(STEADY[:6])], 1.0)
    validate(short)
    assert any("only 6 steps" in warning for warning in short["warnings"])
    epochs = [
        {"first_step": 0, "gap_seconds": 0.0, "loader_start_seconds": 2.0},
        {"first_step": 9, "gap_seconds": 30.0, "loader_start_seconds": 1.0},
    ]
    document = anchor_of_script(["x"], [recorded(STEADY, epochs)] * 2, 1.0)
    validate(document)
    assert [run["gaps_seconds"] for run in document["runs"]] == [[30.0]] * 2
    assert document["runs"][0]["loader_start_seconds"] == [2.0, 1.0]


@pytest.mark.parametrize(
    ("rows", "said"), [([(0.0, 0.1, 8.0)] * 3, "too few"), ([(0.0, 0.1, 0.0)] * 5, "no tensor")]
)
def test_steps_that_tell_nothing_are_refused(rows, said):
    with pytest.raises(MeasuringError, match=said):
        anchor_of_script(["x"], [recorded(rows)], 1.0)
