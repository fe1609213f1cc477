"""Databases of other versions, and of other programs."""

import json
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sql

from advisor.errors import DataError
from advisor.runs.store.tables import METADATA as RUNS_METADATA
from advisor.sweeps.store import SqlStore, open_store
from advisor.sweeps.store.schema import HEAD, METADATA, VERSION_TABLE, VERSIONS
from tests.postgresql import DATABASES
from tests.sweeps.builders import measurement, resources, trial

# Two rows, written by the last version that kept no version of its tables.
UNVERSIONED = Path(__file__).parents[2] / "data" / "measurements-0001.sqlite"
# Its tables, as that version made them on PostgreSQL.
UNVERSIONED_TABLE = """
CREATE TABLE measurements (
    number SERIAL PRIMARY KEY, trial_id VARCHAR(16) NOT NULL UNIQUE, network VARCHAR(64) NOT NULL,
    task VARCHAR(16) NOT NULL, accelerator VARCHAR(64) NOT NULL, status VARCHAR(16) NOT NULL,
    limited_by VARCHAR(16) NOT NULL, started_at VARCHAR(40) NOT NULL,
    schema_version INTEGER NOT NULL, payload TEXT NOT NULL)
"""
OLD_ROWS = [
    measurement(trial=trial(resources=resources(memory_mib=size))) for size in (1024.0, 2048.0)
]
NEW = measurement(trial=trial(resources=resources(memory_mib=9.0)))


@pytest.fixture
def old(tmp_path):
    return Path(shutil.copy(UNVERSIONED, tmp_path / "m.sqlite"))


def sqlite_tables(path):
    connection = sqlite3.connect(path)
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    return {name for name in names if not name.startswith(("sqlite_", "ix_"))}


def run(path, statement, parameters=()):
    connection = sqlite3.connect(path)
    connection.execute(statement, parameters)
    connection.commit()
    connection.close()


def rows_of(path, query):
    with closing(sqlite3.connect(path)) as connection:
        return [value for (value,) in connection.execute(query)]


def version_in(url):
    engine = sql.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        found = connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalars()
        versions = list(found)
    engine.dispose()
    return versions


def test_an_older_database_is_migrated_and_keeps_its_rows(old):
    store = SqlStore(f"sqlite:///{old}")
    assert store.all() == OLD_ROWS
    assert store.append(NEW)
    assert store.all() == [*OLD_ROWS, NEW]
    assert version_in(f"sqlite:///{old}") == [HEAD]
    store.close()


def test_rows_of_an_older_database_have_the_rate_that_their_steps_give(old):
    """A stall of 30 s was left out of the rate that was stored; nothing of it is left."""
    stalled = (*[0.1] * 99, 30.0)
    (payload,) = rows_of(old, "SELECT payload FROM measurements WHERE number = 1")
    document = json.loads(payload) | {"throughput_samples_per_second": 80.0}
    statement = "UPDATE measurements SET payload = ? WHERE number = 1"
    run(old, statement, (json.dumps(document | {"step_seconds": stalled}),))
    with closing(SqlStore(f"sqlite:///{old}")) as store:
        first, second = store.all()
    assert first.throughput_samples_per_second == pytest.approx(100 * 8 / 39.9)
    assert first.stall_share == pytest.approx(29.9 / 39.9)
    assert second == OLD_ROWS[1]
    for payload in rows_of(old, "SELECT payload FROM measurements"):
        assert "throughput_samples_per_second" not in json.loads(payload)


def test_an_older_postgresql_database_is_migrated_and_takes_long_names(postgresql):
    url = postgresql.new_database()
    postgresql.execute(UNVERSIONED_TABLE, url)
    store = SqlStore(url)
    long = measurement(trial=trial(network="n" * 99))
    assert store.append(long)
    assert store.all() == [long]
    assert version_in(url) == [HEAD]
    store.close()


def test_reading_an_older_database_changes_nothing(old):
    before = old.read_bytes()
    assert open_store(f"sqlite:///{old}", reading=True).all() == OLD_ROWS
    assert old.read_bytes() == before


def test_a_database_of_a_later_version_is_refused_with_the_way_out(old):
    SqlStore(f"sqlite:///{old}").close()
    run(old, f"UPDATE {VERSION_TABLE} SET version_num = '0999'")
    before = old.read_bytes()
    for reading in (True, False):
        with pytest.raises(DataError, match=r"version 0999.* upgrade the advisor"):
            open_store(f"sqlite:///{old}", reading=reading)
    assert old.read_bytes() == before


@pytest.mark.parametrize("reading", [True, False])
def test_another_programs_file_is_refused_and_left_as_it_is(tmp_path, reading):
    path = tmp_path / "history.sqlite"
    run(path, "CREATE TABLE visits (url TEXT)")
    with pytest.raises(DataError, match=r"another program's .*visits"):
        open_store(f"sqlite:///{path}", reading=reading)
    assert sqlite_tables(path) == {"visits"}


def test_another_programs_measurements_are_not_taken_for_ours(tmp_path):
    path = tmp_path / "m.sqlite"
    run(path, "CREATE TABLE measurements (celsius REAL)")
    with pytest.raises(DataError, match="another program's"):
        open_store(f"sqlite:///{path}")


def test_reading_makes_no_file_and_sees_one_that_comes_later(tmp_path):
    url = f"sqlite:///{tmp_path}/new/m.sqlite"
    reading = open_store(url, reading=True)
    assert reading.all() == []
    assert list(tmp_path.iterdir()) == []
    open_store(url).append(NEW)
    assert reading.all() == [NEW]


def test_another_programs_tables_and_alembic_do_not_matter_in_postgresql(postgresql):
    url = postgresql.new_database()
    postgresql.execute("CREATE TABLE alembic_version (version_num VARCHAR(32))", url)
    postgresql.execute("INSERT INTO alembic_version VALUES ('theirs')", url)
    with closing(open_store(url, reading=True)) as reading:
        assert reading.all() == []
    store = SqlStore(url)
    assert store.append(NEW)
    store.close()


@pytest.fixture(params=DATABASES)
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/m.sqlite"
    return request.getfixturevalue("postgresql").new_database()


def test_drivers_that_start_at_once_migrate_once(url):
    together, failed = threading.Barrier(6), []

    def start(number):
        together.wait()
        try:
            store = SqlStore(url)
            store.append(measurement(trial=trial(resources=resources(memory_mib=number))))
            store.close()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=start, args=(float(n + 1),)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert version_in(url) == [HEAD]
    store = SqlStore(url)
    assert len(store.all()) == 6
    store.close()


def test_the_migrations_end_where_the_tables_of_this_version_are(url):
    """Names, nullability, keys and indexes; and the versions are those of the files."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

    from advisor.sweeps.store.schema import _MIGRATIONS

    store = SqlStore(url)

    def ours(_object, name, kind, _reflected, _compared):
        return kind != "table" or name != VERSION_TABLE

    with store._database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"include_object": ours})
        found = compare_metadata(context, [METADATA, RUNS_METADATA])
    # SQLite cannot alter a column, and keeps no text to its length.
    assert [one for one in found if not _is_type_on_sqlite(one, url)] == []
    scripts = ScriptDirectory(str(_MIGRATIONS)).walk_revisions()
    assert tuple(reversed([one.revision for one in scripts])) == VERSIONS
    store.close()


def _is_type_on_sqlite(difference, url):
    return url.startswith("sqlite") and "modify_type" in str(difference)
