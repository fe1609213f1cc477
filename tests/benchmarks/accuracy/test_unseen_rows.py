"""Rows that nobody has seen: damaged files are read as far as they go, and what fails is said."""

from __future__ import annotations

import pytest

from benchmarks.accuracy import __main__ as benchmark
from benchmarks.accuracy.figures import NothingToScore


@pytest.mark.parametrize("suite", benchmark.SUITES)
def test_a_suite_without_rows_says_so(tmp_path, suite):
    document = benchmark.run_suites(tmp_path, tmp_path, (suite,))
    assert [one["suite"] for one in document["skipped_suites"]] == [suite]
    assert "failed" not in document["skipped_suites"][0]["reason"]


def test_a_suite_that_fails_costs_only_its_own_figures(monkeypatch, tmp_path, capsys):
    def fail(train, score):
        raise ZeroDivisionError("no rows")

    def nothing(train, score):
        raise NothingToScore("no file")

    monkeypatch.setattr("benchmarks.accuracy.search.run", fail)
    monkeypatch.setattr("benchmarks.accuracy.gpu_memory.run", nothing)
    document = benchmark.run_suites(tmp_path, tmp_path, ("search", "gpu_memory"))
    reasons = [one["reason"] for one in document["skipped_suites"]]
    assert reasons == ["failed: ZeroDivisionError: no rows", "no file"]
    assert "Traceback" in capsys.readouterr().err
