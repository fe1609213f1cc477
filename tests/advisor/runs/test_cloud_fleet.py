"""Several sweeps at once: what Ctrl-C leaves is told."""

from __future__ import annotations

import concurrent.futures
from types import SimpleNamespace
from typing import Any

import pytest

from advisor.runs.cloud import fleet as cloud_fleet
from infra.aws.asking import Aws
from infra.aws.ending import NotEndedError


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
