"""What a user's file holds, and why a row of it is no anchor."""

import json
import math
import random
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog.gpus import sheet_of
from advisor.domain import (
    STEP_SIGMA,
    DatasetProfile,
    LimitedBy,
    MemoryFormat,
    Precision,
    Stack,
    Status,
    Task,
    Tf32,
)
from advisor.errors import UsageError
from advisor.models.performance import paced_gpu
from advisor.sweeps.anchors import observed, read_anchor
from advisor.sweeps.formats import measurement_to_dict
from advisor.sweeps.quality.rates import rate_interval
from tests.rows import table
from tests.sweeps.builders import measurement, trial

SYNTHETIC = DatasetProfile(
    name="synthetic", samples=1, bytes_per_sample=602112.0, storage_format="synthetic", width=224, height=224
)

TABLES = table("sweeps")
SHEETS = {name: paced_gpu(name) for name in ("T4", "L4")}


sheet = partial(sheet_of, sheets=SHEETS)


def a_run(**changes):
    return {**TABLES["anchor_run"], **changes}


def a_document(*runs, what=None, device=None, **changes):
    usual = TABLES["anchor"]
    parts = {"what": usual["what"] | (what or {}), "device": usual["device"] | (device or {})}
    return {**usual, **parts, "runs": list(runs) or [a_run()], **changes}


PLAIN = {"gpu": "Tesla T4", "versions": {"torch": "2.13.0"}}


def a_measurement(accelerator="cuda", status=Status.OK, dataset=SYNTHETIC, **changes):
    emulated = 0.1 if accelerator.startswith("emulated:") else None
    how = {"accelerator": accelerator, "emulated_step_seconds": emulated, "plan": {"gpu": "Tesla T4"}}
    planned = trial(network="my_net", task=Task.TRAINING, batch_size=16, dataset=dataset, **how)
    values = {"trial": planned, "status": status, "reason": "" if status is Status.OK else "it ended badly"}
    values |= {"environment": {**PLAIN, "gpu_peak_reserved_mib": 700.0}, "step_seconds": (0.125,) * 6}
    return measurement(**{"limited_by": LimitedBy.HOST, **values, **changes})


@pytest.fixture
def written(tmp_path):
    def read(*parts):
        path = tmp_path / "file"
        rows = [p if isinstance(p, dict) else measurement_to_dict(p) for p in parts]
        path.write_text("\n".join(json.dumps(row) for row in rows))
        return read_anchor(path, sheet, Precision.AMP)

    return read


def test_a_document_of_measure_gives_a_row_for_each_batch_size_with_the_spread_between_its_runs(written):
    document = written(a_document(a_run(batch_size=8, step_seconds=[0.1] * 4), a_run()))
    assert [(row.workload.batch_size, row.seconds) for row in document.observations] == [(8, 0.1), (32, 0.25)]
    entry = document.observations[0]
    of = entry.workload
    assert (of.network, of.task, of.precision) == ("net.py:build", Task.TRAINING, Precision.FP32)
    assert (of.input, document.input_shape) == ("3x224x224", (3, 224, 224))
    assert (entry.gpu.name, entry.peak_mib) == ("T4", 1000.0)
    seconds = (0.2, 0.25, 0.3)
    document = written(a_document(*(a_run(step_seconds=[second] * 5) for second in seconds)))
    (row,) = document.observations
    assert row.seconds == pytest.approx(0.25)
    assert row.sigma > STEP_SIGMA
    alike = written(a_document(*(a_run() for _ in range(3))))
    assert alike.observations[0].sigma == STEP_SIGMA
    ended = a_run(status="out_of_memory", step_seconds=[], samples_per_second=None)
    document = written(a_document(a_run(), ended))
    assert not document.refused[0].is_notable


@pytest.mark.parametrize("accelerator", ["cuda", "cuda:T4"])
def test_measurements_of_a_campaign_are_rows(written, accelerator):
    """Those that name their GPU were refused: "it was measured on cuda:T4, not on a GPU"."""
    entry = written(a_measurement(accelerator)).observations[0]
    assert (entry.workload.network, entry.workload.batch_size, entry.seconds) == ("my_net", 16, 0.125)
    assert (entry.gpu, entry.peak_mib) == (SHEETS["T4"], 700.0)


