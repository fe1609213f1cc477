"""One sweep with everything going wrong by chance, and what must hold all the same."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from advisor.errors import AdvisorError
from infra.aws import tags
from infra.aws.errors import Kind, known_codes
from infra.aws.ladder import Ladder
from infra.aws.preflight import Preflight
from infra.aws.reap import reap
from infra.aws.renting import rent
from tests.infra.aws.bed import REGIONS, Bed, launched_at, worn
from tests.infra.aws.builders import Minutes, a_slot
from tests.infra.aws.faults import (
    CRASH_AFTER,
    CRASH_BEFORE,
    CUT,
    DONE_ALL_THE_SAME,
    GARBAGE,
    LOST_REPLY,
    LOST_REQUEST,
    SLOW,
    Crashed,
)
from tests.infra.aws.wire import Request

REQUEST_CODES = [one for one in known_codes() if "." not in one]
STATE_CODES = ["Server.SpotInstanceTermination", "Client.InstanceInitiatedShutdown",
               "Client.VolumeLimitExceeded", "Server.InternalError",
               "Server.InsufficientInstanceCapacity"]  # fmt: skip
_OF_ANY_REQUEST = [
    code for code, (kind, _) in known_codes().items() if kind in (Kind.THROTTLE, Kind.SERVER)
]
_ON_THE_WIRE = [LOST_REQUEST, LOST_REPLY, CUT, GARBAGE, SLOW, DONE_ALL_THE_SAME]


@dataclass
class Launch:
    """One sweep's fate, drawn from a seed. `crash_at` is the request at which its controller
    dies; `expired_after` when its credentials end."""

    bed: Bed
    found: Preflight
    seed: int
    chance: random.Random = field(init=False)
    requests: int = 0
    most_at_once: int = 0
    faults: list[str] = field(default_factory=list)
    crash_at: int = 0
    is_hot: bool = False

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.sweep_id = f"c{self.seed}"
        self.budget_usd = self.chance.choice([0.1, 0.2, 0.4, 1.0]) * self.chance.uniform(0.5, 2.0)
        self.fault_rate = self.chance.choice([0.0, 0.05, 0.15, 0.3])
        self.expired_after = self.chance.choice([None, None, None, self.chance.uniform(0, 90)])
        self.timers_work = self.chance.random() < 0.7
        self.bed.ways.lag_seconds = self.chance.choice([0.0, 5.0, 25.0])
        self.bed.endings.seconds = self.chance.choice([0.0, 20.0, 100.0])
        self.bed.ways.out = self._without_capacity()

    def run(self) -> None:
        """Up to three controllers, one after the other dies."""
        self.bed.faulty.plan, self.bed.faulty.on_answer = self.fault, self.on_answer
        self.began = self.bed.clock.now()
        minutes = self.chance.choice([10, 40, 240]) * self.chance.random()
        for number in range(3):
            if number:
                self._let_pass(self.chance.choice([0.1, 3.0, 40.0, 900.0]))
            self.crash_at = self.chance.randint(1, 60) if self.chance.random() < 0.6 else 0
            self.requests = 0
            try:
                self._rent(number, minutes)
            except Crashed:
                if self.chance.random() < 0.3:
                    return
                continue
            except AdvisorError:
                return
            return

    def reap_once(self) -> None:
        """One pass when the time of all that is left is over; nobody's credentials are broken."""
        self.bed.faulty.plan = lambda _: ""
        clock = self.bed.clock
        wait = (self._last_expiry() - clock.now()).total_seconds() + 1
        clock.sleep(max(0.0, wait))
        reap(self.bed.aws(), now=clock.now(), regions=REGIONS, at_once=1)

    def spent_usd(self) -> float:
        """What EC2 would have billed at most, from its own records."""
        return sum(map(_cost, self.bed.instances()))

    def most_usd(self) -> float:
        """The budget and one billing minute."""
        rates = [float(worn(one)[tags.USD_PER_HOUR]) for one in self.bed.instances()]
        return self.budget_usd + max(rates, default=0.0) / 60

    def fault(self, request: Request) -> str:
        """What happens to this request."""
        self.requests += 1
        if self.requests == self.crash_at:
            return self._noted(self.chance.choice([CRASH_BEFORE, CRASH_AFTER]))
        lived = (self.bed.clock.now() - self.began).total_seconds() / 60
        if self.expired_after is not None and lived > self.expired_after:
            return self._noted("ExpiredToken")
        # Trouble seldom comes alone: what follows a fault is as likely as not one, too.
        rate, self.is_hot = max(self.fault_rate, 0.5 * self.is_hot), False
        if self.chance.random() >= rate:
            return ""
        self.is_hot = True
        codes = REQUEST_CODES if request.operation == "RunInstances" else _OF_ANY_REQUEST
        return self._noted(self.chance.choice([*_ON_THE_WIRE, self.chance.choice(codes)]))

    def on_answer(self, request: Request) -> None:
        """After each request that was done: is there more than one instance?"""
        running = self.bed.instances("running")
        self.most_at_once = max(self.most_at_once, len(running))
        if request.operation == "RunInstances":
            for one in running:
                self._plan_end(one)

    def _let_pass(self, seconds: float) -> None:
        """Until somebody gives the command again. Of the three ends one works: where the guest's
        timer does not, a controller or the reaper comes before the instance's time is over."""
        if not self.timers_work:
            left = (self._last_expiry() - self.bed.clock.now()).total_seconds()
            seconds = min(seconds, left)
        self.bed.clock.sleep(seconds)

    def _rent(self, number: int, minutes: float) -> None:
        slot = a_slot(self.found, id=self.sweep_id, budget_usd=self.budget_usd, hours=3.0)
        clock = self.bed.clock
        rent(
            self.bed.aws(self.seed + number), slot, Ladder(self.found.rungs),
            Minutes(clock, minutes), queue=timedelta(minutes=4),
        )  # fmt: skip

    def _plan_end(self, instance: Any) -> None:
        """Its timer, and by chance an end that nobody asked for."""
        if getattr(instance, "is_planned", False):
            return
        instance.is_planned = True
        if self.timers_work:
            moment = tags.time_from(worn(instance)[tags.EXPIRES_AT])
            assert moment is not None
            self.bed.power_off_at(instance, moment, "Client.InstanceInitiatedShutdown")
        if self.chance.random() < 0.3:
            moment = self.bed.clock.now() + timedelta(minutes=self.chance.uniform(0, 60))
            self.bed.power_off_at(instance, moment, self._noted(self.chance.choice(STATE_CODES)))

    def _last_expiry(self) -> datetime:
        things = [one for one in self.bed.instances() if one.state != "terminated"]
        things += [*self.bed.volumes(), *self.bed.own_groups()]
        told = [tags.time_from(worn(one).get(tags.EXPIRES_AT, "")) for one in things]
        assert None not in told, "something was made without its tags"
        return max([self.bed.clock.now(), *filter(None, told)])

    def _without_capacity(self) -> set[tuple[str, str, str]]:
        offers = [(one.instance_type, one.zone, one.market) for one in self.found.rungs]
        share = self.chance.choice([0.0, 0.5, 0.9, 1.0])
        return {one for one in offers if self.chance.random() < share}

    def _noted(self, fault: str) -> str:
        self.faults.append(fault)
        return fault


def _cost(instance: Any) -> float:
    """From launch to end, by the second and at least a minute."""
    ended = instance._reason.partition("(")[2].partition(" UTC")[0]
    until = datetime.strptime(ended, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    seconds = max(60.0, (until - launched_at(instance)).total_seconds())
    return float(worn(instance)[tags.USD_PER_HOUR]) * seconds / 3600
