"""`measure_network`: a valid small document of what a network does here."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from advisor.domain import Precision, Task
from advisor.errors import MeasuringError, UsageError
from sweeps.anchors import measure as package
from sweeps.anchors.measure import measure_network
from sweeps.anchors.measure.document import anchor_of_script, best_run, goes_on

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


def test_the_best_run_is_the_fastest_that_has_a_rate():
    assert best_run([run(None), run(2, 1.0), run(3, 1.0)])["samples_per_second"] == 3
    assert best_run([run(None)]) is None


@pytest.mark.machine
@pytest.mark.slow
def test_a_network_gives_a_valid_document():
    told = []
    found = measure_network("cifar10_cnn", minutes=0.08, device="cpu", report=told.append)
    validate(found)
    assert {one["task"] for one in found["runs"]} == {"inference", "training"}
    assert found["operators"]["inference"]
    assert found["captured"]["training"]["conv_3x3"]["flops_per_sample"] > 0
    assert any("not on a GPU" in warning for warning in found["warnings"])
    assert told


@pytest.mark.slow
def test_tokens_are_counted_where_a_row_holds_several():
    found = measure_network(
        "lstm_ptb_small", minutes=0.05, device="cpu", tasks=(Task.INFERENCE,),
        precision=Precision.BF16,
    )  # fmt: skip
    validate(found)
    first = found["runs"][0]
    assert first["samples_per_second"] * min(first["step_seconds"]) <= 20 * first["batch_size"]
    assert found["what"]["unit"] == "token"
    assert found["captured"] == {}


def test_what_cannot_be_asked_is_refused(tmp_path):
    with pytest.raises(UsageError, match="did you mean alexnet"):
        measure_network("alexnett")
    with pytest.raises(UsageError, match="takes no images"):
        measure_network("lstm_ptb_small", data=tmp_path)


def recorded(counted, warmup=(), **changes):
    return {
        "counted": [list(row) for row in counted],
        "warmup": [list(row) for row in warmup],
        "counted_seconds": 2.0,
        "torch": "2.13.0",
        "threads": 2,
        "device": "cpu",
        "gpu": None,
        "gpu_peak_allocated_mib": None,
        "gpu_peak_reserved_mib": None,
    } | changes


def test_a_scripts_rate_is_its_samples_over_the_counted_seconds():
    found = anchor_of_script(["python", "train.py"], recorded([(0.1, 0.4, 16.0)] * 5), 3.0)
    validate(found)
    assert found["runs"][0]["samples_per_second"] == 16 * 5 / 2.0
    assert found["runs"][0]["waited_seconds"] == [0.1] * 5


def test_a_short_script_is_measured_by_its_later_half_and_told():
    found = anchor_of_script(
        ["x"], recorded([], [(0.0, 9.0, 8.0)] * 2 + [(0.0, 0.5, 8.0)] * 2), 1.0
    )
    validate(found)
    assert found["runs"][0]["samples_per_second"] == 16.0
    assert any("only 4 steps" in warning for warning in found["warnings"])


@pytest.mark.parametrize(
    ("rows", "said"),
    [([(0.0, 0.1, 8.0)] * 3, "too few"), ([(0.0, 0.1, 0.0)] * 5, "no tensor")],
)
def test_steps_that_tell_nothing_are_refused(rows, said):
    with pytest.raises(MeasuringError, match=said):
        anchor_of_script(["x"], recorded(rows), 1.0)
