"""What the book of keys promises, on each database for real."""

from contextlib import closing, suppress

import pytest
import sqlalchemy as sql

from advisor.errors import UsageError
from advisor.store.keys import MOST_SESSIONS_OF_A_KEY, ApiKeys, Session, digest_of
from advisor.store.measurements import SqlStore
from tests.together import all_at_once

NOW = 1_790_000_000.0
HOUR = 3600.0


class TestKeys:
    @pytest.fixture
    def book(self, url):
        book = ApiKeys(url)
        yield book
        book.close()

    def add(self, book, name="ci", scope="read", lifetime=None):
        return book.add(name, scope, lifetime_seconds=lifetime, now=NOW)

    def test_a_key_comes_back_without_its_secret_is_unknown_by_other_names_and_notes_its_use(self, book, url):
        key, kept = self.add(book, lifetime=HOUR)
        assert book.all() == [kept] == [book.named("ci")] == [book.named(kept.key_id)]
        other = key[:-1] + ("A" if key[-1] != "A" else "B")
        assert (kept.is_made_of(key), kept.is_made_of(other)) == (True, False)
        assert (kept.created_at, kept.expires_at, kept.last_used_at) == (NOW, NOW + HOUR, None)
        engine = sql.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
        with engine.connect() as connection:
            rows = connection.exec_driver_sql("SELECT * FROM api_keys").all()
        engine.dispose()
        assert key.split("_", 2)[2] not in str(rows)
        book.used(kept.key_id, NOW + 5)
        book.used("nobody", NOW)
        assert book.named("ci").last_used_at == NOW + 5

    def test_a_key_works_until_it_expires_or_is_revoked(self, book):
        _, kept = self.add(book, lifetime=HOUR)
        assert kept.works(NOW)
        assert not kept.works(NOW + HOUR)
        assert not book.revoke("ci", now=NOW + 1).works(NOW + 2)
        assert book.revoke("ci", now=NOW + HOUR).revoked_at == NOW + 1

    def test_a_name_is_free_again_when_its_key_is_revoked(self, book):
        _, first = self.add(book)
        with pytest.raises(UsageError, match="a key 'ci' already"):
            self.add(book)
        book.revoke(first.key_id, now=NOW)
        _, second = self.add(book)
        assert book.named("ci") == second
        assert [entry.revoked_at for entry in book.all()] == [NOW, None]

    def test_of_many_that_add_one_name_at_once_one_is_kept(self, url):
        def add():
            with closing(ApiKeys(url)) as book, suppress(UsageError):
                return self.add(book)

        ApiKeys(url).close()  # make the tables
        assert len(list(filter(None, all_at_once(add)))) == 1

    def test_an_unknown_name_gets_the_nearest(self, book):
        with pytest.raises(UsageError, match="none was added"):
            book.named("ci")
        self.add(book, "grafana")
        with pytest.raises(UsageError, match="did you mean grafana"):
            book.revoke("grafanna", now=NOW)

    def test_who_reads_sees_a_key_and_its_end_at_the_next_look(self, book, url):
        reading = ApiKeys(url, reading=True)
        assert reading.holders(now=NOW).keys == {}
        _, kept = self.add(book)
        assert reading.holders(now=NOW).keys == {kept.key_id: kept}
        book.revoke("ci", now=NOW)
        assert reading.holders(now=NOW).keys[kept.key_id].revoked_at == NOW
        reading.close()

    def test_a_session_ends_by_logging_out_by_time_and_with_its_key(self, book):
        _, kept = self.add(book)
        for token, until in (("a", HOUR), ("b", 2 * HOUR), ("c", 2 * HOUR)):
            book.open_session(Session(digest_of(token), kept.key_id, NOW + until), now=NOW)
        assert len(book.holders(now=NOW).sessions) == 3
        assert len(book.holders(now=NOW + HOUR).sessions) == 2
        book.end_session(digest_of("b"))
        assert set(book.holders(now=NOW + HOUR).sessions) == {digest_of("c")}
        book.revoke("ci", now=NOW)
        assert book.holders(now=NOW).sessions == {}

    def test_the_oldest_of_too_many_sessions_ends(self, book):
        _, kept = self.add(book)
        for number in range(MOST_SESSIONS_OF_A_KEY + 3):
            session = Session(digest_of(str(number)), kept.key_id, NOW + HOUR)
            book.open_session(session, now=NOW + number)
        left = book.holders(now=NOW).sessions
        assert len(left) == MOST_SESSIONS_OF_A_KEY
        assert digest_of("0") not in left
        assert digest_of(str(MOST_SESSIONS_OF_A_KEY + 2)) in left

    def test_keys_lie_beside_the_measurements(self, url):
        SqlStore(url).close()
        book = ApiKeys(url, reading=True)
        assert book.holders(now=NOW).keys == {}
        book.close()


def test_no_file_is_made_by_reading_and_one_that_is_replaced_is_noticed(tmp_path):
    url = f"sqlite:///{tmp_path}/m.sqlite"
    reading = ApiKeys(url, reading=True)
    assert reading.holders(now=NOW).keys == {}
    assert list(tmp_path.iterdir()) == []
    for name in ("first", "second"):
        book = ApiKeys(url)
        _, kept = book.add(name, "read", lifetime_seconds=None, now=NOW)
        book.close()
        assert set(reading.holders(now=NOW).keys) == {kept.key_id}
        (tmp_path / "m.sqlite").unlink()
    reading.close()
