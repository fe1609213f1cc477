"""Real daemons on one database: each due job once, also when they are killed at any moment."""

import pytest

from tests.advisor.runs.kills import Series
from tests.postgresql import DATABASES


@pytest.fixture(params=DATABASES)
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/schedules.sqlite"
    return request.getfixturevalue("postgresql").new_database()


@pytest.mark.kills
@pytest.mark.slow
def test_daemons_that_are_killed_at_any_moment_neither_lose_nor_repeat_a_job(url, tmp_path):
    """At last both are asked to end, and do."""
    series = Series(url, tmp_path, seed=11, gap_seconds=2.5)
    outcome = series.run(kills=5)
    assert outcome["faults"] == [], series.daemons.said
    assert outcome["kills"] == 5
    assert outcome["jobs"] >= 4
