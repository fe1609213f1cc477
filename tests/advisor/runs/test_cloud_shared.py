"""Rows of instances in a database that may be this machine's own."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import pytest

from advisor.domain import Market
from advisor.infra.aws.launch_options import LaunchedMachine
from advisor.runs.cloud.sweep import SharedRows
from advisor.store.measurements import open_store
from tests.sweeps.builders import measurement, resources, trial

LAUNCHED = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def machine(**changes) -> LaunchedMachine:
    values = {
        "id": "i-0abc",
        "region": "us-east-1",
        "zone": "us-east-1a",
        "state": "running",
        "instance_type": "g4dn.xlarge",
        "market": Market.SPOT,
        "launched_at": LAUNCHED,
        "token": "t",
        "slot": "g4dn.xlarge",
        "generation": 0,
        "usd_per_hour": 0.3,
        "spent_before_usd": 0.0,
        "expires_at": None,
        "private_ip": "172.31.4.5",
    }
    return LaunchedMachine(**{**values, **changes})


def row(memory_mib: float, host: str, at: str = "2026-11-21T12:30:00Z"):
    one = trial(resources=resources(memory_mib=memory_mib))
    return measurement(trial=one, started_at=at, environment={"host": host})


@pytest.fixture(autouse=True)
def database(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{tmp_path}/shared.sqlite")


def keep(*rows) -> None:
    with closing(open_store()) as store:
        store.append_all(rows)


def test_rows_of_its_instances_are_counted_and_those_of_others_are_not() -> None:
    keep(row(1.0, "ip-172-31-4-5"))
    shared = SharedRows()
    shared.note(machine())
    keep(
        row(2.0, "ip-172-31-4-5.ec2.internal"),
        row(3.0, "i-0abc"),
        row(4.0, "ip-172-31-9-9"),
        row(5.0, "ip-172-31-4-5", at="2026-11-20T12:30:00Z"),
    )
    assert shared.measured() == 2


def test_an_adopted_instance_that_measured_nothing_more_is_told_as_that() -> None:
    keep(row(1.0, "ip-172-31-4-5"))
    shared = SharedRows()
    shared.note(machine())
    assert shared.measured() == 0


def test_nobody_knows_where_nothing_of_its_instances_is_seen() -> None:
    shared = SharedRows()
    shared.note(machine())
    keep(row(1.0, "elsewhere"))
    assert shared.measured() is None
