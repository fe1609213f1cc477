"""What a key is made of, and what its scope allows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import UsageError
from advisor.store.keys import ApiKeys, Scope, key_id_of, parse_lifetime_seconds, scope_of


def test_a_scope_allows_what_stands_before_it():
    allowed = {scope: [other for other in Scope if scope.allows(other)] for scope in Scope}
    assert allowed == {
        Scope.READ: [Scope.READ],
        Scope.MEASURE: [Scope.READ, Scope.MEASURE],
        Scope.ADMIN: [Scope.READ, Scope.MEASURE, Scope.ADMIN],
    }
    with pytest.raises(UsageError, match="did you mean admin"):
        scope_of("amdin")


def test_each_key_is_another_one_and_tells_its_id(tmp_path):
    book = ApiKeys(f"sqlite:///{tmp_path}/m.sqlite")
    made = [book.add(f"k{i}", "read", lifetime_seconds=None, now=float(i)) for i in range(5)]
    book.close()
    assert len({key for key, _ in made}) == 5
    assert [key_id_of(key) for key, _ in made] == [kept.key_id for _, kept in made]


@given(st.text())
def test_what_is_no_key_has_no_id(text):
    assert key_id_of(text) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30m", 1800.0), ("12h", 43200.0), ("90d", 7_776_000.0), ("2W", 1_209_600.0), ("1y", 31_536_000.0)],
)
def test_a_lifetime_is_told_in_minutes_hours_days_weeks_or_years(text, seconds):
    assert parse_lifetime_seconds(text) == seconds


@pytest.mark.parametrize("text", ["90", "0d", "-1d", "1.5h", "d", "9999999d", "90 days", "\uff11d"])
def test_any_other_lifetime_is_refused(text):
    with pytest.raises(UsageError, match="12h, 90d or 1y"):
        parse_lifetime_seconds(text)


@pytest.mark.parametrize("name", ["", " ", "-a", "a b", "a\n", "a/b", "é", "x" * 65, "0123456789ab"])
def test_a_name_that_could_be_mistaken_is_refused(tmp_path, name):
    book = ApiKeys(f"sqlite:///{tmp_path}/m.sqlite")
    with pytest.raises(UsageError, match="a key's name must be"):
        book.add(name, "read", lifetime_seconds=None, now=1.0)
    book.close()
