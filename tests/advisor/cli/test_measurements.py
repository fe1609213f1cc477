"""Commands that read the store: damage is told and hides nothing, and nothing is changed."""

import json
from contextlib import closing
from datetime import UTC, datetime

import pytest

from advisor.domain import Status
from advisor.store.measurements import open_store
from advisor.sweeps.datasets.making import write_samples
from advisor.sweeps.formats import to_jsonl
from tests.advisor.store.test_faults import execute
from tests.sweeps.builders import measurement, resources, trial


@pytest.fixture
def measurements(shown):
    return lambda *words, code=0: shown("measurements", *words, code=code)


@pytest.fixture
def rows():
    failed, today = trial(resources=resources(memory_mib=512.0)), datetime.now(UTC).isoformat()
    killed = {"status": Status.OUT_OF_MEMORY, "step_seconds": (), "reason": "killed"}
    rows = [measurement(started_at=today), measurement(trial=failed, started_at=today, **killed)]
    for row in rows:
        open_store().append_all([row])
    return rows


def test_an_empty_store_says_so(measurements):
    assert "Nothing measured yet" in measurements("list")
    assert measurements("export") == ""


def test_the_list_and_the_check_tell_failures_weak_rows_and_borrowed_spreads(answer, measurements, rows):
    listed = answer("measurements", "list")["measurements"]
    assert [row["status"] for row in listed] == ["ok", "out_of_memory"]
    assert "out of memory" in measurements("list")
    document = answer("measurements", "check")
    assert (document["measurements"], document["weak"]) == (2, 1)
    assert [row["kind"] for row in document["checked"][0]["weak"]] == ["few steps"]
    assert "--iterations" in measurements("check")
    first, failed = answer("measurements", "list", "--spread")["measurements"]
    assert (first["median_samples_per_second"] > 0, first["runs"]) == (True, 1)
    assert set(first["spread"]) >= {"lower", "upper", "stall_share", "median_samples_per_second"}
    assert failed["stall_share"] is failed["median_samples_per_second"] is None
    assert "1 have one run" in measurements("check")
    again = {"step_seconds": (0.1,) * 60, "repeats": ({"step_seconds": [0.1] * 60},)}
    open_store().append_all([measurement(trial=trial(resources=resources(memory_mib=2048.0)), **again)])
    assert "1 have one run" in measurements("check")


def test_an_import_takes_an_export_once_and_of_bad_lines_tells_the_numbers(
    measurements, rows, tmp_path, monkeypatch, stderr
):
    measurements("export", "--out", tmp_path / "all.jsonl")
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{tmp_path}/other.sqlite")
    assert "2 measurements added" in measurements("import", tmp_path / "all.jsonl")
    assert open_store().all() == rows
    assert "0 measurements added" in measurements("import", tmp_path / "all.jsonl")
    assert open_store().all() == rows
    (tmp_path / "bad.jsonl").write_text(f"nonsense\n{to_jsonl(rows)}[]\n")
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{tmp_path}/third.sqlite")
    err = stderr("measurements", "import", tmp_path / "bad.jsonl", code=1)
    assert "line 1: " in err
    assert "line 4: " in err
    assert open_store().all() == rows


def test_a_database_that_may_not_be_looked_at_is_named_with_the_way_out(stderr, monkeypatch, tmp_path):
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{tmp_path}/{'x' * 300}")
    err = stderr("measurements", "list", code=1)
    assert "cannot read the database" in err
    assert "ADVISOR_DATABASE_URL" in err


AS_JSON = ("measurements", "list", "-o", "json")
READERS = [*(("measurements", name) for name in ("list", "check", "export"))]
READERS += [("sweep", "status"), ("sweep", "list")]


@pytest.fixture
def database(tmp_path, monkeypatch):
    path = tmp_path / "m.sqlite"
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{path}")
    return path


@pytest.mark.parametrize("command", [*READERS, AS_JSON])
def test_a_damaged_row_is_told_and_the_others_are_answered(ask, database, command):
    rows = [measurement(trial=trial(resources=resources(memory_mib=size))) for size in (1.0, 2.0)]
    with closing(open_store()) as store:
        store.append_all(rows)
    damaged, good = (row.trial.trial_id for row in rows)
    execute(database, f"UPDATE measurements SET payload = '[' WHERE trial_id = '{damaged}'")
    code, out, error = ask(*command)
    assert (code, damaged in error) == (1, True)
    assert "1 row of the database cannot be read" in error.splitlines()[-1]
    assert good[:8] in out or "1 trial\n" in out or "1 of 1" in out
    assert command is not AS_JSON or len(json.loads(out)["measurements"]) == 1


@pytest.mark.parametrize("command", [*READERS, ("fit",), ("measurements", "import", "FILE")])
def test_no_command_touches_another_programs_file(stderr, database, command, tmp_path):
    execute(database, "CREATE TABLE visits (url TEXT)")
    before = database.read_bytes()
    (tmp_path / "empty.jsonl").write_text("")
    named = [str(tmp_path / "empty.jsonl") if word == "FILE" else word for word in command]
    assert "another program's" in stderr(*named, code=1)
    assert database.read_bytes() == before


@pytest.mark.parametrize("command", READERS)
def test_readers_make_no_database(shown, database, command):
    shown(*command)
    assert not database.exists()


def test_a_converted_set_is_shown_with_its_size_and_decode_cost(tmp_path, answer):
    (photos := tmp_path / "photos").mkdir()
    write_samples(photos, range(6), seed=0)
    for target, decoder in (("lmdb", "stored"), ("files", "pillow")):
        out = tmp_path / target
        made = answer("dataset", "convert", photos, "--to", target, "--out", out, "--processes", 1)
        assert made["schema"] == "advisor.dataset-converted/1"
        assert made["conversion"]["samples_per_second"] > 0
        shown = answer("dataset", "show", out)
        assert shown["profile"] == made["profile"]
        assert shown["decode_seconds_per_sample"][decoder] > 0
