"""From one order to the one instance that its token stands for, whatever answers get lost."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from advisor.errors import AdvisorError
from infra.aws import machines
from infra.aws.asking import Aws
from infra.aws.errors import Kind, Reaction, Refused, Unanswered
from infra.aws.launch_options import Machine
from infra.aws.provisioning.requests import Order, run_instances
from infra.aws.provisioning.slots import Slot

# Lists of EC2 lag behind what was done, by seconds (EC2 API, "Eventual consistency").
VISIBLE_WITHIN = 30.0
POLL = 3.0


class Making:
    """Asks for orders of one slot, and knows of one whose answer is still open."""

    def __init__(self, aws: Aws, slot: Slot) -> None:
        self._aws = aws
        self._slot = slot
        self._open: Order | None = None

    def made(self, order: Order) -> Machine | None:
        """The instance that the order's token stands for, also where it came to nothing as it was
        made; None where that is one from before, which has ended.

        `Refused` says that none was made, `Unanswered` that nobody knows.
        """
        asked_at, region = self._aws.clock.now(), order.option.region
        self._open = order
        try:
            answer = self._aws.ask(region, "run_instances", **run_instances(order))
            told = machines.machine_from(answer["Instances"][0], region)
        except Refused as refused:
            return self._after_refusal(order, refused)
        except (Unanswered, LookupError) as error:
            return self._surely_by_token(order, error)
        seen = self._seen(told)
        self._open = None  # from now on lists show it: it can be ended
        if not seen.lives and seen.expires_at != order.expires_at:
            return None
        return replace(seen, launched_at=min(asked_at, seen.launched_at))

    def listed(self) -> list[Machine]:
        """The slot's instances in all its regions, oldest first."""
        slot = self._slot
        return machines.instances_of(self._aws, slot.region_names, slot.sweep.id, slot.name)

    def settle(self) -> Machine | None:
        """Where a request is still open (somebody interrupted it), wait until what it may have
        made shows in lists, so that it can be ended; that instance."""
        if self._open is not None:
            with suppress(AdvisorError):
                return self._by_token(self._open)
        return None

    def _after_refusal(self, order: Order, refused: Refused) -> Machine | None:
        """A refusal proves nothing where an earlier try of the same request stayed open."""
        if refused.reaction is Reaction.LAUNCH_AGAIN:  # the token's instance has ended
            self._open = None
            return None
        if refused.reaction is Reaction.FIND:
            return self._by_token(order)
        if refused.kind is Kind.SERVER:
            return self._surely_by_token(order, refused)
        if refused.was_open and (found := self._by_token(order)):
            return found
        self._open = None
        raise refused

    def _surely_by_token(self, order: Order, error: Exception) -> Machine:
        """The same where nobody knows whether there is one: no other offer is tried then."""
        found = self._by_token(order)
        if found is None:
            raise Unanswered("RunInstances", str(error)) from error
        return found

    def _by_token(self, order: Order) -> Machine | None:
        """The instance with the order's token; None where it has ended, or is long forgotten."""
        waited = 0.0
        while waited <= VISIBLE_WITHIN:
            for one in self.listed():
                if one.token == order.token:
                    self._open = None
                    return one if one.lives else None
            self._aws.clock.sleep(POLL)
            waited += POLL
        self._open = None
        return None

    def _seen(self, told: Machine) -> Machine:
        """As lists tell it, once they do: an answer may be that of an instance that has ended.

        Where they are not told, it is taken as the answer had it: its id must not get lost."""
        waited = 0.0
        while waited < VISIBLE_WITHIN:
            try:
                return machines.instance(self._aws, told.region, told.id)
            except machines.NotTold:
                self._aws.clock.sleep(POLL)
                waited += POLL
            except AdvisorError:
                break
        return told
