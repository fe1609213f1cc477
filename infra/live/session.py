"""boto3 clients that give up in time, and their errors in one line with the way out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from advisor.errors import LiveError
from advisor.infra.live.asking import NO_CREDENTIALS, THROTTLED, late, unreachable, unreadable

# Seconds. A person waits: four tries of this, then the snapshot answers.
CONNECT_SECONDS = 3
READ_SECONDS = 8
# Values that one filter of EC2 may have.
PORTION = 100
# Tries in all; botocore waits longer before each, also where the service throttles.
ATTEMPTS = 4


def client(service: str, region: str, *, attempts: int | None = None) -> Any:
    """A boto3 client of one service; AWS_ENDPOINT_URL is honoured, as boto3 does.

    `attempts` in all; None is what somebody who waits for prices has patience for.
    """
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
    """Whether boto3 finds credentials of AWS; whether they are right nobody asks."""
    try:
        import boto3
        from botocore.exceptions import BotoCoreError
    except ImportError:
        return False
    try:
        return boto3.session.Session().get_credentials() is not None
    except BotoCoreError:
        return True  # a profile that is not found, told where it is used


@cache
def _service_descriptions() -> Any:
    """botocore's descriptions of the services: EC2's is long, and is read once."""
    from botocore.loaders import create_loader

    return create_loader()


def in_portions(names: Sequence[str]) -> Iterator[list[str]]:
    """The names in lists that one request may hold."""
    for start in range(0, len(names), PORTION):
        yield list(names[start : start + PORTION])


@contextmanager
def as_live_errors(what: str) -> Iterator[None]:
    """Errors of boto3 as `LiveError`: which service, what happened, what to do."""
    from botocore import exceptions
    from botocore.parsers import ResponseParserError

    try:
        yield
    except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError):
        raise LiveError(
            "no AWS credentials",
            hint=(
                "run `aws configure`, or set AWS_PROFILE or AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY; everything but live prices works without"
            ),
            code=NO_CREDENTIALS,
        ) from None
    except exceptions.ProfileNotFound as error:
        raise LiveError(
            "{error}",
            hint="set AWS_PROFILE to another one, or run `aws configure`",
            code=NO_CREDENTIALS,
            error=error,
        ) from None
    except exceptions.ClientError as error:
        raise _refused(what, error) from error
    except (exceptions.ConnectTimeoutError, exceptions.ReadTimeoutError):
        raise late(f"AWS {what}") from None
    except (exceptions.EndpointConnectionError, exceptions.ConnectionError, exceptions.HTTPClientError):
        raise unreachable(f"AWS {what}") from None
    except ResponseParserError:
        raise unreadable(f"AWS {what}") from None
    except (exceptions.BotoCoreError, ValueError) as error:
        raise LiveError("AWS {what}: {error}", what=what, error=error) from error


def required(answer: Any, name: str, what: str) -> Any:
    """A field that every good answer has.

    botocore takes a body that is no JSON (a captive portal's page) for an empty answer.
    """
    if name not in answer:
        raise unreadable(f"AWS {what}")
    return answer[name]


def _refused(what: str, error: Any) -> LiveError:
    code, operation = error.response.get("Error", {}).get("Code", ""), error.operation_name
    if code in ("ExpiredToken", "ExpiredTokenException", "RequestExpired"):
        return LiveError("the AWS credentials have expired", hint="log in again", code=NO_CREDENTIALS)
    if code in ("AuthFailure", "UnrecognizedClientException", "InvalidClientTokenId"):
        return LiveError(
            "AWS {what} does not accept the credentials",
            hint="run `aws configure`",
            code=NO_CREDENTIALS,
            what=what,
        )
    if code in ("UnauthorizedOperation", "AccessDeniedException", "AccessDenied"):
        return LiveError(
            "the AWS credentials may not {operation}", hint="allow it, or ask without it", operation=operation
        )
    if "Throttl" in code or code == "RequestLimitExceeded":
        return LiveError(
            "AWS {what} throttles {operation}",
            hint="ask again in a minute",
            code=THROTTLED,
            what=what,
            operation=operation,
        )
    return LiveError(
        "AWS {what} refused {operation}: {reason}", what=what, operation=operation, reason=code or error
    )
