"""Every test has its own home: no test reads or writes the user's store, model or cache.

Property tests try the same examples each time, so that no change fails for what it did not touch;
`make explore` tries others.
"""

import os
import pathlib

import pytest
from hypothesis import settings

# Ray keeps its token in the home, of which each test has another one.
os.environ["RAY_AUTH_MODE"] = "disabled"

# How long an example takes says how busy the machine is.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", settings.get_profile("default"), deadline=None)
settings.load_profile("repeatable")


# Rooms whose tests measure, kill or count what is on this machine; of some only the slow ones do.
_MEASURE = (
    "sweeps", "contracts", "benchmarks/test_kills", "infra/ray", "infra/aws/guest",
    "advisor/service/test_sweeps",
)  # fmt: skip
_MEASURE_SLOWLY = (
    "advisor/cli",
    "advisor/runs",
    "advisor/answers",
    "advisor/service",
    "benchmarks",
)


def pytest_collection_modifyitems(items):
    """What measures wants the machine for itself: it is marked `machine`. All other tests may run
    side by side (`make test` runs both)."""
    here = pathlib.Path(__file__).parent
    for item in items:
        room = item.path.relative_to(here).as_posix()
        slow = item.get_closest_marker("slow") is not None
        if room.startswith(_MEASURE) or (slow and room.startswith(_MEASURE_SLOWLY)):
            item.add_marker("machine")


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory, monkeypatch):
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for variable in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(home / variable.lower()))
    for variable in ("ADVISOR_DATABASE_URL", "ADVISOR_TODAY", "ADVISOR_DEBUG"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture(scope="session")
def postgresql():
    """A running PostgreSQL, one for all tests; skipped with the reason where none can run."""
    from tests.postgresql import PostgreSQL

    server = PostgreSQL()
    yield server
    server.remove()
