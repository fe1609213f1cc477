"""A few kills of each kind, as `python -m benchmarks.kills` does by the hundred."""

import json
import sys

import pytest

from benchmarks.kills import __main__ as kills


@pytest.mark.night
def test_what_is_killed_leaves_the_same_rows_and_nothing_else(monkeypatch, capsys, postgresql):
    monkeypatch.setattr(kills.signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["kills", "--kills", "4", "--seed", "5", "--trials", "20"])
    assert kills.main() == 0
    told = json.loads(capsys.readouterr().out)
    assert told["held"]
    assert told["kills"] == 4
