"""The suite splits by GPU, scores what has a data sheet, and says what it leaves out."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest

from advisor.domain import Task
from benchmarks.accuracy.data_sheets import find_sheet, read_gpus
from benchmarks.accuracy.figures import NothingToScore
from benchmarks.accuracy.lambda_rows import read_lambda, software_of
from benchmarks.accuracy.new_gpu import Split, by_name, by_rates, run
from tests.models.performance.datasheet.rates import CARDS, gpu, rows

SHEET_COLUMNS = (
    "gpu", "vendor", "architecture", "compute_capability", "memory_gb",
    "memory_bandwidth_gb_s", "fp32_tflops", "tf32_dense_tflops", "fp16_dense_tflops",
    "bf16_dense_tflops",
)  # fmt: skip
RATE_COLUMNS = (
    "system", "data", "update", "precision", "num_gpus", "phase", "model", "batch_size_total",
    "images_per_sec",
)  # fmt: skip


def write(path, columns, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(records)


def folder(path, cards=tuple(CARDS), extra=()):
    """A directory of the benchmark's layout, with rates that follow the form."""
    sheets = [
        (name, "NVIDIA", sheet.architecture, sheet.compute_capability, 16,
         sheet.memory_gb_per_second, sheet.fp32_tflops, "", sheet.fp16_tflops or "", "")
        for name, sheet in ((name, gpu(name)) for name in CARDS)
    ]  # fmt: skip
    rates = [
        (f"host-{row.gpu_name}", "syn", "replicated", row.precision.replace("half", "fp16"), 1,
         "train" if row.task == Task.TRAINING else "inference", row.network, 64,
         row.samples_per_second)
        for row in rows(cards=cards, compiled=(False,))
    ]  # fmt: skip
    write(path / "catalog/gpu_specs.csv", SHEET_COLUMNS, sheets)
    rates_path = path / "perfmodel/lambda_tf/lambda_tf_cnn_benchmarks.csv"
    write(rates_path, RATE_COLUMNS, [*rates, *extra])
    return path


def test_one_directory_leaves_one_gpu_out_at_a_time(tmp_path):
    result = run(folder(tmp_path), tmp_path)
    document = result.as_document()
    assert document["n"] == len(CARDS) * 16
    assert set(document["by_gpu"]) == set(CARDS)
    names = {variant["name"] for variant in document["variants"]}
    assert {"all vendors", "leave one architecture out", "one calibration run"} <= names
    assert result.main.mape_percent < min(one.mape_percent for one in result.baselines)
    json.dumps(document, allow_nan=False)


def test_scored_gpus_are_never_fitted():
    every = tuple(rows(compiled=(False,)))
    for together in (True, False):
        score = every if together else tuple(row for row in every if row.gpu_name == "third")
        for rest, own in Split(every, score, together).folds(by_name):
            assert not {row.gpu_name for row in rest} & {row.gpu_name for row in own}


def test_cards_of_the_same_rates_leave_together():
    every = rows(cards=("first", "second", "third"), compiled=(False,))
    twins = [replace(row, gpu_name="twin") for row in every if row.gpu_name == "third"]
    both = (*every, *twins)
    for rest, own in Split(both, both, True).folds(by_rates):
        names = {row.gpu_name for row in own}
        assert len(names) == (2 if "twin" in names else 1)
        assert not names & {row.gpu_name for row in rest}


def test_two_directories_with_dirty_rows_and_unknown_names(tmp_path):
    train = folder(tmp_path / "train")
    unknown = [
        ("host-third", "syn", "replicated", "fp32", 1, "train", "unheard", 64, 10.0),
        ("host-third", "syn", "replicated", "fp32", 1, "train", "small", 64, "nan"),
        ("host-third", "syn", "replicated", "fp32", 1, "train", "small", 64, -1),
        ("host-nobody_knows", "syn", "replicated", "fp32", 1, "train", "small", 64, 10.0),
    ]
    score = folder(tmp_path / "score", cards=("third",), extra=unknown)
    result = run(train, score)
    assert result.main.n == 16
    said = " | ".join(result.skipped)
    assert "2 rows" in said
    assert "unheard" in said
    assert "nobody_knows" in said


def test_missing_files_say_so(tmp_path):
    with pytest.raises(NothingToScore, match="gpu_specs"):
        run(tmp_path, tmp_path)
    (folder(tmp_path) / "perfmodel/lambda_tf/lambda_tf_cnn_benchmarks.csv").unlink()
    with pytest.raises(NothingToScore, match="lambda_tf_cnn_benchmarks"):
        run(tmp_path, tmp_path)


def test_a_single_gpu_leaves_nothing_to_fit_on(tmp_path):
    with pytest.raises(NothingToScore, match="another GPU"):
        run(folder(tmp_path, cards=("third",)), tmp_path)


@pytest.mark.parametrize(
    ("measured", "sheet"),
    [
        ("GeForce RTX 2080 Ti", "RTX 2080 Ti"),
        ("GeForce_RTX_2080_Ti_NVLink_XLA_trt2_TF1_15", "RTX 2080 Ti"),
        ("GeForce RTX 2080 Super with Max-Q Design", None),
        ("Tesla V100-SXM3-32GB", "V100-SXM2-32GB"),
        ("Tesla V100-SXM2-16GB", "V100-SXM2-16GB"),
        ("NVIDIA H100 80GB HBM3", None),
        ("Radeon Pro VII", None),
    ],
)
def test_data_sheets_are_found_by_what_drivers_call_a_card(measured, sheet):
    names = ("RTX 2080", "RTX 2080 Ti", "V100-SXM2-16GB", "V100-SXM2-32GB", "H100-PCIE-80GB",
             "H100-SXM5-80GB")  # fmt: skip
    found = find_sheet(measured, {name: named(name) for name in names})
    assert (found.name if found else None) == sheet


def named(name):
    """A sheet whose name alone matters."""
    return replace(gpu("third"), name=name)


def test_tf32_is_on_where_the_stack_turns_it_on():
    assert software_of("x-A100", {"TF": "1.15.4", "CUDA": "V11.1.74"}).tf32
    assert software_of("x-A100", {"TF": "2.4.1", "CUDA": "V11.1.105"}).tf32
    assert not software_of("x-A100_TF2_3", {"TF": "2.3.0", "CUDA": "V11.0.221"}).tf32
    assert not software_of("x-V100_XLA_TF2_2", {}).tf32
    assert software_of("x-V100_XLA_TF2_2", {}).compiled


def test_the_median_of_runs_is_one_row(tmp_path):
    again = [("host-third", "syn", "replicated", "fp32", 1, "train", "odd", 64, rate)
             for rate in (10.0, 30.0, 11.0)]  # fmt: skip
    path = folder(tmp_path, cards=("third",), extra=again)
    found = read_lambda(path, read_gpus(path))
    assert [row.samples_per_second for row in found.rows if row.network == "odd"] == [11.0]
