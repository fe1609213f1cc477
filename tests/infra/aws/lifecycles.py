"""How instances end and what spot requests live on for, where moto has it otherwise than EC2."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from moto.ec2.models.instances import Instance

from tests.infra.aws.wire import Answer, Request, ec2_answer

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
Happens = Callable[[], None]


class FakeClock:
    """`sleep` lets time pass at once; what was planned happens at its own moment on the way."""

    def __init__(self, start: datetime = START) -> None:
        self._now = start
        self._planned: list[tuple[datetime, int, Happens]] = []
        self._count = 0
        self._turns = threading.Lock()

    def now(self) -> datetime:
        return self._now

    def sleep(self, seconds: float) -> None:
        until = self._now + timedelta(seconds=seconds)
        while first := self._next(until):
            first()
        self._now = max(self._now, until)

    def _next(self, until: datetime) -> Happens | None:
        """What happens next until then, once, whoever of several threads waits for it."""
        with self._turns:
            due = [entry for entry in self._planned if entry[0] <= until]
            if not due:
                return None
            first = min(due, key=lambda entry: entry[:2])
            self._planned.remove(first)
            self._now = max(self._now, first[0])
            return first[2]

    def at(self, moment: datetime, happens: Happens) -> None:
        self._count += 1
        self._planned.append((moment, self._count, happens))

    def forget(self) -> None:
        self._planned.clear()

    def naive(self) -> datetime:
        """As moto's `utcnow` tells it."""
        return self._now.replace(tzinfo=None)


@dataclass
class Endings:
    """Instances take `seconds` from `shutting-down`, from when they are not billed, to
    `terminated`; who ends an instance twice is told so, and not refused as by moto."""

    clock: FakeClock
    seconds: float = 0.0

    def install(self, patch: pytest.MonkeyPatch) -> None:
        ended_by_moto = Instance.terminate

        def terminate(instance: Any) -> Any:
            before = copy.copy(instance._state)
            if instance.state in ("terminated", "shutting-down"):
                return before
            if not self.seconds:
                return ended_by_moto(instance)
            instance._state.name, instance._state.code = "shutting-down", 32
            instance._reason = f"User initiated ({self.clock.now():%Y-%m-%d %H:%M:%S} UTC)"
            moment = self.clock.now() + timedelta(seconds=self.seconds)
            self.clock.at(moment, lambda: gone(instance))
            return before

        def gone(instance: Any) -> None:
            expected = instance._reason, instance.state_reason
            ended_by_moto(instance)
            instance._reason = expected[0]
            instance.state_reason = expected[1] or instance.state_reason

        patch.setattr(Instance, "terminate", terminate)


@dataclass
class SpotRequest:
    """One of EC2's: closed with its instance, unless it is persistent and launches another."""

    id: str
    region: str
    instance: str
    is_persistent: bool
    tags: Mapping[str, str]
    is_cancelled: bool = False


@dataclass
class SpotRequests:
    """Those of an account, which moto does not make for `RunInstances`. `lives` tells whether an
    instance does."""

    lives: Any
    made: list[SpotRequest] = field(default_factory=list)

    def note(self, request: Request, instances: Iterator[str]) -> None:
        if "InstanceMarketOptions.MarketType" not in request.values:
            return
        kind = request.values.get("InstanceMarketOptions.SpotOptions.SpotInstanceType", "")
        for instance in instances:
            tags, name = (
                dict(_tags_for(request.values, "spot-instances-request")),
                f"sir-{len(self.made):08d}",
            )
            self.made.append(SpotRequest(name, request.region, instance, kind == "persistent", tags))

    def open(self) -> list[SpotRequest]:
        """Those that have an instance, or would launch another."""
        return [entry for entry in self.made if self._state(entry) in ("active", "open")]

    def described(self, request: Request) -> Answer:
        """The answer to `DescribeSpotInstanceRequests`, by tags."""
        wanted = dict(_filters(request.values))
        rows = [
            entry
            for entry in self.made
            if entry.region == request.region
            and all(entry.tags.get(name) == value for name, value in wanted.items())
        ]
        inner = "".join(map(self._item, rows))
        expected = f"<spotInstanceRequestSet>{inner}</spotInstanceRequestSet>"
        return ec2_answer(request.operation, expected)

    def cancelled(self, request: Request) -> Answer:
        wanted = {value for key, value in request.values.items() if key.startswith("SpotInstanceRequest")}
        for entry in self.made:
            entry.is_cancelled |= entry.id in wanted
        return ec2_answer(request.operation, "<spotInstanceRequestSet/>")

    def _item(self, entry: SpotRequest) -> str:
        worn = "".join(
            f"<item><key>{key}</key><value>{value}</value></item>" for key, value in entry.tags.items()
        )
        return (
            f"<item><spotInstanceRequestId>{entry.id}</spotInstanceRequestId><type>one-time</type>"
            f"<state>{self._state(entry)}</state><tagSet>{worn}</tagSet></item>"
        )

    def _state(self, entry: SpotRequest) -> str:
        if entry.is_cancelled:
            return "cancelled"
        if self.lives(entry.instance):
            return "active"
        return "open" if entry.is_persistent else "closed"


def _tags_for(values: Mapping[str, str], kind: str) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if key.startswith("TagSpecification.") and key.endswith("ResourceType") and value == kind:
            prefix = key.removesuffix("ResourceType") + "Tag."
            for name, expected in values.items():
                if name.startswith(prefix) and name.endswith(".Key"):
                    yield expected, values[name.removesuffix("Key") + "Value"]


def _filters(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if key.startswith("Filter.") and key.endswith(".Name") and value.startswith("tag:"):
            yield value.removeprefix("tag:"), values[key.removesuffix("Name") + "Value.1"]
