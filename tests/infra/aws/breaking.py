"""The product broken on purpose, one safety at a time: what the series has to notice."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from advisor.infra.aws import watching
from advisor.infra.aws.errors import Refused, Unanswered
from advisor.infra.aws.launch_options import LaunchedMachine
from advisor.infra.aws.provisioning import orders as making
from advisor.infra.aws.provisioning import orders as requests
from advisor.infra.aws.provisioning import provisioner as launching

Patch = pytest.MonkeyPatch


def _changed_request(change: Callable[[dict[str, Any]], Any]) -> Callable[[Patch], None]:
    def breaking(patch: Patch) -> None:
        true = requests.run_instances

        def run_instances(order: requests.Order) -> dict[str, Any]:
            request = true(order)
            change(request)
            return request

        patch.setattr(making, "run_instances", run_instances)

    return breaking


def _keep_volumes(request: dict[str, Any]) -> None:
    for disk in request["BlockDeviceMappings"]:
        disk["Ebs"]["DeleteOnTermination"] = False


def _without_volume_tags(request: dict[str, Any]) -> None:
    _keep_volumes(request)
    request["TagSpecifications"] = [
        one for one in request["TagSpecifications"] if one["ResourceType"] != "volume"
    ]


def _persistent_spot(request: dict[str, Any]) -> None:
    if "InstanceMarketOptions" in request:
        request["InstanceMarketOptions"]["SpotOptions"]["SpotInstanceType"] = "persistent"


def _seldom_looked(patch: Patch) -> None:
    true, minutes = watching._over, itertools.count()
    patch.setattr(watching, "_over", lambda *asked: None if next(minutes) % 10 else true(*asked))


def _no_end(patch: Patch) -> None:
    from advisor.infra.aws.ending import Ended
    from advisor.infra.aws.provisioning import provisioned as renting

    patch.setattr(renting, "end_sweep", lambda *_: Ended(removed=(), left=()))


def _next_offer_after_silence(patch: Patch) -> None:
    true = making.TokenOrders.made

    def made(self: making.TokenOrders, order: requests.Order) -> LaunchedMachine | None:
        try:
            return true(self, order)
        except Unanswered as error:
            raise Refused("RunInstances", "InsufficientInstanceCapacity", str(error)) from error

    patch.setattr(making.TokenOrders, "made", made)
    patch.setattr(making.TokenOrders, "_by_token", lambda *_: None)


def _forgetful_of_money(patch: Patch) -> None:
    patch.setattr(launching.machines, "spent_usd", lambda *_: 0.0)


BREAKS: Mapping[str, Callable[[Patch], None]] = {
    "volumes-outlive-instances": _changed_request(_keep_volumes),
    "volumes-without-tags": _changed_request(_without_volume_tags),
    # boto3 makes up one for each request then.
    "no-client-token": _changed_request(lambda request: request.pop("ClientToken")),
    "random-client-token": _changed_request(lambda request: request.update(ClientToken=uuid.uuid4().hex)),
    "shutdown-only-stops": _changed_request(
        lambda request: request.update(InstanceInitiatedShutdownBehavior="stop")
    ),
    "spot-request-persists": _changed_request(_persistent_spot),
    "budget-every-ten-minutes": _seldom_looked,
    "earlier-instances-cost-nothing": _forgetful_of_money,
    "no-end-by-the-controller": _no_end,
    "next-offer-after-silence": _next_offer_after_silence,
}
