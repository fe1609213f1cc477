"""Sweeps as a user calls them, without a measurement."""

import pytest

from advisor.sweeps.datasets.making import write_samples
from tests.sweeps.builders import measurement


@pytest.fixture
def sweep(shown):
    """Run a command of `advisor sweep`; returns its stdout."""
    return lambda *arguments, code=0: shown("sweep", *arguments, code=code)


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    write_samples(folder, range(40), seed=0)
    return folder


class Executor:
    """Measures nothing: each trial ends as `row` says, the others as `others` say by number."""

    def __init__(self):
        self.given, self.row, self.others = [], {"reason": "no such device"}, {}

    def refuse_impossible(self, trials):
        pass

    def execute(self, trials):
        for trial in trials:
            self.given.append(trial)
            yield measurement(trial=trial, **self.row | self.others.get(len(self.given) - 1, {}))

    def close(self):
        pass


@pytest.fixture
def measured(monkeypatch):
    """An executor that measures nothing, for tests of everything around it."""
    fake = Executor()
    for module in ("sweeps.sweeping", "verification.verify"):
        monkeypatch.setattr(f"advisor.runs.{module}.ProcessExecutor", lambda _measure: fake)
    return fake
