"""Databases of other versions, and of other programs; and which one a URL means, however it is written."""

import itertools
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sql

from advisor.errors import DataError
from advisor.store.measurements import SqlStore, open_store
from advisor.store.schema import HEAD, METADATA, VERSION_TABLE
from tests.sweeps.builders import row
from tests.together import all_at_once

# Two rows, in tables that eight migrations made.
MIGRATED = Path(__file__).parents[2] / "data" / "measurements-0008.sqlite"
NEW = row(9.0)


def run(path, statement):
    with closing(sqlite3.connect(path)) as connection:
        result = connection.execute(statement).fetchall()
        connection.commit()
    return result


def version_in(url):
    engine = sql.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        result = connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalars()
        versions = list(result)
    engine.dispose()
    return versions


@pytest.mark.parametrize(
    ("version", "way_out"),
    [("0999", "version 0999.* upgrade the advisor"), ("0007", "version 0007.* export its meas")],
)
def test_a_database_of_another_version_is_refused_with_the_way_out(tmp_path, version, way_out):
    path = tmp_path / "m.sqlite"
    SqlStore(f"sqlite:///{path}").close()
    run(path, f"UPDATE {VERSION_TABLE} SET version_num = '{version}'")
    before = path.read_bytes()
    for reading in (True, False):
        with pytest.raises(DataError, match=way_out):
            open_store(f"sqlite:///{path}", reading=reading)
    assert path.read_bytes() == before


def test_a_database_of_the_versions_before_the_first_release_opens(tmp_path):
    """As eight migrations made it; it keeps its rows and takes new ones."""
    path = Path(shutil.copy(MIGRATED, tmp_path / "m.sqlite"))
    with closing(SqlStore(f"sqlite:///{path}")) as store:
        kept = store.all()
        assert len(kept) == 2
        assert store.append_all([NEW]).added == 1
        assert store.all() == [*kept, NEW]


@pytest.mark.parametrize("table", ["visits (url TEXT)", "measurements (celsius REAL)"])
@pytest.mark.parametrize("reading", [True, False])
def test_another_programs_file_is_refused_and_left_as_it_is(tmp_path, reading, table):
    """Measurements of its own are not taken for ours."""
    path = tmp_path / "history.sqlite"
    run(path, f"CREATE TABLE {table}")
    with pytest.raises(DataError, match=f"another program's .*{table.partition(' ')[0]}"):
        open_store(f"sqlite:///{path}", reading=reading)
    assert run(path, "SELECT sql FROM sqlite_master") == [(f"CREATE TABLE {table}",)]


def test_reading_makes_no_file_and_sees_one_that_comes_later(tmp_path):
    url = f"sqlite:///{tmp_path}/new/m.sqlite"
    reading = open_store(url, reading=True)
    assert reading.all() == []
    assert list(tmp_path.iterdir()) == []
    open_store(url).append_all([NEW])
    assert reading.all() == [NEW]


def test_another_programs_tables_and_alembic_do_not_matter_in_postgresql(postgresql):
    url = postgresql.new_database()
    postgresql.execute("CREATE TABLE alembic_version (version_num VARCHAR(32))", url)
    postgresql.execute("INSERT INTO alembic_version VALUES ('theirs')", url)
    with closing(open_store(url, reading=True)) as reading:
        assert reading.all() == []
    store = SqlStore(url)
    assert store.append_all([NEW]).added == 1
    store.close()


def test_drivers_that_start_at_once_migrate_once(url):
    sizes = itertools.count(1)

    def start():
        with closing(SqlStore(url)) as store:
            return store.append_all([row(float(next(sizes)))]).added

    assert all_at_once(start, 6) == [1] * 6
    assert version_in(url) == [HEAD]
    with closing(SqlStore(url)) as store:
        assert len(store.all()) == 6


def test_the_migrations_end_where_the_tables_of_this_version_are(url):
    """Names, nullability, keys and indexes."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    def ours(_object, name, kind, _reflected, _compared):
        return kind != "table" or name != VERSION_TABLE

    with closing(SqlStore(url)) as store, store._database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"include_object": ours})
        assert compare_metadata(context, METADATA) == []
    assert version_in(url) == [HEAD]


def identity_of(url):
    with closing(SqlStore(url, reading=True, patience_seconds=5.0)) as store:
        return store.identity


def test_a_file_is_the_same_by_every_path_to_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    urls = ("sqlite:///m.sqlite", "sqlite:///link/m.sqlite", f"sqlite:///{tmp_path}/m.sqlite")
    assert len(set(map(identity_of, urls))) == 1
    assert identity_of("sqlite:///other.sqlite") != identity_of(urls[0])


def test_a_server_is_the_same_by_every_name_of_it_and_for_every_user(postgresql):
    url = postgresql.new_database()
    parsed = sql.make_url(url)
    user = postgresql.new_user("")
    schema = parsed.query["options"].partition("=")[2]
    postgresql.execute(f"GRANT USAGE ON SCHEMA {schema} TO {user}")
    spelled = (parsed.set(host="localhost"), parsed.set(username=user))
    urls = (url, postgresql.near_url(url), *(item.render_as_string(False) for item in spelled))
    assert len(set(map(identity_of, urls))) == 1
    assert identity_of(postgresql.new_database()) != identity_of(url)
