"""Every test has its own home, and a lane by what it needs.

No test reads or writes the user's store, model or cache. A test's marks name the resource that it needs
(pyproject.toml lists them); its lane follows from them, and `make test`, `test-full`, `test-night`,
`test-host` and `test-gpu` each run one lane. Of each kind one test is `smoke`: it runs in the quick lane,
whatever else it needs."""

import ctypes.util
import math
import os
import shutil
import signal
import subprocess
from pathlib import Path
from types import MappingProxyType

# One thread for each process: workers share the cores, and sums are added in one order.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Ray keeps its token in the home, of which each test has another one.
os.environ["RAY_AUTH_MODE"] = "disabled"
# A sweep that runs on this machine, in another test or for somebody else, is none of our business.
os.environ["ADVISOR_SWEEP_LOCK"] = f"tests-{os.getpid()}"
# moto has some 1,300 images in each region of each account, and makes them anew for each test.
os.environ["MOTO_AMIS_PATH"] = str(Path(__file__).parent / "data" / "images.json")
# The background job of a shell ignores Ctrl-C, and so would the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest
from hypothesis import HealthCheck, settings

from advisor.sweeps.trial.placement import lock_folder

# Property tests try the same examples each time, so that no change fails for what it did not
# touch; the night tries others. How long an example takes says how busy the machine is.
settings.register_profile(
    "quick",
    derandomize=True,
    deadline=None,
    max_examples=20,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.function_scoped_fixture),
)
settings.register_profile("full", settings.get_profile("quick"), max_examples=50)
settings.register_profile(
    "night", settings.get_profile("quick"), derandomize=False, max_examples=1000, print_blob=True
)
settings.load_profile("quick")

# The mark that comes with a fixture.
_MARK_OF_FIXTURE = MappingProxyType(
    {"postgresql": "postgres", "browser": "browser", "ray_cluster": "ray", "pango": "pdf", "gpu": "gpu"}
)
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FULL = ("slow", "machine", "postgres", "ray", "browser", "pdf", "kills")


def pytest_xdist_auto_num_workers(config):
    """Half as many workers again as CPUs for `-n auto`: a third of the quick lane is waiting."""
    if config.option.numprocesses == "auto":
        return math.ceil(1.5 * len(os.sched_getaffinity(0)))
    return None


def pytest_sessionfinish():
    """Real trials of these tests took cores of the machine under a name of their own."""
    shutil.rmtree(lock_folder(), ignore_errors=True)


def pytest_collection_modifyitems(items):
    """Mark what a fixture implies; then each test's lane."""
    for item in items:
        for fixture, mark in _MARK_OF_FIXTURE.items():
            if fixture in item.fixturenames:
                item.add_marker(mark)
        item.add_marker(_lane({mark.name for mark in item.iter_markers()}))


def _lane(marks):
    if "night" in marks:
        return "lane_night"
    if "root" in marks:
        return "lane_host"
    if "gpu" in marks:
        return "lane_gpu"
    return "lane_full" if marks.intersection(_FULL) and "smoke" not in marks else "lane_quick"


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """Commands run in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory, monkeypatch):
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for variable in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(home / variable.lower()))
    for variable in ("ADVISOR_DATABASE_URL", "ADVISOR_TODAY", "ADVISOR_DEBUG"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture(autouse=True)
def _no_handler_left():
    """A handler that stays would answer for the next test, and in the processes that it forks."""
    before = list(map(signal.getsignal, _ENDING_SIGNALS))
    yield
    left = list(map(signal.getsignal, _ENDING_SIGNALS))
    for number, handler, earlier in zip(_ENDING_SIGNALS, left, before, strict=True):
        # A Ray node that a test starts in its own process keeps its handler.
        if (getattr(handler, "__module__", None) or "").startswith("ray."):
            signal.signal(number, earlier)
        else:
            assert handler == earlier


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    """A folder of 24 made photographs, which no test changes."""
    from advisor.sweeps.datasets.making import write_samples

    folder = tmp_path_factory.mktemp("images")
    write_samples(folder, range(24), seed=0)
    return folder


@pytest.fixture(scope="session")
def postgresql():
    """A running PostgreSQL, one for all tests; skipped with the reason where none can run."""
    from tests.postgresql import PostgreSQL

    server = PostgreSQL()
    yield server
    server.remove()


@pytest.fixture(params=("sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)))
def url(request, tmp_path):
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/m.sqlite"
    return request.getfixturevalue("postgresql").new_database()


@pytest.fixture(scope="session")
def ray_cluster():
    """A Ray cluster of three emulated nodes, one for all tests: two have a GPU, one a disk."""
    from tests.sweeps.ray_clusters import cluster_of

    with cluster_of({"gpu": "T4", "disk": "gp3"}, {"gpu": "L4"}, {}) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def pango():
    """What sets a PDF; skipped with the reason where it or a Chinese font is missing."""
    libraries = ("pango-1.0", "pangoft2-1.0", "harfbuzz-subset")
    missing = [name for name in libraries if not ctypes.util.find_library(name)]
    if missing:
        pytest.skip(f"no {missing[0]} here: `make system-deps` installs it")
    if not shutil.which("fc-list") or not subprocess.getoutput("fc-list :lang=zh"):
        pytest.skip("no Chinese font here: `make system-deps` installs one")
