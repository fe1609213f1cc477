"""Several sweeps at once: what each is asked for, and what Ctrl-C leaves."""

import concurrent.futures
from types import SimpleNamespace
from typing import Any

import pytest

from advisor.catalog import load_catalog
from advisor.domain.gpu_names import identified, is_card
from advisor.errors import UsageError
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.reap import NotEndedError
from advisor.runs.cloud import sweep as cloud_sweep
from advisor.runs.cloud.plan import accelerator_of


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

    monkeypatch.setattr(cloud_sweep, "wait", wait)
    monkeypatch.setattr(cloud_sweep, "run_cloud", run_cloud)
    plans: Any = [
        SimpleNamespace(findings=(), options=SimpleNamespace(instance=name))
        for name in ("g4dn.xlarge", "g6.xlarge")
    ]
    with pytest.raises(NotEndedError if fails else KeyboardInterrupt):
        cloud_sweep.run_fleet(plans, Aws(), lambda _: None)


def test_what_a_guest_is_asked_to_measure_on_is_the_card_of_its_instance() -> None:
    """Else every trial of a paid sweep would be refused there."""
    catalog = load_catalog()
    question = 0
    for instance in catalog.instances("aws"):
        sheet = catalog.gpus.get(instance.gpu_name or "")
        if sheet is None or sheet.vendor != "NVIDIA":
            continue
        if instance.gpu_fraction < 1:
            with pytest.raises(UsageError, match="slice of a"):
                accelerator_of(instance, catalog)
            continue
        accelerator = accelerator_of(instance, catalog)
        present = identified(sheet.name, catalog.gpus, memory_mib=0.93 * sheet.memory_mib, sm_count=sheet.sms)
        assert is_card(accelerator.gpu, present, catalog.gpus), instance.name
        question += 1
    assert question > 20
