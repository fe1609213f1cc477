"""Quotes of clouds; boto3 clients with time limits; and boto3's errors in one line with a hint."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from datetime import date
from functools import cache
from itertools import islice
from typing import Any, TypeVar

from msgspec import Struct

from advisor.domain import Market
from advisor.errors import LiveError

# Upper limit of plausible prices: a rack of 72 GB200 costs less than $1,000 an hour.
MOST_USD_PER_HOUR = 20_000.0


class Quote(Struct, frozen=True, kw_only=True):
    """A cloud's price of a type; `zone` is the cheapest one for spot; `terms` are remarks, or empty."""

    instance_type: str
    region: str
    market: Market
    usd_per_hour: float
    as_of: date
    zone: str = ""
    estimated: bool = False
    terms: str = ""


class NoQuote(Struct, frozen=True, kw_only=True):
    """The reason why a type has no quote; `unlisted`: the price list lacks the type."""

    instance_type: str
    why: str
    unlisted: bool = False


def price_from(amount: object) -> float | None:
    """A plausible price above 0; None for others, such as the zeros that some lists have."""
    if isinstance(amount, bool) or not isinstance(amount, (int, float, str)):
        return None
    try:
        usd = float(amount)
    except (ValueError, OverflowError):
        return None
    return usd if 0 < usd <= MOST_USD_PER_HOUR else None


def one_price(
    name: str, prices: Collection[float], where: tuple[str, Market], today: date
) -> Quote | NoQuote:
    """The quote for exactly one price; otherwise `NoQuote`."""
    region, market = where
    if not prices:
        why = f"the price list has no {market} price in {region}"
        return NoQuote(instance_type=name, why=why, unlisted=True)
    if len(prices) > 1:
        several = ", ".join(f"${price:g}" for price in sorted(prices))
        return NoQuote(instance_type=name, why=f"the price list has several prices: {several}")
    (usd,) = prices
    return Quote(instance_type=name, region=region, market=market, usd_per_hour=usd, as_of=today)


# Error codes by which programs decide whether to retry.
NO_CREDENTIALS, THROTTLED = "no_credentials", "throttled"


def late(service: str) -> LiveError:
    """The error for a service that accepted the request but did not answer."""
    return LiveError(f"{service} did not answer in time", hint="ask again later")


def unreachable(service: str) -> LiveError:
    """The error for a failed connection."""
    return LiveError(f"{service} cannot be reached", hint="the known prices stay as they are")


def unreadable(service: str) -> LiveError:
    """The error for an answer that is not in the documented form."""
    return LiveError(f"{service} answered what cannot be read", hint="is a proxy in between?")


Answer = TypeVar("Answer")


class Deadline:
    """A time limit for all requests together (`seconds`) and for each one (`each`)."""

    def __init__(self, seconds: float, each: float | None = None) -> None:
        self._end = time.monotonic() + seconds
        self._each = each or seconds

    def within(self, what: str, ask: Callable[[], Answer], *, each: float | None = None) -> Answer:
        """The result of `ask`, or its error; `LiveError` if the time is over first. `each` replaces the limit
        of this one request."""
        seconds = max(0.0, min(each or self._each, self._end - time.monotonic()))
        if seconds <= 0:
            raise LiveError(f"{what}: no time is left to ask for it", hint="ask again later")
        answer: Future[Answer] = Future()

        def work() -> None:
            try:
                answer.set_result(ask())
            except BaseException as error:
                answer.set_exception(error)

        # A daemon thread does not keep the program from ending.
        threading.Thread(target=work, daemon=True).start()
        if not wait([answer], seconds).done:
            raise LiveError(f"{what} did not answer within {seconds:.0f} seconds", hint="ask again later")
        return answer.result()


def each_within(seconds: float, what: str, answers: Iterable[Answer]) -> Iterator[Answer]:
    """The items of a slow iterator; `LiveError` if one takes longer than `seconds`."""
    source = iter(answers)
    while True:
        entry = Deadline(seconds).within(what, lambda: list(islice(source, 1)))
        if not entry:
            return
        yield from entry


