"""Commands that read the store: damage is told and hides nothing, and nothing is changed."""

import json
import sqlite3
from contextlib import closing

import pytest

from advisor.store.measurements import open_store
from tests.sweeps.builders import measurement, resources, trial

READERS = [
    ("measurements", "list"),
    ("measurements", "check"),
    ("measurements", "export"),
    ("sweep", "status"),
    ("sweep", "list"),
]


@pytest.fixture
def database(tmp_path, monkeypatch):
    path = tmp_path / "m.sqlite"
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{path}")
    return path


def execute(path, statement):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


@pytest.mark.parametrize("command", READERS)
def test_a_damaged_row_is_told_and_the_others_are_answered(ask, database, command):
    rows = [measurement(trial=trial(resources=resources(memory_mib=size))) for size in (1.0, 2.0)]
    with closing(open_store()) as store:
        store.append_all(rows)
    damaged, good = (row.trial.trial_id for row in rows)
    execute(database, f"UPDATE measurements SET payload = '[' WHERE trial_id = '{damaged}'")
    code, out, error = ask(*command)
    assert code == 1
    assert damaged in error
    assert "1 row of the database cannot be read" in error.splitlines()[-1]
    assert good[:8] in out or "1 trial\n" in out or "1 of 1" in out


def test_a_list_with_a_damaged_row_is_still_json(ask, database):
    with closing(open_store()) as store:
        store.append_all([measurement()])
    execute(database, "UPDATE measurements SET payload = '['")
    code, out, _error = ask("measurements", "list", "-o", "json")
    assert (code, json.loads(out)["measurements"]) == (1, [])


@pytest.mark.parametrize("command", [*READERS, ("fit",), ("measurements", "import", "FILE")])
def test_no_command_touches_another_programs_file(ask, database, command, tmp_path):
    execute(database, "CREATE TABLE visits (url TEXT)")
    before = database.read_bytes()
    (tmp_path / "empty.jsonl").write_text("")
    named = [str(tmp_path / "empty.jsonl") if word == "FILE" else word for word in command]
    code, _out, error = ask(*named)
    assert code == 1
    assert "another program's" in error
    assert database.read_bytes() == before


@pytest.mark.parametrize("command", READERS)
def test_readers_make_no_database(ask, database, command):
    code, _out, _error = ask(*command)
    assert code == 0
    assert not database.exists()
