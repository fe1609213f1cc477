"""The reaper: removes what sweeps left on AWS after its time, in every region.

The third of three independent ends (a timer in the guest, the controller's `finally`, this). It knows nothing
but tags and the clock. Only what says `advisor:managed` = `true` and has an `advisor:expires-at` in the past
is touched; nothing is detached or emptied by force."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import chain
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from advisor.errors import AdvisorError
from advisor.infra.aws import machines
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.budget import BILLING_MINUTE, Meter
from advisor.infra.aws.errors import AwsFailure, Refused, kind_of
from advisor.infra.aws.launch_options import LaunchedMachine
from advisor.infra.aws.managed import KINDS, Managed, Remaining, enabled_regions, managed_of, remove_all
from advisor.infra.aws.permissions import reaping_refusal

# Of a minute, so much may go into asking: the budget is looked at every minute all the same.
_PATIENCE = 20.0
# Lists do not know an instance for seconds after its launch.
_FORGIVEN = timedelta(minutes=2)


class Why(StrEnum):
    """Why nothing more is waited for."""

    DONE = "done"
    FAILED = "failed"
    BUDGET = "budget"
    EXPIRED = "expired"
    SHUT_DOWN = "shut_down"  # by the guest itself, without a word
    TAKEN_BACK = "taken_back"
    ENDED = "ended"


class Work(Protocol):
    """The work of an instance; results come back by themselves (a database, S3)."""

    def reported(self, machine: LaunchedMachine) -> Why | None:
        """The guest's own report of its end (`done`, `failed`, `expired`, `taken_back`); None while it
        works, or is silent. Collects results that have come back."""

    def on_minute(self, machine: LaunchedMachine, spent_usd: float, trouble: str) -> None:
        """Tell where it stands; `trouble` is why AWS could not be asked."""

    def on_end(self, outcome: Outcome) -> None:
        """Keep what the instance leaves behind; what it held is removed after this."""


class Outcome(Struct, frozen=True, kw_only=True):
    """The end of an instance's time; `code` is EC2's state reason where the instance ended by itself."""

    why: Why
    machine: LaunchedMachine
    at: datetime
    code: str = ""


def watch(aws: Aws, machine: LaunchedMachine, meter: Meter, work: Work) -> Outcome:
    """Wait until the work is done, the budget or the time is over, or the instance has ended. The budget is
    looked at by the clock alone: it holds while AWS answers nothing at all."""
    while True:
        began = aws.clock.now()
        if why := _over(machine, meter, began) or work.reported(machine):
            return Outcome(why=why, machine=machine, at=began)
        machine, trouble = _looked(aws, machine)
        if not machine.lives:
            why = work.reported(machine) or _ending(machine)
            return Outcome(why=why, machine=machine, at=began, code=machine.reason)
        work.on_minute(machine, meter.spent(began), trouble)
        used = (aws.clock.now() - began).total_seconds()
        aws.clock.sleep(max(1.0, BILLING_MINUTE.total_seconds() - used))


def _over(machine: LaunchedMachine, meter: Meter, now: datetime) -> Why | None:
    if not meter.pays_next_minute(now):
        return Why.BUDGET
    if machine.expires_at and now + BILLING_MINUTE > machine.expires_at:
        return Why.EXPIRED
    return None


def _looked(aws: Aws, machine: LaunchedMachine) -> tuple[LaunchedMachine, str]:
    """The instance as it is now; as it was, with the reason, where that is not known."""
    try:
        return machines.instance(aws, machine.region, machine.id, patience=_PATIENCE), ""
    except machines.NotListed as error:
        gone = aws.clock.now() - machine.launched_at > _FORGIVEN
        return machines.as_ended(machine) if gone else machine, str(error)
    except AdvisorError as error:
        return machine, str(error)


def _ending(machine: LaunchedMachine) -> Why:
    kind = kind_of(machine.reason)
    if kind is AwsFailure.SPOT_TAKEN_BACK:
        return Why.TAKEN_BACK
    return Why.SHUT_DOWN if kind is AwsFailure.OWN_END else Why.ENDED


REGIONS_AT_ONCE = 8
HOME_REGION = "us-east-1"  # lists the regions there are


class Unlisted(Struct, frozen=True, kw_only=True):
    """Things of a kind ("all": of any) that a region did not list, and why."""

    region: str
    kind: str
    reason: str


class Reaped(Struct, frozen=True, kw_only=True):
    """The result of a pass. `expired` was to be removed; `remaining` are those of it that are still there
    (none in a dry run, which tries nothing), `kept` those whose time is not over or unknown."""

    now: datetime
    dry_run: bool
    regions: tuple[str, ...]
    expired: tuple[Managed, ...]
    kept: tuple[Managed, ...]
    remaining: tuple[Remaining, ...]
    not_listed: tuple[Unlisted, ...]

    @property
    def removed(self) -> tuple[Managed, ...]:
        """The resources that are gone now."""
        if self.dry_run:
            return ()
        there = {entry.thing for entry in self.remaining}
        return tuple(entry for entry in self.expired if entry not in there)


def reap(
    session_or_clients: Any,
    *,
    now: datetime,
    owner: str | None = None,
    dry_run: bool = False,
    regions: Sequence[str] = (),
    at_once: int = REGIONS_AT_ONCE,
) -> Reaped:
    """Remove what has expired, in all regions of the account or in these. Takes an `Aws`, a boto3 session, or
    a function from (service, region) to a client. What fails is listed and hinders nothing else;
    `AdvisorError` where not even the regions are known."""
    if now.tzinfo is None:
        raise ValueError("now has to be an aware time")
    aws = as_aws(session_or_clients)
    wanted = tuple(dict.fromkeys(regions)) or tuple(enabled_regions(aws, HOME_REGION))
    answers = each_at_once(lambda region: _reap_region(aws, region, now, owner, dry_run), wanted, at_once)
    return Reaped(
        now=now,
        dry_run=dry_run,
        regions=wanted,
        expired=tuple(chain.from_iterable(answer.expired for answer in answers)),
        kept=tuple(chain.from_iterable(answer.kept for answer in answers)),
        remaining=tuple(chain.from_iterable(answer.remaining for answer in answers)),
        not_listed=tuple(chain.from_iterable(answer.not_listed for answer in answers)),
    )


def as_aws(session_or_clients: Any) -> Aws:
    """An `Aws` of what somebody has: one, a boto3 session, or a function that makes clients."""
    if isinstance(session_or_clients, Aws):
        return session_or_clients
    if not hasattr(session_or_clients, "client"):
        return Aws(session_or_clients)
    taking = threading.Lock()  # clients are for several threads, sessions are not

    def client(service: str, region: str) -> Any:
        with taking:
            return session_or_clients.client(service, region_name=region)

    return Aws(client)


def _reap_region(aws: Aws, region: str, now: datetime, owner: str | None, dry_run: bool) -> Reaped:
    result, not_listed = _expired_in(aws, region, owner)
    expired = [entry for entry in result if entry.is_expired(now)]
    return Reaped(
        now=now,
        dry_run=dry_run,
        regions=(region,),
        expired=tuple(expired),
        kept=tuple(entry for entry in result if not entry.is_expired(now)),
        remaining=() if dry_run else tuple(remove_all(aws, expired)),
        not_listed=tuple(not_listed),
    )


def _expired_in(aws: Aws, region: str, owner: str | None) -> tuple[list[Managed], list[Unlisted]]:
    """Expired resources of a region; a kind that may not be listed hinders no other one."""
    result: list[Managed] = []
    not_listed: list[Unlisted] = []
    for kind in KINDS:
        try:
            result += managed_of(aws, kind, region, owner=owner)
        except AdvisorError as error:
            if not isinstance(error, Refused) or error.kind is AwsFailure.CREDENTIALS:
                # Nobody answers, or nobody is known: nor would they for other kinds.
                answer = Unlisted(region=region, kind="all", reason=reaping_refusal(error))
                return result, [*not_listed, answer]
            answer = Unlisted(region=region, kind=kind.name, reason=reaping_refusal(error))
            not_listed.append(answer)
    return result, not_listed


Thing = TypeVar("Thing")
Answer = TypeVar("Answer")


def each_at_once(work: Callable[[Thing], Answer], things: Sequence[Thing], most: int) -> list[Answer]:
    """`work` of each thing, in their order, by so many threads at most; what one raises is raised. The
    threads are daemons: Ctrl-C does not wait for what they are asking, as that of a `ThreadPoolExecutor`
    does."""
    left: queue.SimpleQueue[tuple[Thing, Future[Answer]]] = queue.SimpleQueue()
    futures = [Future[Answer]() for _ in things]
    for pair in zip(things, futures, strict=True):
        left.put(pair)

    def run() -> None:
        with suppress(queue.Empty):
            while True:
                thing, future = left.get_nowait()
                try:
                    future.set_result(work(thing))
                except BaseException as error:
                    future.set_exception(error)

    for _ in range(min(most, len(things))):
        threading.Thread(target=run, daemon=True).start()
    wait(futures)
    return [future.result() for future in futures]
