"""A parcel as JSON posted to an https address, signed where there is a secret.

The signature is that of Standard Webhooks (standardwebhooks.com, "webhook signatures"), for which
receivers have libraries: HMAC-SHA256 over `id.timestamp.body`, base64, `v1,` in front. The secret
is in ADVISOR_WEBHOOK_SECRET, plain or as `whsec_<base64>`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import ssl
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, urlsplit

from advisor.errors import DeliveryError, UsageError, one_line
from advisor.runs.delivery.addresses import is_loopback
from advisor.runs.delivery.parcel import Parcel, PassingTroubleError

SECRET_VARIABLE = "ADVISOR_WEBHOOK_SECRET"
TIMEOUT_SECONDS = 10.0
_MOST_WAIT_SECONDS = 60.0
_SAID_BYTES = 200
# RFC 9110 and 8470: the request may be sent again as it is.
_PASSING = (408, 425, 429)


@dataclass(frozen=True, slots=True)
class HookTarget:
    """An address that takes a POST. Its path and query may be a secret, and are never shown."""

    url: str = field(repr=False)
    host: str
    timeout_seconds: float = TIMEOUT_SECONDS

    @property
    def label(self) -> str:
        """Scheme and host."""
        return f"{urlsplit(self.url).scheme}://{self.host}/.."

    def check(self) -> None:
        """A secret that is there must be one."""
        _secret()

    def send(self, parcel: Parcel) -> None:
        """A POST; every answer but 2xx is a failure, a redirect too (it would carry the parcel and
        its signature to who was not named)."""
        body = json.dumps(parcel.message(parcel.id), ensure_ascii=False).encode()
        status, said, wait = self._posted(body, _headers(parcel.id, body))
        if 200 <= status < 300:
            return
        words = f"{self.label} answered {status}{': ' if said else ''}{said}"
        if 300 <= status < 400:
            raise DeliveryError(f"{words}; redirects are not followed, name the last address")
        if status in _PASSING or status >= 500:
            raise PassingTroubleError(words, wait_seconds=wait)
        raise DeliveryError(words)

    def _posted(self, body: bytes, headers: dict[str, str]) -> tuple[int, str, float | None]:
        """The status, the first words of a refusal, and how long to wait before another try."""
        from urllib.request import Request

        request = Request(self.url, data=body, headers=headers, method="POST")
        try:
            with closing(_opener()(request, timeout=self.timeout_seconds)) as answer:
                return answer.status, "", None
        except HTTPError as error:
            with closing(error):
                return error.code, _said(error), _wait(error.headers.get("Retry-After"))
        except (URLError, OSError, HTTPException) as error:
            raise self._trouble(error) from error

    def _trouble(self, error: Exception) -> DeliveryError:
        reason = error.reason if isinstance(error, URLError) else error
        if isinstance(reason, ssl.SSLCertVerificationError):
            why = reason.verify_message or "unknown"
            return DeliveryError(f"{self.label}: its certificate is not trusted ({why})")
        if isinstance(reason, TimeoutError):
            return PassingTroubleError(
                f"{self.label} did not answer within {self.timeout_seconds:g} s"
            )
        why = getattr(reason, "strerror", None) or type(reason).__name__
        return PassingTroubleError(f"{self.label} cannot be reached: {why}")


def hook_target(text: str) -> HookTarget:
    """'https://..'; http is for this machine alone, since what is sent would be read on the way."""
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("an address is ASCII without blanks; write others percent-encoded")
    parts = urlsplit(text)
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            "--send https://..: no name and password in an address; who may post is told by the "
            f"signature ({SECRET_VARIABLE}), or by a secret path in a variable (env:NAME)"
        )
    if not parts.hostname:
        raise ValueError("no host")
    if parts.scheme.casefold() == "http" and not is_loopback(parts.hostname):
        raise UsageError(f"--send http://{parts.hostname}/..: use https; http is for loopback only")
    return HookTarget(parts._replace(fragment="").geturl(), _shown_host(parts))


def signature(secret: bytes, name: str, timestamp: int, body: bytes) -> str:
    """`webhook-signature` of Standard Webhooks; `timestamp` in seconds since 1970."""
    signed = f"{name}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()


def _headers(name: str, body: bytes) -> dict[str, str]:
    from importlib.metadata import version

    now = int(time.time())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"instance-sizing-advisor/{version('instance-sizing-advisor')}",
        "webhook-id": name,
        "webhook-timestamp": str(now),
    }
    secret = _secret()
    return headers | ({"webhook-signature": signature(secret, name, now, body)} if secret else {})


def _secret() -> bytes | None:
    text = os.environ.get(SECRET_VARIABLE, "")
    if not text.startswith("whsec_"):
        return text.encode() or None
    try:
        return base64.b64decode(text.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        raise UsageError(f"{SECRET_VARIABLE} has no base64 behind whsec_") from None


def _opener() -> Callable[..., Any]:
    """What opens a request: the system's certificates and proxies, and no redirects."""
    from urllib.request import HTTPRedirectHandler, HTTPSHandler, build_opener

    class NoRedirect(HTTPRedirectHandler):
        def redirect_request(self, *_: Any, **__: Any) -> None:
            return None

    return build_opener(NoRedirect, HTTPSHandler(context=ssl.create_default_context())).open


def _said(error: HTTPError) -> str:
    try:
        return one_line(error.read1(_SAID_BYTES).decode(errors="replace"))
    except (OSError, HTTPException, ValueError, AttributeError):
        return ""


def _wait(retry_after: str | None) -> float | None:
    """Seconds of a Retry-After header; dates, rare there, are left to our own pauses."""
    text = (retry_after or "").strip()
    return min(float(text), _MOST_WAIT_SECONDS) if text.isascii() and text.isdigit() else None


def _shown_host(parts: SplitResult) -> str:
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else str(parts.hostname)
    return host if parts.port is None else f"{host}:{parts.port}"
