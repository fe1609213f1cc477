"""Asks AWS one question, and again where that helps, while somebody waits.

botocore itself tries once: it would silently ask again where capacity is out, and it does not know which of
our requests may be asked twice. All of them may: what makes something carries a token or a name that is
unique, and what ends something is done when there is nothing to end."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from advisor.errors import LiveError
from advisor.infra.aws.errors import AwsFailure, Reaction, Refused, Unanswered
from advisor.infra.live.session import Deadline, as_live_errors, client

# Seconds of one try, whatever hangs: name servers, what trickles, programs that fetch credentials.
TRY_SECONDS = 20.0
# Seconds for which a question is asked again.
PATIENCE_SECONDS = 60.0
# Between tries: full jitter below a bound that doubles (AWS Architecture Blog, "Exponential
# Backoff And Jitter").
_FIRST_SECONDS, _MOST_SECONDS = 0.5, 8.0

Clients = Callable[[str, str], Any]


def single_try_client(service: str, region: str) -> Any:
    """A client that asks once."""
    return client(service, region, attempts=1)


class Aws:
    """AWS as one program sees it: clients by service and region, a clock, and patience."""

    def __init__(
        self,
        clients: Clients = single_try_client,
        clock: Clock | None = None,
        chance: random.Random | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.clock = clock or Clock()
        self._patience = patience
        self._make = clients
        self._chance = chance or random.Random()
        self._clients: dict[tuple[str, str], Any] = {}
        self._making = threading.Lock()

    def ask(
        self,
        region: str,
        operation: str,
        /,
        service: str = "ec2",
        patience: float | None = None,
        **request: Any,
    ) -> dict[str, Any]:
        """The answer to `operation` (as boto3 writes it: `run_instances`). Raises `Refused` where AWS says
        no, `Unanswered` where no answer came in `patience` seconds, `LiveError` without credentials."""
        most = self._patience if patience is None else patience
        started, was_open = self.clock.now(), False
        for tries in range(1_000):
            try:
                return self._once(service, region, operation, request)
            except Refused as refused:
                refused.was_open = was_open
                if refused.reaction is not Reaction.ASK_AGAIN:
                    raise
                failed: Refused | Unanswered = refused
                was_open |= refused.kind is AwsFailure.SERVER
            except Unanswered as unanswered:
                failed, was_open = unanswered, True
            wait = self._chance.uniform(0, min(_MOST_SECONDS, _FIRST_SECONDS * 2**tries))
            if (self.clock.now() - started).total_seconds() + wait > most:
                break
            self.clock.sleep(wait)
        raise failed

    def by(self, clock: Clock) -> Aws:
        """This AWS with another clock."""
        return Aws(self.client, clock, self._chance, self._patience)

    def less_patient(self, seconds: float) -> Aws:
        """This AWS with at most so long a wait for one answer."""
        return Aws(self.client, self.clock, self._chance, seconds)

    def pages(
        self, region: str, operation: str, listed: str, /, service: str = "ec2", **request: Any
    ) -> Iterator[Mapping[str, Any]]:
        """Every item of the list named `listed` over all pages; each page is asked on its own."""
        token: str | None = None
        while True:
            more: dict[str, Any] = {} if token is None else {"NextToken": token}
            answer = self.ask(region, operation, service=service, **request, **more)
            if listed not in answer:
                raise Unanswered(operation, f"the answer has no {listed}")
            yield from answer[listed]
            token = answer.get("NextToken") or None
            if token is None:
                return

    def client(self, service: str, region: str) -> Any:
        """The client of a service; each is made once."""
        key = service, region
        with self._making:  # clients are for several threads, the sessions that make them are not
            if key not in self._clients:
                self._clients[key] = self._make(service, region)
            return self._clients[key]

    def _once(self, service: str, region: str, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        from botocore import exceptions
        from botocore.parsers import ResponseParserError

        ask = getattr(self.client(service, region), operation)
        try:
            answer: dict[str, Any] = Deadline(TRY_SECONDS).within(f"AWS {operation}", lambda: ask(**request))
        except exceptions.ClientError as error:
            facts = error.response.get("Error", {})
            code, message = facts.get("Code", ""), facts.get("Message", "")
            raise Refused(error.operation_name, code or "no code", message) from error
        except (
            exceptions.ConnectionError,
            exceptions.HTTPClientError,
            exceptions.IncompleteReadError,
            ResponseParserError,
            LiveError,
        ) as error:
            raise Unanswered(operation, type(error).__name__) from error
        except exceptions.BotoCoreError as error:
            with as_live_errors(operation):
                raise error
        if not answer.get("ResponseMetadata", {}).get("RequestId"):
            # botocore reads a captive portal's page as an answer with nothing in it.
            raise Unanswered(operation, "the answer is none of AWS's")
        return answer


# How soon somebody who waits long hears that he is to leave.
_NOTICED_AFTER_SECONDS = 1.0


class Clock:
    """The machine's clock, which waits and dates; tests have one that takes no time."""

    def now(self) -> datetime:
        """The time, aware, UTC."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class LeavingClock(Clock):
    """The clock of a thread that Ctrl-C does not reach: its next wait is interrupted once `stop` is set,
    as the main thread's would be. Later waits, on the way out, are waited for."""

    def __init__(self, clock: Clock, stop: threading.Event) -> None:
        self._clock = clock
        self._stop = stop
        self._leaves = False

    def now(self) -> datetime:
        """The time, aware, UTC."""
        return self._clock.now()

    def sleep(self, seconds: float) -> None:
        """Wait; raises `KeyboardInterrupt`, once."""
        left = seconds
        while left > 0:
            if self._stop.is_set() and not self._leaves:
                self._leaves = True
                raise KeyboardInterrupt
            part = left if self._leaves else min(left, _NOTICED_AFTER_SECONDS)
            self._clock.sleep(part)
            left -= part
