"""Sends requests to AWS, with retries where they help.

botocore's retries are off, since it would silently repeat a request for which capacity is out. All of our
requests may be repeated: those that create resources carry a unique token or name, and those that end
resources succeed if there is nothing to end."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from advisor.errors import LiveError
from advisor.infra.aws.errors import AwsFailure, Reaction, Refused, Unanswered
from advisor.infra.live.session import Deadline, as_live_errors, client

# Limit for one attempt, including slow name servers, trickling answers, and credential programs.
TRY_SECONDS = 20.0
# Seconds after which a request is no longer repeated.
PATIENCE_SECONDS = 60.0
# Pause between attempts: full jitter below a bound that doubles (AWS Architecture Blog, "Exponential
# Backoff And Jitter").
_FIRST_SECONDS, _MOST_SECONDS = 0.5, 8.0

Clients = Callable[[str, str], Any]


class Aws:
    """Access to AWS: boto3 clients by service and region, a clock, and the patience for retries."""

    def __init__(
        self,
        clients: Clients | None = None,
        clock: Clock | None = None,
        chance: random.Random | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.clock = clock or Clock()
        self._patience = patience
        self._make = clients or partial(client, attempts=1)
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
        """The answer to `operation` (boto3's name: `run_instances`). Raises `Refused` if AWS refuses,
        `Unanswered` if no answer came within `patience` seconds, `LiveError` without credentials."""
        most = self._patience if patience is None else patience
        started, was_open = self.clock.now(), False
        for tries in range(1_000):
            try:
                return self._answer(service, region, operation, request)
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
        """The same access with another clock."""
        return Aws(self.client, clock, self._chance, self._patience)

    def less_patient(self, seconds: float) -> Aws:
        """The same access with another patience."""
        return Aws(self.client, self.clock, self._chance, seconds)

    def pages(
        self, region: str, operation: str, listed: str, /, service: str = "ec2", **request: Any
    ) -> Iterator[Mapping[str, Any]]:
        """All items of the answer's list `listed`, over all pages."""
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
        """The client of a service in a region; each is created once."""
        key = service, region
        with self._making:  # clients are thread-safe, but the sessions that create them are not
            if key not in self._clients:
                self._clients[key] = self._make(service, region)
            return self._clients[key]

    def _answer(
        self, service: str, region: str, operation: str, request: Mapping[str, Any]
    ) -> dict[str, Any]:
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
            # botocore reads a captive portal's page as an empty answer.
            raise Unanswered(operation, "the answer is none of AWS's")
        return answer


# How soon a long wait notices `stop`.
_NOTICED_AFTER_SECONDS = 1.0


class Clock:
    """The machine's clock; tests replace it with one that does not wait."""

    def now(self) -> datetime:
        """The current time, aware, in UTC."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Wait for some seconds."""
        time.sleep(seconds)


class LeavingClock(Clock):
    """A clock for threads, which Ctrl-C does not reach: once `stop` is set, its current wait raises
    `KeyboardInterrupt`, as in the main thread. Later waits, during the cleanup, are normal."""

    def __init__(self, clock: Clock, stop: threading.Event) -> None:
        self._clock = clock
        self._stop = stop
        self._leaves = False

    def now(self) -> datetime:
        """The current time, aware, in UTC."""
        return self._clock.now()

    def sleep(self, seconds: float) -> None:
        """Wait; raises `KeyboardInterrupt` once after `stop` is set."""
        left = seconds
        while left > 0:
            if self._stop.is_set() and not self._leaves:
                self._leaves = True
                raise KeyboardInterrupt
            part = left if self._leaves else min(left, _NOTICED_AFTER_SECONDS)
            self._clock.sleep(part)
            left -= part
