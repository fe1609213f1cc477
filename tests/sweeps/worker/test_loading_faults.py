"""Loader processes that die or hang, with torch's own words for it."""

import os
import signal
import time

import pytest

from advisor.domain import Status
from advisor.sweeps.trial.faults import ending_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Samples:
    """A source whose samples never come: reading one does something else."""

    storage_format = "jpeg-files"
    files = ()

    def __init__(self, read):
        self._read = read

    def __len__(self):
        return 8

    def read(self, index):
        return self._read()

    def name(self, index):
        return str(index)


def kill_oneself():
    os.kill(os.getpid(), signal.SIGKILL)


def ending_of_loading(read, folder):
    from advisor.sweeps.worker.pipeline.loading import make_loader

    loader = make_loader(
        Samples(read), pixels=32, batch_size=2, workers=1, prefetch_factor=2, pin_memory=False
    )
    with pytest.raises(RuntimeError) as caught:
        next(iter(loader))
    return ending_of(caught.value, str(folder))


def test_a_killed_loader_process_is_told_as_that(tmp_path):
    ending = ending_of_loading(kill_oneself, tmp_path)
    assert ending.status is Status.FAILED
    assert "a loader process was killed from outside" in ending.reason


def test_a_loader_process_that_hangs_ends_the_trial(tmp_path, monkeypatch):
    from advisor.sweeps.worker.pipeline import loading

    monkeypatch.setattr(loading, "_LONGEST_BATCH_SECONDS", 1)
    ending = ending_of_loading(lambda: time.sleep(600), tmp_path)
    assert ending.status is Status.TIMED_OUT
    assert str(tmp_path) in ending.reason
