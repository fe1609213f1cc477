"""Rows that nobody has seen: damaged files are read as far as they go, and what fails is said."""

from __future__ import annotations

import pytest

from benchmarks.accuracy import __main__ as benchmark
from benchmarks.accuracy import data_stall
from benchmarks.accuracy.data_sheets import read_data_sheets
from benchmarks.accuracy.figures import NothingToScore
from benchmarks.accuracy.lambda_rows import read_lambda
from tests.benchmarks.accuracy.test_new_gpu import SHEET_COLUMNS, folder, write
from tests.models.performance.datasheet.rates import gpu, rows

SHEET = ("Card", "NVIDIA", "Turing", "7.5", "16", "320", "8", "", "65", "")
STALL_COLUMNS = ("system", "n_gpu", "precision", "task", "model", "syn_ips", "real_ips")


def stall_rows(host):
    probe = (host, 1, "fp16", "inference", "alexnet", 4000, 1000)
    tasks = [("training", 500), ("inference", 900)]
    return [probe, *((host, 1, "fp16", task, "resnet50", rate, rate / 2) for task, rate in tasks)]


@pytest.mark.parametrize("memory", ["inf", "nan", "-5", "oops", ""])
def test_a_sheet_without_a_usable_number_is_left_out(tmp_path, memory):
    damaged = ("Broken", *SHEET[1:4], memory, *SHEET[5:])
    write(tmp_path / "catalog/gpu_specs.csv", SHEET_COLUMNS, [SHEET, damaged])
    assert list(read_data_sheets(tmp_path)) == ["Card"]


@pytest.mark.parametrize("count", ["oops", "", "1e400"])
def test_a_damaged_stall_row_costs_only_itself(tmp_path, count):
    rows = [row for host in ("one-a", "two-b") for row in stall_rows(host)]
    damaged = ("one-a", count, "fp16", "training", "vgg16", 300, 100)
    path = tmp_path / "articles/input_pipeline_real_vs_synthetic.csv"
    write(path, STALL_COLUMNS, [*rows, damaged])
    result = data_stall.run(tmp_path, tmp_path)
    assert result.main.n == 4
    assert any("without rates" in text for text in result.skipped)


@pytest.mark.parametrize("column", [4, 7, 8])
@pytest.mark.parametrize("value", ["oops", "inf", "-1", ""])
def test_a_damaged_rate_row_costs_only_itself(tmp_path, column, value):
    damaged = ["host-old", "syn", "replicated", "fp32", 1, "train", "small", 64, 100.0]
    damaged[column] = value
    found = read_lambda(folder(tmp_path, cards=("old",), extra=[damaged]), {"old": gpu("old")})
    assert len(found.rows) == len(rows(cards=("old",), compiled=(False,)))


@pytest.mark.parametrize("suite", benchmark.SUITES)
def test_files_with_columns_and_no_rows_are_said(tmp_path, suite):
    write(tmp_path / "catalog/gpu_specs.csv", SHEET_COLUMNS, [SHEET])
    document = benchmark.run_suites(tmp_path, tmp_path, (suite,))
    assert [one["suite"] for one in document["skipped_suites"]] == [suite]
    assert "failed" not in document["skipped_suites"][0]["reason"]


def test_a_suite_that_fails_costs_only_its_own_figures(monkeypatch, tmp_path, capsys):
    def fail(train, score):
        raise ZeroDivisionError("no rows")

    def nothing(train, score):
        raise NothingToScore("no file")

    monkeypatch.setattr("benchmarks.accuracy.new_gpu.run", fail)
    monkeypatch.setattr("benchmarks.accuracy.data_stall.run", nothing)
    document = benchmark.run_suites(tmp_path, tmp_path, ("new_gpu", "data_stall"))
    reasons = [one["reason"] for one in document["skipped_suites"]]
    assert reasons == ["failed: ZeroDivisionError: no rows", "no file"]
    assert "Traceback" in capsys.readouterr().err
