"""Several sweeps at once: what each is asked for, what Ctrl-C leaves, and rows of instances in a
database that may be this machine's own."""

import concurrent.futures
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from advisor.catalog import load_catalog
from advisor.domain import Market
from advisor.domain.gpu_names import identified, is_card
from advisor.errors import UsageError
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.launch_options import LaunchedMachine
from advisor.infra.aws.reap import NotEndedError
from advisor.runs.cloud import fleet as cloud_fleet
from advisor.runs.cloud.plan import accelerator_of
from advisor.runs.cloud.sweep import SharedRows
from tests.builders import keep
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


def row(memory_mib: float, host: str, started_at: str = "2026-11-21T12:30:00Z"):
    item = trial(resources=resources(memory_mib=memory_mib))
    return measurement(trial=item, started_at=started_at, environment={"host": host})


@pytest.fixture(autouse=True)
def database(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{tmp_path}/shared.sqlite")


@pytest.mark.parametrize(
    ("before", "after", "measured"),
    [
        (
            [row(1.0, "ip-172-31-4-5")],
            [
                row(2.0, "ip-172-31-4-5.ec2.internal"),
                row(3.0, "i-0abc"),
                row(4.0, "ip-172-31-9-9"),
                row(5.0, "ip-172-31-4-5", started_at="2026-11-20T12:30:00Z"),
            ],
            2,
        ),
        ([row(1.0, "ip-172-31-4-5")], [], 0),  # an adopted one that measured nothing more
        ([], [row(1.0, "elsewhere")], None),  # nobody knows where nothing of them is seen
    ],
)
def test_rows_of_its_instances_are_counted_and_those_of_others_are_not(before, after, measured) -> None:
    keep(*before)
    shared = SharedRows()
    shared.note(machine())
    keep(*after)
    assert shared.measured() == measured


@pytest.mark.parametrize("fails", [True, False])
def test_ctrl_c_says_what_could_not_be_ended(monkeypatch, fails: bool) -> None:
    """Not that each sweep was ended, when one of them may run on."""
    left = [KeyboardInterrupt]

    def wait(futures: Any) -> None:
        if left:
            raise left.pop()
        concurrent.futures.wait(futures)

    def run_cloud(plan: Any, aws: Aws, say: Any, on_machine: Any) -> None:
        try:
            while True:
                aws.clock.sleep(0.01)
        except KeyboardInterrupt:
            if fails and plan.options.instance == "g6.xlarge":
                raise NotEndedError("i-1 may run on") from None
            raise

    monkeypatch.setattr(cloud_fleet, "wait", wait)
    monkeypatch.setattr(cloud_fleet, "run_cloud", run_cloud)
    plans: Any = [
        SimpleNamespace(findings=(), options=SimpleNamespace(instance=name))
        for name in ("g4dn.xlarge", "g6.xlarge")
    ]
    with pytest.raises(NotEndedError if fails else KeyboardInterrupt):
        cloud_fleet.run_fleet(plans, Aws(), lambda _: None)


def test_what_a_guest_is_asked_to_measure_on_is_the_card_of_its_instance() -> None:
    """Else every trial of a paid sweep would be refused there."""
    catalog = load_catalog()
    question = 0
    for instance in catalog.instances("aws"):
        sheet = catalog.gpus.get(instance.gpu_name or "")
        if sheet is None or sheet.vendor != "NVIDIA":
            continue
        if instance.gpu_fraction < 1:
            with pytest.raises(UsageError, match="a slice of"):
                accelerator_of(instance, catalog)
            continue
        accelerator = accelerator_of(instance, catalog)
        present = identified(sheet.name, catalog.gpus, memory_mib=0.93 * sheet.memory_mib, sm_count=sheet.sms)
        assert is_card(accelerator.gpu, present, catalog.gpus), instance.name
        question += 1
    assert question > 20
