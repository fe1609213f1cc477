"""Databases of other versions, and of other programs; and which one a URL means, however it is written. Eight
processes write at once, and one of them is killed: nothing is lost, nothing is twice. What a key is made
of, and what its scope allows."""

import itertools
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sql
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import DataError, UsageError
from advisor.store.keys import ApiKeys, Scope, key_id_of, parse_lifetime_seconds, scope_of
from advisor.store.measurements import SqlStore, open_store
from advisor.store.schema import HEAD, VERSION_TABLE
from tests.advisor.store.writer import OWN_FROM
from tests.postgresql import DATABASES
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


def test_drivers_that_start_at_once_make_the_tables_once(url):
    sizes = itertools.count(1)

    def start():
        with closing(SqlStore(url)) as store:
            return store.append_all([row(float(next(sizes)))]).added

    assert all_at_once(start, 6) == [1] * 6
    assert version_in(url) == [HEAD]
    with closing(SqlStore(url)) as store:
        assert len(store.all()) == 6


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


def test_each_key_is_another_one_tells_its_id_and_allows_what_stands_before_its_scope(tmp_path):
    book = ApiKeys(f"sqlite:///{tmp_path}/m.sqlite")
    made = [book.add(f"k{i}", "read", lifetime_seconds=None, now=float(i)) for i in range(5)]
    book.close()
    assert len({key for key, _ in made}) == 5
    assert [key_id_of(key) for key, _ in made] == [kept.key_id for _, kept in made]
    allowed = {scope: [other for other in Scope if scope.allows(other)] for scope in Scope}
    assert allowed == {
        Scope.READ: [Scope.READ],
        Scope.MEASURE: [Scope.READ, Scope.MEASURE],
        Scope.ADMIN: [Scope.READ, Scope.MEASURE, Scope.ADMIN],
    }
    with pytest.raises(UsageError, match="did you mean admin"):
        scope_of("amdin")


@given(st.text())
def test_what_is_no_key_has_no_id(text):
    assert key_id_of(text) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30m", 1800.0), ("12h", 43200.0), ("90d", 7_776_000.0), ("2W", 1_209_600.0), ("1y", 31_536_000.0)],
)
def test_a_lifetime_is_told_in_minutes_hours_days_weeks_or_years(text, seconds):
    assert parse_lifetime_seconds(text) == seconds


WRITERS, OWN, SHARED = 8, 1250, 200


@pytest.fixture(params=DATABASES)
def shared_url(request):
    if request.param == "postgresql":
        yield request.getfixturevalue("postgresql").new_database()
        return
    # What is tried here is who waits for whom; the disk alone would take minutes.
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(dir=memory if memory.is_dir() else None)
    yield f"sqlite:///{folder}/m.sqlite"
    shutil.rmtree(folder)


def started(shared_url, number, own, shared):
    command = [sys.executable, "-m", "tests.advisor.store.writer", shared_url]
    return subprocess.Popen(
        [*command, str(number), str(own), str(shared)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(writer):
    out, error = writer.communicate(timeout=240)
    assert writer.returncode == 0, error
    return int(out)


def sizes(store):
    return [int(measurement.trial.resources.memory_mib) for measurement in store.all()]


@pytest.mark.night
@pytest.mark.timeout(400)
def test_eight_writers_lose_none_of_ten_thousand(shared_url):
    writers = [started(shared_url, number, OWN, SHARED) for number in range(WRITERS)]
    won = [ended(writer) for writer in writers]
    with closing(open_store(shared_url, reading=True)) as store:
        stored = sizes(store)
    own = {OWN_FROM * (n + 1) + step for n in range(WRITERS) for step in range(OWN)}
    assert len(stored) == WRITERS * OWN + SHARED
    assert set(stored) == own | {1 + step for step in range(SHARED)}
    assert sum(won) == SHARED  # each shared trial was told to be theirs to one writer only


@pytest.mark.night
def test_a_killed_writer_leaves_whole_rows_and_holds_up_nobody(shared_url):
    with closing(SqlStore(shared_url)) as store:
        killed, other = started(shared_url, 0, 100_000, 0), started(shared_url, 1, 300, 0)
        while len(store.summaries()) < 50:
            assert killed.poll() is None
            time.sleep(0.02)
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        ended(other)
        stored = sizes(store)
        of_killed = [size for size in stored if size < 2 * OWN_FROM]
        assert of_killed == list(range(OWN_FROM, OWN_FROM + len(of_killed)))
        assert len(stored) == len(of_killed) + 300
