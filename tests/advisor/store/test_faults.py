"""Databases that are damaged, held, full, read-only, away, or never were: what a user is told."""

import os
import shutil
import sqlite3
import subprocess
import threading
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy.exc import OperationalError

from advisor.errors import DataError, UsageError
from advisor.store import database as databases
from advisor.store.database import Database
from advisor.store.measurements import SqlStore, open_store
from advisor.sweeps.trial.ownership import this_process
from tests.sweeps.builders import row


def execute(path, statement):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.sqlite"


@pytest.fixture
def file_url(path):
    return f"sqlite:///{path}"


def test_a_file_that_is_no_database_is_told_with_the_way_out(path, file_url):
    path.write_bytes(b"not a database at all " * 100)
    for reading in (True, False):
        with pytest.raises(DataError, match="move that file away") as refusal:
            open_store(file_url, reading=reading)
        assert "\n" not in str(refusal.value)
    assert path.read_bytes() == b"not a database at all " * 100


def test_a_torn_database_is_told(path, file_url):
    with closing(SqlStore(file_url)) as store:
        store.append_all([row(float(size)) for size in range(1, 60)])
    content = bytearray(path.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"m\.sqlite"):
        SqlStore(file_url).all()


def id_of(memory_mib):
    return row(memory_mib).trial.trial_id


def test_a_place_that_cannot_be_a_folder_is_told(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="ADVISOR_DATABASE_URL"):
        SqlStore(f"sqlite:///{tmp_path}/file/m.sqlite")


def test_a_full_disk_loses_nothing_stored(file_url):
    """SQLite's page limit stands in for the disk's end: it raises the same error."""
    with closing(SqlStore(file_url)) as store:
        store.append_all([row(1.0)])

        @sqlalchemy.event.listens_for(store.engine, "begin")
        def _no_more_pages(connection):
            connection.exec_driver_sql("PRAGMA max_page_count=1")

        with pytest.raises(DataError, match="nothing stored is lost"):
            store.append_all([row(2.0, step_seconds=(0.123456789,) * 5000)])
        assert [measurement.trial.resources.memory_mib for measurement in store.all()] == [1.0]


@pytest.mark.parametrize(
    "url", ["nonsense", "oracle9://x", "mysql://host/db", "://", "postgresql://host:port/db"]
)
def test_a_url_that_is_none_is_a_usage_error(url):
    with pytest.raises(UsageError, match="ADVISOR_DATABASE_URL"):
        SqlStore(url)


