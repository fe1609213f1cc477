"""However a thousand launches go wrong, nothing is left, nothing is double, no budget is passed."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from advisor.errors import AdvisorError
from advisor.infra.aws import tags
from advisor.infra.aws.errors import AwsFailure, error_codes
from advisor.infra.aws.orders import Fallbacks
from advisor.infra.aws.preflight import Preflight
from advisor.infra.aws.provisioned import provision
from advisor.infra.aws.reap import reap
from tests.infra.aws import faults
from tests.infra.aws.bed import REGIONS, Bed, launched_at, worn
from tests.infra.aws.builders import Minutes, a_slot, looked
from tests.infra.aws.faults import Crashed
from tests.infra.aws.wire import Request


@pytest.mark.night
def test_launches_with_faults_of_every_code_leave_nothing(bed: Bed) -> None:
    """One after the other in one account; what did not hold is told seed by seed."""
    result = looked(bed, "g4dn.xlarge", "g4dn.2xlarge", regions=("us-east-1", "us-east-2"))
    wrong, with_instance, faults = {}, 0, Counter[str]()
    for seed in range(2_000, 2_130):
        bed.forget()
        entry = Launch(bed, result, seed)
        entry.run()
        with_instance += bool(bed.instances())
        faults += entry.faults
        wrong |= {seed: entry.wrong} if entry.wrong else {}
    assert wrong == {}
    assert with_instance > 50
    assert set(error_codes()) <= set(faults)


# One sweep with everything going wrong by chance, and what must hold all the same.

REQUEST_CODES = [error_code for error_code in error_codes() if "." not in error_code]
STATE_CODES = [
    "Server.SpotInstanceTermination",
    "Client.InstanceInitiatedShutdown",
    "Client.VolumeLimitExceeded",
    "Server.InternalError",
    "Server.InsufficientInstanceCapacity",
]
_OF_ANY_REQUEST = [
    code for code, (kind, _) in error_codes().items() if kind in (AwsFailure.THROTTLE, AwsFailure.SERVER)
]
_ON_THE_WIRE = [
    faults.LOST_REQUEST,
    faults.LOST_REPLY,
    faults.CUT,
    faults.GARBAGE,
    faults.SLOW,
    faults.DONE_ALL_THE_SAME,
]
_DONE_NOT_TOLD = [faults.LOST_REPLY, faults.CUT, faults.GARBAGE, faults.DONE_ALL_THE_SAME]
_NEXT_ONES = [code for code, (_, reaction) in error_codes().items() if str(reaction).startswith("next_")]
_ENDS = [faults.CRASH_BEFORE, faults.CRASH_AFTER] * 2 + [faults.CTRL_C_BEFORE, faults.CTRL_C_AFTER]
_DONE, _GAVE_UP, _CUT_OFF, _KILLED = "done", "gave up", "interrupted", "killed"


class Launch:
    """One sweep's fate, drawn from a seed: what goes wrong, at which request its controller dies,
    when its credentials end, whether its instances' own timers work."""

    def __init__(self, bed: Bed, result: Preflight, seed: int) -> None:
        self.bed, self.found, self.seed = bed, result, seed
        self.chance = chance = random.Random(seed)
        self.sweep_id = f"c{seed}"
        self.budget_usd = chance.choice([0.1, 0.2, 0.4, 1.0]) * chance.uniform(0.5, 2.0)
        self.fault_rate = chance.choice([0.0, 0.05, 0.15, 0.3])
        self.expired_after = chance.choice([None, None, None, chance.uniform(0, 90)])
        self.timers_work = chance.random() < 0.6
        self.faults: Counter[str] = Counter()
        self.fates: list[str] = []
        self.wrong: list[str] = []
        self.requests = self.end_at = 0
        self.is_hot = False
        bed.ways.lag_seconds = chance.choice([0.0, 5.0, 25.0])
        self.script = self._drawn_script()
        self.is_calm = not (self.fault_rate or self.expired_after or self.script)
        bed.endings.seconds = chance.choice([0.0, 20.0, 100.0])
        bed.ways.out = self._without_capacity()
        bed.faulty.plan, bed.faulty.on_answer = self.fault, self.on_answer

    def run(self) -> None:
        """Up to three controllers, one after the other dies; then one pass of the reaper."""
        self.began = self.bed.clock.now()
        minutes = self.chance.choice([10, 40, 240]) * self.chance.random()
        for number in range(3):
            if number:
                self._let_pass(self.chance.choice([0.1, 3.0, 40.0, 900.0]))
            self.end_at = self.chance.randint(1, 60) if self.chance.random() < 0.5 else 0
            self.requests = 0
            self.fates.append(self._rented(number, minutes))
            if self.fates[-1] in (_DONE, _GAVE_UP) or self.chance.random() < 0.3:
                break
        self._check_ends()
        self._reap_once()

    @property
    def spent_usd(self) -> float:
        return sum(map(_cost, self.bed.instances()))

    @property
    def minutes_over(self) -> float:
        """Billing minutes beyond the budget, of the dearest instance; negative within it."""
        rates = [float(worn(instance)[tags.USD_PER_HOUR]) for instance in self.bed.instances()]
        over = self.spent_usd - self.budget_usd
        return over / (max(rates) / 60) if rates else 0.0

    def fault(self, request: Request) -> str:
        self.requests += 1
        if self.requests == self.end_at:
            return self._noted(self.chance.choice(_ENDS))
        if self.script and request.operation == "RunInstances":
            return self._noted(self.script.pop(0))
        lived = (self.bed.clock.now() - self.began).total_seconds() / 60
        if self.expired_after is not None and lived > self.expired_after:
            return self._noted("ExpiredToken")
        # Trouble seldom comes alone: what follows a fault is as likely as not one, too.
        rate, self.is_hot = max(self.fault_rate, 0.5 * self.is_hot), False
        if self.chance.random() >= rate:
            return ""
        self.is_hot = True
        codes = REQUEST_CODES if request.operation == "RunInstances" else _OF_ANY_REQUEST
        return self._noted(self.chance.choice(self.chance.choice([_ON_THE_WIRE, codes])))

    def on_answer(self, request: Request) -> None:
        """After each request that was done: is there more than one instance?"""
        if request.operation != "RunInstances":
            return
        running = self.bed.instances("running")
        if len(running) > 1:
            self.wrong.append(f"{len(running)} instances at once")
        for process in running:
            self._plan_end(process)

    def _drawn_script(self) -> list[str]:
        """What seldom comes together by chance: a launch that was done, not told, and then refused;
        a controller that is killed when it was done, and lists that tell of it late, so that
        nothing but the token does."""
        drawn = self.chance.random()
        if drawn < 0.15:
            return [self.chance.choice(_DONE_NOT_TOLD), self.chance.choice(_NEXT_ONES)]
        if drawn < 0.25:
            self.fault_rate, self.bed.ways.lag_seconds = 0.0, 50.0
            return [faults.CRASH_AFTER]
        return []

    def _rented(self, number: int, minutes: float) -> str:
        slot = a_slot(self.found, id=self.sweep_id, budget_usd=self.budget_usd, hours=3.0)
        try:
            provision(
                self.bed.aws(self.seed + number),
                slot,
                Fallbacks(self.found.options),
                Minutes(self.bed.clock, minutes),
                queue=timedelta(minutes=4),
            )
        except Crashed:
            return _KILLED
        except KeyboardInterrupt:
            return _CUT_OFF
        except AdvisorError:
            return _GAVE_UP
        return _DONE

    def _let_pass(self, seconds: float) -> None:
        """Until somebody gives the command again. Of the three ends one works: where the guest's
        timer does not, a controller or the reaper comes before the instance's time is over."""
        if not self.timers_work:
            left = (self._last_expiry() - self.bed.clock.now()).total_seconds()
            seconds = min(seconds, left)
        self.bed.clock.sleep(seconds)

    def _check_ends(self) -> None:
        """What the first two ends must have done by themselves, before the reaper comes."""
        expected = (_DONE, _CUT_OFF, *([_GAVE_UP] if self.is_calm else []))
        if self.fates[-1] in expected and (left := self.bed.left()):
            self.wrong.append(f"left by a controller that {self.fates[-1]}: {left}")
        wait = (self._last_expiry() - self.bed.clock.now()).total_seconds() + 1
        self.bed.clock.sleep(max(0.0, wait))
        if self.timers_work and (billed := self._billed_when_ended()):
            self.wrong.append(f"billed when its own timer had ended it: {billed}")

    def _billed_when_ended(self) -> list[str]:
        clock, billed = self.bed.clock, self.bed.billed()
        if billed and self.bed.endings.seconds:  # volumes go with their instances, at the end
            clock.sleep(self.bed.endings.seconds)
            billed = self.bed.billed()
        return billed

    def _reap_once(self) -> None:
        """One pass when the time of all that is left is over; nobody's credentials are broken."""
        self.bed.faulty.plan = lambda _: ""
        reap(self.bed.aws(), now=self.bed.clock.now(), regions=REGIONS, at_once=1)
        if left := self.bed.left():
            self.wrong.append(f"left by the reaper: {left}")
        if self.minutes_over > 1 + 1e-6:
            self.wrong.append(f"{self.minutes_over:.2f} minutes over the budget")

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
        things = [instance for instance in self.bed.instances() if instance.state != "terminated"]
        things += [*self.bed.volumes(), *self.bed.own_groups()]
        expected = [tags.time_from(worn(thing).get(tags.EXPIRES_AT, "")) for thing in things]
        if None in expected:
            self.wrong.append("something was made without its tags")
        return max([self.bed.clock.now(), *filter(None, expected)])

    def _without_capacity(self) -> set[tuple[str, str, str]]:
        offers = [(option.instance_type, option.zone, option.market) for option in self.found.options]
        share = self.chance.choice([0.0, 0.5, 0.9, 1.0])
        return {offer for offer in offers if self.chance.random() < share}

    def _noted(self, fault: str) -> str:
        self.faults[fault] += 1
        return fault


def _cost(instance: Any) -> float:
    """From launch to end, by the second and at least a minute."""
    ended = (instance._reason or "").partition("(")[2].partition(" UTC")[0]
    until = datetime.strptime(ended, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    seconds = max(60.0, (until - launched_at(instance)).total_seconds())
    return float(worn(instance)[tags.USD_PER_HOUR]) * seconds / 3600
