"""What every measurement store promises."""

import pytest

from advisor.domain import Status
from advisor.errors import DataError, UsageError
from sweeps.store import SqlStore, open_store
from tests.sweeps.builders import measurement, resources, trial


def row(memory_mib=1024.0, **changes):
    return measurement(trial=trial(resources=resources(memory_mib=memory_mib)), **changes)


class StoreContract:
    @pytest.fixture
    def store(self):
        raise NotImplementedError

    def test_a_new_store_is_empty(self, store):
        assert store.all() == []
        assert store.done_ids() == set()

    def test_rows_come_back_whole_in_the_order_of_writing(self, store):
        rows = [row(3072.0), row(1024.0, attempts=({"step_seconds": [0.1]},)), row(2048.0)]
        for one in rows:
            assert store.append(one)
        assert store.all() == rows

    def test_a_trial_keeps_its_first_row(self, store):
        store.append(row(status=Status.OK))
        assert not store.append(row(status=Status.FAILED))
        assert [one.status for one in store.all()] == [Status.OK]

    def test_a_row_is_replaced_only_when_asked_and_keeps_its_place(self, store):
        store.append(row(1024.0, status=Status.FAILED))
        store.append(row(2048.0))
        assert store.append(row(1024.0, status=Status.OK), replace=True)
        assert [one.trial.resources.memory_mib for one in store.all()] == [1024.0, 2048.0]
        assert set(store.statuses().values()) == {"ok"}

    def test_many_rows_come_in_together_and_only_failed_ones_give_way(self, store):
        good, failed = row(1024.0), row(2048.0, status=Status.FAILED, reason="x")
        store.append(good)
        store.append(failed)
        arrived = [row(1024.0, started_at="later"), row(2048.0), row(3072.0)]
        done = store.append_all(arrived)
        assert (done.added, done.replaced) == (1, 1)
        assert store.all() == [good, *arrived[1:]]
        assert store.append_all(arrived).added == 0
        assert store.append_all([]).added == 0

    def test_failed_trials_are_done_too(self, store):
        failed = row(status=Status.OUT_OF_MEMORY, step_seconds=(), reason="killed")
        store.append(failed)
        assert store.statuses() == {failed.trial.trial_id: "out_of_memory"}


class TestSqliteFile(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        return SqlStore(f"sqlite:///{tmp_path}/deep/er/measurements.sqlite")

    def test_another_process_sees_a_row_as_soon_as_append_returns(self, tmp_path):
        url = f"sqlite:///{tmp_path}/measurements.sqlite"
        SqlStore(url).append(row())
        assert len(SqlStore(url).all()) == 1


class TestMemory(StoreContract):
    @pytest.fixture
    def store(self):
        return SqlStore("sqlite://")


def test_the_default_store_lies_in_the_users_data_folder(monkeypatch, tmp_path):
    open_store().append(row())
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{tmp_path}/other.sqlite")
    assert open_store().all() == []


def test_a_file_that_is_no_database_is_told_with_the_way_out(tmp_path):
    (tmp_path / "broken.sqlite").write_bytes(b"not a database at all " * 100)
    with pytest.raises(DataError, match="move that file away") as told:
        SqlStore(f"sqlite:///{tmp_path}/broken.sqlite").all()
    assert "\n" not in str(told.value)


def test_a_torn_database_is_told(tmp_path):
    path = tmp_path / "torn.sqlite"
    store = SqlStore(f"sqlite:///{path}")
    for size in range(1, 60):
        store.append(row(float(size)))
    store.close()
    content = bytearray(path.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"torn\.sqlite"):
        SqlStore(f"sqlite:///{path}").all()


def test_a_damaged_row_is_named(tmp_path):
    import sqlite3

    store = SqlStore(f"sqlite:///{tmp_path}/m.sqlite")
    store.append(row())
    store.close()
    connection = sqlite3.connect(tmp_path / "m.sqlite")
    connection.execute("UPDATE measurements SET payload = '{'")
    connection.commit()
    connection.close()
    with pytest.raises(DataError, match=row().trial.trial_id):
        SqlStore(f"sqlite:///{tmp_path}/m.sqlite").all()


def test_a_place_that_cannot_be_a_folder_is_told(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="ADVISOR_DATABASE_URL"):
        SqlStore(f"sqlite:///{tmp_path}/file/m.sqlite")


def test_a_full_disk_loses_nothing_stored(tmp_path):
    """SQLite's page limit stands in for the disk's end: it raises the same error."""
    import sqlalchemy

    store = SqlStore(f"sqlite:///{tmp_path}/m.sqlite")
    store.append(row(1.0))

    @sqlalchemy.event.listens_for(store._engine, "begin")
    def _no_more_pages(connection):
        connection.exec_driver_sql("PRAGMA max_page_count=1")

    with pytest.raises(DataError, match="nothing stored is lost"):
        store.append(row(2.0, step_seconds=(0.123456789,) * 5000))
    assert [one.trial.resources.memory_mib for one in store.all()] == [1.0]


@pytest.mark.parametrize("url", ["nonsense", "oracle9://x", "://"])
def test_a_url_that_is_none_is_a_usage_error(url):
    with pytest.raises(UsageError, match="ADVISOR_DATABASE_URL"):
        SqlStore(url)