def test_postgresql_without_its_driver_says_what_to_install(monkeypatch):
    monkeypatch.setattr(databases.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(UsageError, match=r"pip install .*\[postgres\]"):
        SqlStore("postgresql://host/db")


def test_a_locked_database_is_waited_for_and_told_about(path, file_url, monkeypatch, caplog):
    monkeypatch.setattr(databases, "_BUSY_SECONDS", 0.1)
    with closing(SqlStore(file_url)) as store:
        with holding(path, seconds=1.0):
            assert store.append_all([row()]).added == 1
        assert "locked; waiting up to" in caplog.text
        assert "is back" in caplog.text


@pytest.mark.slow
def test_one_lease_is_given_back_patiently_and_all_of_them_at_once_or_never(path, file_url, monkeypatch):
    """A driver that goes on must not stop for a lock; one that ends must not wait for it."""
    monkeypatch.setattr(databases, "_BUSY_SECONDS", 0.1)
    with closing(SqlStore(file_url)) as store:
        owner = this_process()
        for item in (id_of(1.0), id_of(2.0)):
            store.leases.take({item: ""}, owner)
        with holding(path, seconds=1.0):
            store.leases.give_back(owner, [id_of(1.0)])
        assert set(store.leases.held()) == {id_of(2.0)}
        with holding(path, seconds=1.0), pytest.raises(DataError):
            store.leases.give_back(owner)


@pytest.mark.slow
def test_a_database_that_stays_locked_is_told_in_one_line(path, file_url, monkeypatch):
    monkeypatch.setattr(databases, "_BUSY_SECONDS", 0.1)
    with closing(SqlStore(file_url, patience_seconds=0.5)) as store:
        with (
            holding(path, seconds=3.0),
            pytest.raises(DataError, match="another process holds it") as refusal,
        ):
            store.append_all([row()])
        assert "\n" not in str(refusal.value)
        assert store.append_all([row()]).added == 1


@contextmanager
def holding(path, seconds):
    """Another program has the file to itself for some seconds."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        ending = threading.Timer(seconds, other.execute, ("ROLLBACK",))
        ending.start()
        yield
        ending.join()


def test_an_answer_that_was_lost_stores_nothing_twice(url, monkeypatch):
    """The commit came through, and the connection broke before that was told."""
    with closing(SqlStore(url)) as store:
        owner, lost = this_process(), []
        store.leases.take({id_of(2.0): ""}, owner)
        really = Database._transact

        def lose_first_answer(self, work, *, writes):
            outcome = really(self, work, writes=writes)
            if not lost:
                lost.append(outcome)
                raise OperationalError("COMMIT", {}, ConnectionError("the server has gone"))
            return outcome

        monkeypatch.setattr(Database, "_transact", lose_first_answer)
        store.append_all([row(1.0)])
        lost.clear()
        assert store.join(row(2.0), lambda _row, fresh: fresh, owner=owner) == row(2.0)
        assert store.all() == [row(1.0), row(2.0)]
        assert store.leases.held() == {}


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_server_that_comes_back_is_waited_for_and_keeps_what_was_stored(postgresql, caplog, end):
    with closing(SqlStore(postgresql.new_database())) as store:
        store.append_all([row(1.0)])
        getattr(postgresql, end)()
        starting = threading.Timer(2.0, postgresql.start)
        starting.start()
        try:
            assert store.append_all([row(2.0)]).added == 1
        finally:
            starting.join()
        assert store.all() == [row(1.0), row(2.0)]
        assert "waiting up to" in caplog.text


def test_a_server_that_stays_away_is_told_in_one_line(postgresql):
    with closing(SqlStore(postgresql.new_database(), patience_seconds=0.5)) as store:
        postgresql.stop()
        try:
            with pytest.raises(DataError, match=r"; start it, or set ADVISOR_DATABASE_URL") as refusal:
                store.append_all([row()])
        finally:
            postgresql.start()
        assert "\n" not in str(refusal.value)
        assert store.append_all([row()]).added == 1


def test_an_ended_connection_is_made_again(postgresql):
    url = postgresql.new_database()
    with closing(SqlStore(url)) as store:
        store.append_all([row(1.0)])
        postgresql.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        )
        assert store.append_all([row(2.0)]).added == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"password": "wrong"}, "check user and password"),
        ({"user": "nobody"}, "check user and password"),
        ({"database": "missing"}, "create it"),
    ],
)
def test_a_refusal_is_told_at_once_with_the_way_out(postgresql, changes, words, caplog):
    with pytest.raises(DataError, match=words) as refusal:
        SqlStore(postgresql.url(**changes))
    assert "waiting" not in caplog.text
    assert "\n" not in str(refusal.value)
    assert "wrong" not in str(refusal.value)


def test_a_database_that_only_reads_is_read_and_who_lacks_rights_is_told_whom_to_ask(postgresql):
    with pytest.raises(DataError, match="GRANT"):
        SqlStore(postgresql.url(user=postgresql.new_user("NOSUPERUSER")))
    url = postgresql.new_database()
    with closing(SqlStore(url)) as store:
        store.append_all([row()])
    reader = postgresql.new_user("SUPERUSER", "default_transaction_read_only = on")
    with closing(open_store(url.replace("//advisor:", f"//{reader}:"))) as store:
        assert store.all() == [row()]
        with pytest.raises(DataError, match="it only reads"):
            store.append_all([row(2.0)])


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="needs root, to mount a tmpfs")
def test_a_read_only_place_is_read_and_says_so(tmp_path):
    location = tmp_path / "place"
    location.mkdir()
    try:
        run("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", location)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no tmpfs here: {error.stderr.decode()[:200]}")
    url = f"sqlite:///{location}/m.sqlite"
    try:
        with closing(SqlStore(url)) as store:
            store.append_all([row()])
        run("mount", "-o", "remount,ro", location)
        with closing(open_store(url, reading=True)) as reading:
            assert reading.all() == [row()]
        with closing(open_store(url)) as store, pytest.raises(DataError, match="writable"):
            store.append_all([row(2.0)])
        with pytest.raises(DataError, match="ADVISOR_DATABASE_URL"):
            SqlStore(f"sqlite:///{location}/another.sqlite")
    finally:
        run("umount", "-l", location)


def run(*command):
    subprocess.run(list(map(str, command)), check=True, capture_output=True)


def test_the_log_of_a_database_in_use_is_no_other_file_to_lose(path, file_url):
    """Once nobody has it open, everything lies in the one file."""
    with closing(SqlStore(file_url)) as store:
        store.append_all([row()])
    assert [file.name for file in Path(path).parent.iterdir()] == ["m.sqlite"]
