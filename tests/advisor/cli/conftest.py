"""Sweeps as a user calls them, without a measurement."""

import pytest

from tests.sweeps.builders import AtOnce


@pytest.fixture
def sweep(shown):
    """Run a command of `advisor sweep`; returns its stdout."""
    return lambda *arguments, code=0: shown("sweep", *arguments, code=code)


@pytest.fixture
def measured(monkeypatch):
    """An executor that measures nothing, for tests of everything around it."""
    fake = AtOnce(reason="no such device")
    for module in ("sweeps.sweeping", "verification.verify"):
        monkeypatch.setattr(f"advisor.runs.{module}.ProcessExecutor", lambda _measure: fake)
    return fake