@pytest.mark.parametrize(
    ("facts", "tf32"),
    [
        ({"tf32_convolutions": False}, Tf32.OFF),
        ({"tf32_convolutions": False, "float32_matmul_precision": "high"}, Tf32.ON),
        ({"variables": {"NVIDIA_TF32_OVERRIDE": "0"}}, Tf32.OFF),  # as the driver was told
    ],
)
def test_tf32_is_as_torch_and_the_driver_were_set(facts, tf32):
    """And stack and memory format as planned, not as the question has them."""
    row = a_measurement(environment=PLAIN | facts)
    planned = replace(row.trial.workload, stack=Stack.COMPILE, memory_format=MemoryFormat.CHANNELS_LAST)
    of = observed(replace(row, trial=replace(row.trial, workload=planned)), "", sheet).workload
    assert of.tf32 is tf32
    assert (of.stack, of.memory_format) == (Stack.COMPILE, MemoryFormat.CHANNELS_LAST)


@pytest.mark.parametrize("setting", ["cudnn_benchmark", "synchronise_each_step"])
def test_a_row_of_settings_that_no_answer_assumes_is_no_observation(setting):
    row = a_measurement()
    planned = replace(row.trial, plan={**row.trial.plan, setting: True})
    assert setting in observed(replace(row, trial=planned), "", sheet).reason


def test_a_row_of_several_gpus_tells_the_step_of_one_alone_and_never_their_common_step():
    """Its rate of the accelerator is that of all, each at the pace that one has alone. It has the exchange of
    gradients in it; of a row without one GPU's own run nothing is known, where of one GPU the main run on
    made batches would stand for that."""
    row = a_measurement(stage_rates={"accelerator": 64.0})
    four = replace(row.trial, resources=replace(row.trial.resources, gpu_count=4))
    observation = observed(replace(row, trial=four, stage_rates={"accelerator": 4 * 64.0}), "", sheet)
    assert observation.seconds == observed(row, "", sheet).seconds == 0.25
    assert observation.workload == row.trial.workload
    row = a_measurement()
    assert row.stage_rates == {}
    four = replace(row.trial, resources=replace(row.trial.resources, gpu_count=4))
    assert observed(row, "", sheet).seconds > 0
    assert "alone" in observed(replace(row, trial=four), "", sheet).reason


SLICE = {"gpu": "NVIDIA L4", "gpu_memory_mib": 22574.0, "gpu_sm_count": 29}


@pytest.mark.parametrize(
    "facts", [{"gpu": "GRID T4-16Q"}, {"gpu": "Tesla T4", "gpu_memory_mib": 7680.0}, SLICE]
)
def test_a_slice_of_a_card_is_no_anchor_of_the_card(written, facts):
    document = written(a_measurement(environment={**facts, "versions": {"torch": "2"}}))
    assert not document.observations
    assert "is a slice" in document.refused[0].reason
    assert "is a slice" in written(a_document(device=facts)).refused[0].reason


def test_where_a_loader_is_waited_for_only_the_networks_own_rate_counts(written):
    real = replace(SYNTHETIC, name="photos", storage_format="jpeg-files")
    slow = a_measurement(dataset=real, step_seconds=(9.0,) * 6)
    assert written(slow).observations == ()
    expected = a_measurement(dataset=real, step_seconds=(9.0,) * 6, stage_rates={"accelerator": 64.0})
    assert written(expected).observations[0].seconds == 0.25
    # Its precision, which it does not name, is the one that is asked for.
    entry = written(a_script(samples_per_second=100.0)).observations[0]
    assert (entry.workload.network, entry.workload.precision) == ("", Precision.AMP)
    assert entry.seconds == pytest.approx(32 / 100)
    document = a_script()
    document["runs"][0]["waited_seconds"] = [0.1] * 5
    result = written(document)
    assert result.observations == ()
    assert "waited 40 %" in result.refused[0].reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"accelerator": "emulated:T4"}, "emulated:T4"),
        ({"environment": {"gpu": "T4", "replayed_from": "rows.csv"}}, "replayed"),
        ({"accelerator": "cpu"}, "on cpu"),
        ({"status": Status.CONTAMINATED}, "contaminated"),
        ({"status": Status.FAILED, "step_seconds": ()}, "failed"),
        ({"environment": {"gpu": "T4", "versions": {"tensorflow": "2"}}}, "PyTorch"),
        ({"environment": {"gpu": "T4"}}, "PyTorch"),
        ({"environment": {"gpu": "GPU X", "versions": {"torch": "2"}}}, "no data sheet of the GPU 'GPU X'"),
        ({"step_seconds": (0.1,)}, "too few"),
        ({"environment": {**PLAIN, "gpu_other_processes": 1}}, "other processes"),
        ({"environment": {**PLAIN, "gpu_throttle_reasons": {"hw_thermal_slowdown": 0.5}}}, "clocks"),
    ],
)
def test_what_was_not_pytorch_on_a_real_gpu_is_no_anchor(written, changes, reason):
    document = written(a_measurement(**changes))
    assert document.observations == ()
    assert reason in document.refused[0].reason


