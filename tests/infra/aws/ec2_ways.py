"""What EC2 does and moto does not: tokens that dedupe, capacity that runs out, lists that lag, dry runs,
quotas, images by parameter, spot prices that are some."""

import base64
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tests.infra.aws.lifecycles import FakeClock, SpotRequests
from tests.infra.aws.wire import Answer, Request, ec2_answer, json_answer, refusal, spot_prices

ACCOUNT = "123456789012"


@dataclass
class Ec2Ways:
    """The rules, and what EC2 remembers for them. `out` holds what has no capacity: parts of (type, zone,
    market), "" for any. `denied` are operations without permission."""

    clock: FakeClock
    image: str = ""
    lag_seconds: float = 0.0
    out: set[tuple[str, str, str]] = field(default_factory=set)
    denied: set[str] = field(default_factory=set)
    quotas: dict[str, float] = field(default_factory=dict)
    spot_usd: float = 0.2
    spots: SpotRequests = field(default_factory=lambda: SpotRequests(_lives))
    console: str = ""
    _by_token: dict[tuple[str, str], tuple[frozenset[tuple[str, str]], Answer]] = field(default_factory=dict)
    _hidden_until: dict[str, datetime] = field(default_factory=dict)

    def before(self, request: Request) -> Answer | None:
        """An answer that needs no moto; None where moto is asked."""
        if request.operation in self.denied:
            code = "UnauthorizedOperation" if request.service == "ec2" else "AccessDenied"
            return refusal(request, code, "You are not authorized to perform this operation.")
        if request.values.get("DryRun") == "true":
            return refusal(request, "DryRunOperation", "Request would have succeeded")
        own = {
            "GetServiceQuota": self._quota,
            "GetProducts": lambda _: json_answer({"PriceList": []}),  # of which moto knows nothing
            "GetParameter": self._parameter,
            "DescribeSpotPriceHistory": self._spot_prices,
            "GetConsoleOutput": self._console,
            "RunInstances": self._run_instances,
            "DescribeSpotInstanceRequests": self.spots.described,
            "CancelSpotInstanceRequests": self.spots.cancelled,
        }
        return own[request.operation](request) if request.operation in own else None

    def after(self, request: Request, answer: Answer) -> Answer:
        """The answer of moto, as EC2 would have told and remembered it."""
        if answer.status != 200:
            return answer
        if request.operation == "RunInstances":
            return self._made(request, answer)
        if request.operation == "DescribeInstances":
            return self._without_hidden(answer)
        return answer

    def forget(self) -> None:
        self._by_token.clear()
        self._hidden_until.clear()
        self.spots.made.clear()

    def _run_instances(self, request: Request) -> Answer | None:
        token = request.values.get("ClientToken", "")
        known = self._by_token.get((request.region, token)) if token else None
        if known:
            wanted, answer = known
            if not any(map(_lives, _ids(answer.body))):
                return refusal(request, "IdempotentInstanceTerminated")
            if wanted == _values_of(request):
                return answer
            return refusal(request, "IdempotentParameterMismatch")
        if self._is_out(request):
            return refusal(request, "InsufficientInstanceCapacity")
        return None

    def _is_out(self, request: Request) -> bool:
        spot = any(key.startswith("InstanceMarketOptions") for key in request.values)
        subnet = request.values["NetworkInterface.1.SubnetId"]
        offer = (
            request.values["InstanceType"],
            self.zone_of(request.region, subnet),
            "spot" if spot else "on-demand",
        )
        return any(
            all(part in ("", own) for part, own in zip(entry, offer, strict=True)) for entry in self.out
        )

    def zone_of(self, region: str, subnet: str) -> str:
        from moto.ec2.models import ec2_backends

        zone: str = ec2_backends[ACCOUNT][region].get_subnet(subnet).availability_zone
        return zone

    def _made(self, request: Request, answer: Answer) -> Answer:
        token = request.values.get("ClientToken", "")
        if token:
            self._by_token[request.region, token] = _values_of(request), answer
        self.spots.note(request, _ids(answer.body))
        for entry in _ids(answer.body):
            self._hidden_until[entry] = self.clock.now() + timedelta(seconds=self.lag_seconds)
        return answer

    def _hides(self, instance_id: str) -> bool:
        until = self._hidden_until.get(instance_id)
        return until is not None and until > self.clock.now()

    def _without_hidden(self, answer: Answer) -> Answer:
        if not any(until > self.clock.now() for until in self._hidden_until.values()):
            return answer
        root = ET.fromstring(answer.body)
        ET.register_namespace("", root.tag.partition("}")[0].removeprefix("{"))
        reservations = root.find("{*}reservationSet")
        for item in list(reservations) if reservations is not None else ():
            if any(self._hides(entry) for entry in _ids_in(item)):
                reservations.remove(item)
        return Answer(answer.status, ET.tostring(root), {"Content-Type": "text/xml"})

    def _quota(self, request: Request) -> Answer:
        code = request.values["QuotaCode"]
        return json_answer({"Quota": {"QuotaCode": code, "Value": self.quotas.get(code, 64.0)}})

    def _parameter(self, request: Request) -> Answer:
        if not self.image:
            return refusal(request, "ParameterNotFound")
        return json_answer({"Parameter": {"Name": request.values["Name"], "Value": self.image}})

    def _console(self, _request: Request) -> Answer:
        """The same of each instance; none, where it has written nothing (or not yet)."""
        expected = base64.b64encode(self.console.encode()).decode()
        return ec2_answer("GetConsoleOutput", f"<output>{expected}</output>" if expected else "")

    def _spot_prices(self, request: Request) -> Answer:
        """In every zone, each a cent more than the one before."""
        names = [value for key, value in request.values.items() if key.startswith("InstanceType.")]
        return spot_prices(
            (name, f"{request.region}{letter}", f"{self.spot_usd + number / 100:.4f}")
            for name in names
            for number, letter in enumerate("abcdef")
        )


def _lives(instance_id: str) -> bool:
    from moto.ec2.models import ec2_backends

    return any(
        instance.id == instance_id and instance.state not in ("terminated", "shutting-down")
        for backend in ec2_backends[ACCOUNT].values()
        for reservation in backend.reservations.values()
        for instance in reservation.instances
    )


def _values_of(request: Request) -> frozenset[tuple[str, str]]:
    return frozenset(request.values.items())


def _ids(body: bytes) -> Iterator[str]:
    return _ids_in(ET.fromstring(body))


def _ids_in(element: ET.Element) -> Iterator[str]:
    """Whatever their namespace: that of moto is not EC2's own."""
    for entry in element.iter():
        if entry.tag.rpartition("}")[2] == "instanceId":
            yield entry.text or ""
