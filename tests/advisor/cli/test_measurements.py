import json
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from advisor.cli.measurements import measurements
from advisor.domain import Status
from advisor.errors import DataError
from advisor.render.schema_check import first_fault
from advisor.store.measurements import open_store
from advisor.sweeps.formats.exporting import to_jsonl
from tests.sweeps.builders import measurement, resources, trial


def ask(*arguments):
    result = CliRunner().invoke(measurements, list(map(str, arguments)))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def rows():
    failed, today = trial(resources=resources(memory_mib=512.0)), datetime.now(UTC).isoformat()
    rows = [
        measurement(started_at=today),
        measurement(
            trial=failed, status=Status.OUT_OF_MEMORY, step_seconds=(), reason="killed", started_at=today
        ),
    ]
    for row in rows:
        open_store().append_all([row])
    return rows


def test_an_empty_store_says_so():
    assert "Nothing measured yet" in ask("list")
    assert ask("export") == ""


def test_the_list_has_failed_trials_too(rows):
    listed = json.loads(ask("list", "-o", "json"))["measurements"]
    assert [row["status"] for row in listed] == ["ok", "out_of_memory"]
    assert "out of memory" in ask("list")


def test_the_lists_json_is_what_its_schema_says(rows):
    for words in ((), ("--spread",)):
        document = json.loads(ask("list", "-o", "json", *words))
        assert first_fault(document, document["schema"]) is None


def test_the_check_names_what_is_weak_and_what_to_do(rows):
    document = json.loads(ask("check", "-o", "json"))
    assert (document["measurements"], document["weak"]) == (2, 1)
    assert [one["kind"] for one in document["checked"][0]["weak"]] == ["few steps"]
    assert "--iterations" in ask("check")


def test_the_check_says_which_rates_have_a_borrowed_spread(rows):
    """One run shows nothing of how far runs differ; a failed trial has no rate at all."""
    assert "1 have one run" in ask("check")
    repeated = measurement(
        trial=trial(resources=resources(memory_mib=2048.0)),
        step_seconds=(0.1,) * 60,
        repeats=({"step_seconds": [0.1] * 60},),
    )
    open_store().append_all([repeated])
    assert "1 have one run" in ask("check")


def test_the_list_has_the_median_and_the_interval_of_the_next_run_beside_the_rate(rows):
    first, failed = json.loads(ask("list", "--spread", "-o", "json"))["measurements"]
    assert first["median_samples_per_second"] > 0
    assert first["runs"] == 1
    assert set(first["spread"]) >= {"lower", "upper", "stall_share", "median_samples_per_second"}
    assert failed["stall_share"] is failed["median_samples_per_second"] is None


def test_a_place_that_cannot_be_written_is_told(rows, tmp_path):
    with pytest.raises(DataError, match="cannot write"):
        ask("export", "--out", tmp_path / "no" / "such" / "folder.csv")


def test_an_import_takes_an_export_once(rows, tmp_path, monkeypatch):
    ask("export", "--out", tmp_path / "all.jsonl")
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{tmp_path}/other.sqlite")
    assert "2 measurements added" in ask("import", tmp_path / "all.jsonl")
    assert open_store().all() == rows
    assert "0 measurements added" in ask("import", tmp_path / "all.jsonl")
    assert open_store().all() == rows


def test_bad_lines_are_told_by_number_and_the_good_ones_are_stored(rows, tmp_path, monkeypatch):
    text = ask("export")
    (tmp_path / "bad.jsonl").write_text(f"nonsense\n{text}[]\n")
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{tmp_path}/other.sqlite")
    result = CliRunner().invoke(measurements, ["import", str(tmp_path / "bad.jsonl")])
    assert isinstance(result.exception, DataError)
    assert "line 1: " in result.stderr
    assert "line 4: " in result.stderr
    assert open_store().all() == rows


def test_an_import_mends_a_failed_row_and_touches_no_good_one(rows, tmp_path):
    mended = measurement(trial=rows[1].trial)
    other = measurement(step_seconds=(9.0,))
    (tmp_path / "more.jsonl").write_text(to_jsonl([mended, other]))
    assert "1 replaced failed ones, 1 were stored" in ask("import", tmp_path / "more.jsonl")
    assert open_store().all() == [rows[0], mended]


def test_a_database_that_may_not_be_looked_at_is_named_with_the_way_out(monkeypatch, tmp_path):
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{tmp_path}/{'x' * 300}")
    with pytest.raises(DataError, match="cannot read the database") as refused:
        ask("list")
    assert "ADVISOR_DATABASE_URL" in str(refused.value.hint)