@pytest.mark.parametrize(
    "changes",
    [
        *({"step_seconds": [0.1, second, 0.1]} for second in (-0.1, 0, math.nan, math.inf, "fast")),
        *({"step_seconds": [0.1]}, {"step_seconds": []}, {"batch_size": 0}, {"batch_size": 2.5}),
        *({"gpu_peak_reserved_mib": -5}, {"gpu_state": {"gpu_other_processes": 1}}),
        {"gpu_state": {"gpu_throttle_reasons": {"hw_slowdown": 0.2}}},
    ],
)
def test_impossible_runs_are_refused_and_the_others_kept(written, changes):
    document = written(a_document(a_run(**changes), a_run()))
    assert len(document.observations) == 1
    assert document.refused[0].is_notable
    assert "run 1" in document.refused[0].origin


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (a_document(machine={"versions": {}}), "PyTorch"),
        (a_document(what={"unit": "token"}), "tokens"),
        (a_document(what={"input_shape": [128]}), "no RGB image"),
        (a_document(schema="advisor.probe/1"), "advisor.probe/1"),
        (a_document(runs=7), "TypeError"),
        ({"schema": "advisor.anchor/1"}, "KeyError"),
        (a_document(a_run(task="sleeping")), "sleeping"),
        ({"a": 1}, "no anchor"),
    ],
)
def test_other_files_are_refused_with_the_way_out(written, document, words):
    with pytest.raises(UsageError, match=words) as caught:
        written(document)
    assert "--anchor takes" in str(caught.value)
    with pytest.raises(UsageError, match=r"on a CPU.*on a machine with an NVIDIA GPU"):
        written(a_document(device={"kind": "cpu", "gpu": None}))


def test_an_empty_file_and_a_missing_one_are_refused(tmp_path):
    (tmp_path / "empty").touch()
    for name in ("empty", "missing"):
        with pytest.raises(UsageError, match="--anchor takes"):
            read_anchor(tmp_path / name, sheet, Precision.FP32)


def a_script(**changes):
    what = {"kind": "script", "command": ["train.py"], "unit": "sample"}
    run = a_run(precision=None, input="loader", waited_seconds=[0.001] * 5, **changes)
    document = a_document(run, what=what, device={"torch": "2.13.0"})
    del document["what"]["name"], document["what"]["input_shape"]
    return document


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda some: st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=5), some, max_size=3),
    max_leaves=8,
)


PARTS, FIELDS = (
    st.sampled_from(each) for each in (["what", "device", "machine", "runs", "captured"], [*a_run()])
)
DOCUMENT = st.builds(lambda key, value: a_document() | {key: value}, PARTS, JSON)
OF_A_RUN = st.builds(lambda key, value: a_document(a_run(**{key: value})), FIELDS, JSON)


@given(DOCUMENT | OF_A_RUN)
def test_whatever_stands_in_a_document_or_a_run_is_read_or_refused(tmp_path_factory, document):
    path = tmp_path_factory.mktemp("any") / "file"
    path.write_text(json.dumps(document))
    with suppress(UsageError):
        rows = read_anchor(path, sheet, Precision.FP32).observations
        assert all(row.gpu.name and 0 < row.seconds < math.inf for row in rows)


def test_an_anchors_error_is_that_of_the_gpus_own_steps_where_the_row_has_them():
    """A loader that bunches steps says nothing of the GPU's; rows of before have nothing else."""
    draw, alone = random.Random(0), [0.125, 0.126] * 40
    steps, files = (
        tuple(draw.expovariate(5) for _ in range(80)),
        replace(SYNTHETIC, storage_format="jpeg-files"),
    )
    row = a_measurement(dataset=files, step_seconds=steps, stage_rates={"accelerator": 128.0})
    facts = {**row.environment, "stage_runs": {"accelerator": {"step_seconds": alone}}}
    before = observed(row, "", sheet)
    assert before.sigma == rate_interval(row).standard_error > STEP_SIGMA
    assert observed(replace(row, environment=facts), "", sheet).sigma == STEP_SIGMA
    uneven = {"accelerator": {"step_seconds": [0.1, 0.2, 0.1, 0.15, 0.3, 0.12]}}
    worse = observed(replace(row, environment=facts | {"stage_runs": uneven}), "", sheet)
    assert worse.sigma > 0.1
