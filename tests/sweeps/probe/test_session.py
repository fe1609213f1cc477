"""A probe runs its parts in order, and what goes wrong in one is that one's reason."""

import sys
import time
import types

import pytest

from advisor.errors import MeasuringError
from advisor.sweeps.probe import session
from advisor.sweeps.probe.figures import PARTS
from advisor.sweeps.probe.session import FULL, QUICK, ProbeSession, run_probe


@pytest.fixture
def parts(monkeypatch):
    """Put probes of the test's own in the place of the real parts."""

    def install(**probes):
        for name, probe in probes.items():
            module = types.SimpleNamespace(probe=probe)
            monkeypatch.setitem(sys.modules, f"advisor.sweeps.probe.{name}", module)

    return install


def _raise(error):
    raise error


def test_parts_run_in_the_order_of_measuring_and_are_told(parts, tmp_path):
    parts(cpu=lambda _: {"a": 1}, gpu=lambda _: {"b": 2})
    told = []
    document = run_probe(["gpu", "cpu"], quick=True, disk=tmp_path, report=told.append)
    assert list(document["parts"]) == ["cpu", "gpu"]
    assert [line.split(":")[0] for line in told] == ["[1/2] cpu", "[2/2] gpu"]
    assert document["quick"] is True
    assert document["parts"]["cpu"]["a"] == 1


def test_a_failing_part_costs_no_other_one(parts, tmp_path):
    parts(
        cpu=lambda _: _raise(RuntimeError("CUDA error:\n an illegal access")),
        gpu=lambda _: _raise(MeasuringError("no GPU here")),
        ram=lambda _: {"fine": True},
    )
    found = run_probe(["cpu", "ram", "gpu"], quick=True, disk=tmp_path, report=lambda _: None)
    assert found["parts"]["cpu"] == {"skipped": "RuntimeError: CUDA error: an illegal access"}
    assert found["parts"]["gpu"] == {"skipped": "no GPU here"}
    assert found["parts"]["ram"]["fine"] is True


def test_a_busy_neighbour_is_told(parts, tmp_path, monkeypatch):
    moments = iter([0.0, 10.0])
    monkeypatch.setattr(session, "_others_seconds", lambda: next(moments))
    monkeypatch.setattr(session, "_SHORTEST_JUDGED_SECONDS", 0.0)
    parts(cpu=lambda _: {})
    found = run_probe(["cpu"], quick=True, disk=tmp_path, report=lambda _: None)
    assert "other processes used" in found["warnings"][0]
    assert found["parts"]["cpu"]["other_cores"] > 1


def _session(tmp_path, ends_in):
    return ProbeSession(
        budget=QUICK, disk=tmp_path, report=lambda _: None, ends_at=time.monotonic() + ends_in
    )


def test_past_the_total_time_nothing_new_begins(tmp_path):
    assert "time was used up" in _session(tmp_path, -1.0).attempt(lambda: {"x": 1})["skipped"]
    assert _session(tmp_path, 60.0).attempt(lambda: {"x": 1}) == {"x": 1}


def test_ctrl_c_is_no_reason_but_the_end(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        _session(tmp_path, 60.0).attempt(lambda: _raise(KeyboardInterrupt()))


def test_every_part_has_a_module():
    for name in PARTS:
        assert __import__(f"advisor.sweeps.probe.{name}", fromlist=["probe"]).probe


def test_the_promised_times_are_kept_by_the_totals():
    assert FULL.total < 60
    assert QUICK.total < 15