# Limits for one attempt. After four attempts the bundled snapshot is used, since a user waits.
CONNECT_SECONDS = 3
READ_SECONDS = 8
# The most values that a filter of EC2 may have.
PORTION = 100
# Attempts in total; botocore waits longer before each one.
ATTEMPTS = 4


def client(service: str, region: str, *, attempts: int | None = None) -> Any:
    """A boto3 client of a service; as usual, AWS_ENDPOINT_URL is honoured. `attempts` in total; None:
    `ATTEMPTS`."""
    import boto3
    import botocore.session
    from botocore.config import Config

    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"total_max_attempts": attempts or ATTEMPTS, "mode": "standard"},
    )
    with as_live_errors(service):
        own = botocore.session.get_session()
        own.register_component("data_loader", _service_descriptions())
        session: Any = boto3.session.Session(botocore_session=own)
        return session.client(service, region_name=region, config=config)


def has_credentials() -> bool:
    """True if boto3 finds AWS credentials, valid or not."""
    try:
        import boto3
        from botocore.exceptions import BotoCoreError
    except ImportError:
        return False
    try:
        return boto3.session.Session().get_credentials() is not None
    except BotoCoreError:
        return True  # a missing profile is reported when it is used


@cache
def _service_descriptions() -> Any:
    """botocore's loader of service descriptions, cached because EC2's description is long."""
    from botocore.loaders import create_loader

    return create_loader()


def in_portions(names: Sequence[str]) -> Iterator[list[str]]:
    """The names in lists short enough for one request."""
    for start in range(0, len(names), PORTION):
        yield list(names[start : start + PORTION])


@contextmanager
def as_live_errors(what: str) -> Iterator[None]:
    """Turn boto3's errors in the block into `LiveError` with the service, the problem, and a hint."""
    from botocore import exceptions
    from botocore.parsers import ResponseParserError

    try:
        yield
    except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError):
        hint = "run `aws configure`, or set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        raise LiveError("no AWS credentials", hint=hint, code=NO_CREDENTIALS) from None
    except exceptions.ProfileNotFound as error:
        hint = "set AWS_PROFILE to another one, or run `aws configure`"
        raise LiveError(str(error), hint=hint, code=NO_CREDENTIALS) from None
    except exceptions.ClientError as error:
        raise _refused(what, error) from error
    except (exceptions.ConnectTimeoutError, exceptions.ReadTimeoutError):
        raise late(f"AWS {what}") from None
    except (exceptions.EndpointConnectionError, exceptions.ConnectionError, exceptions.HTTPClientError):
        raise unreachable(f"AWS {what}") from None
    except ResponseParserError:
        raise unreadable(f"AWS {what}") from None
    except (exceptions.BotoCoreError, ValueError) as error:
        raise LiveError(f"AWS {what}: {error}") from error


def required(answer: Any, name: str, what: str) -> Any:
    """A field of an answer; `LiveError` without it: botocore reads a captive portal's page as empty."""
    if name not in answer:
        raise unreadable(f"AWS {what}")
    return answer[name]


def _refused(what: str, error: Any) -> LiveError:
    code, operation = error.response.get("Error", {}).get("Code", ""), error.operation_name
    text, hint, known = f"AWS {what} refused {operation}: {code or error}", None, ""
    if code in ("ExpiredToken", "ExpiredTokenException", "RequestExpired"):
        text, hint, known = "the AWS credentials have expired", "log in again", NO_CREDENTIALS
    elif code in ("AuthFailure", "UnrecognizedClientException", "InvalidClientTokenId"):
        text, hint = f"AWS {what} does not accept the credentials", "run `aws configure`"
        known = NO_CREDENTIALS
    elif code in ("UnauthorizedOperation", "AccessDeniedException", "AccessDenied"):
        text, hint = f"the AWS credentials may not {operation}", "allow it, or ask without it"
    elif "Throttl" in code or code == "RequestLimitExceeded":
        text, hint, known = f"AWS {what} throttles {operation}", "ask again in a minute", THROTTLED
    return LiveError(text, hint=hint, code=known)
