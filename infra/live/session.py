"""boto3 clients that give up in time, and their errors in one line with the way out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from advisor.errors import LiveError

# Seconds. A person waits: four tries of this, then the snapshot answers.
CONNECT_SECONDS = 3
READ_SECONDS = 8
# Values that one filter of EC2 may have.
PORTION = 100
# Tries in all; botocore waits longer before each, also where the service throttles.
ATTEMPTS = 4
_CREDENTIALS = (
    "no AWS credentials: run `aws configure`, or set AWS_PROFILE or AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY; everything but live prices works without"
)


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


@cache
def _service_descriptions() -> Any:
    """What botocore knows of the services: EC2's description is long, and is read once."""
    from botocore.loaders import create_loader

    return create_loader()


def in_portions(names: Sequence[str]) -> Iterator[list[str]]:
    """The names in lists that one request may hold."""
    for start in range(0, len(names), PORTION):
        yield list(names[start : start + PORTION])


@contextmanager
def as_live_errors(what: str) -> Iterator[None]:
    """Errors of boto3 as `LiveError`: which service, what happened, what to do."""
    from botocore import exceptions as known
    from botocore.parsers import ResponseParserError

    try:
        yield
    except (known.NoCredentialsError, known.PartialCredentialsError):
        raise LiveError(_CREDENTIALS) from None
    except known.ProfileNotFound as error:
        raise LiveError(
            "{error}: set AWS_PROFILE to another, or run `aws configure`", error=error
        ) from None
    except known.ClientError as error:
        raise LiveError(_refused(what, error)) from error
    except (known.ConnectTimeoutError, known.ReadTimeoutError):
        raise LiveError(
            "AWS {what} did not answer in time", hint="ask again later", what=what
        ) from None
    except (known.EndpointConnectionError, known.ConnectionError, known.HTTPClientError):
        raise LiveError(
            "AWS {what} cannot be reached from here", hint="ask without it", what=what
        ) from None
    except ResponseParserError:
        raise LiveError(_unreadable(what)) from None
    except (known.BotoCoreError, ValueError) as error:
        raise LiveError("AWS {what}: {error}", what=what, error=error) from error


def required(answer: Any, name: str, what: str) -> Any:
    """A field that every good answer has.

    botocore takes a body that is no JSON (a captive portal's page) for an empty answer.
    """
    if name not in answer:
        raise LiveError(_unreadable(what))
    return answer[name]


def _unreadable(what: str) -> str:
    return f"AWS {what} answered what cannot be read; is a proxy in between?"


def _refused(what: str, error: Any) -> str:
    code = error.response.get("Error", {}).get("Code", "")
    if code in ("ExpiredToken", "ExpiredTokenException", "RequestExpired"):
        return "the AWS credentials have expired; log in again"
    if code in ("AuthFailure", "UnrecognizedClientException", "InvalidClientTokenId"):
        return f"AWS {what} does not accept the credentials; run `aws configure`"
    if code in ("UnauthorizedOperation", "AccessDeniedException", "AccessDenied"):
        return f"the AWS credentials may not {error.operation_name}; allow it, or ask without it"
    if "Throttl" in code or code == "RequestLimitExceeded":
        return f"AWS {what} throttles {error.operation_name}; ask again in a minute"
    return f"AWS {what} refused {error.operation_name}: {code or error}"
