"""Webhooks: a message posted as JSON to an https address, signed if there is a secret.

The signature follows Standard Webhooks (standardwebhooks.com). The secret is in ADVISOR_WEBHOOK_SECRET, as
plain text or `whsec_<base64>`."""

from __future__ import annotations

import binascii
import json
import os
import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct

from advisor.errors import DeliveryError, UsageError, one_line
from advisor.infra.live.web import TRANSIENT, is_loopback, retry_after_seconds
from advisor.runs.delivery.letter import Letter, TransientDeliveryError

if TYPE_CHECKING:
    from httpx2 import Response
    from standardwebhooks import Webhook

SECRET_VARIABLE = "ADVISOR_WEBHOOK_SECRET"
TIMEOUT_SECONDS = 10.0
_MOST_WAIT_SECONDS = 60.0
_MOST_REFUSAL = 200


class WebhookTarget(Struct, frozen=True):
    """An address that takes a POST. Path and query may be secret, and are never shown."""

    url: str
    timeout_seconds: float = TIMEOUT_SECONDS

    def __repr__(self) -> str:
        return f"WebhookTarget({self.label!r})"

    @property
    def label(self) -> str:
        """Scheme and host, without path and query."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}/.."

    def check(self) -> None:
        """Raise `UsageError` for a malformed secret."""
        _signer()

    def send(self, message: Letter) -> None:
        """Post the message. Every status but 2xx is a failure, even a redirect, which would pass message and
        signature on to another server."""
        import httpx2

        body = json.dumps(message.body(message.id), ensure_ascii=False).encode()
        try:
            answer = httpx2.post(
                self.url,
                content=body,
                headers=_headers(message.id, body),
                timeout=self.timeout_seconds,
                verify=ssl.create_default_context(),
            )
        except httpx2.TransportError as error:
            raise TransientDeliveryError(f"{self.label} cannot be reached: {error}") from error
        if not answer.is_success:
            raise self._refused(answer)

    def _refused(self, answer: Response) -> DeliveryError:
        refusal = one_line(answer.text[:_MOST_REFUSAL])
        text = "{target} answered {status}" + (": {refusal}" if refusal else "")
        facts: dict[str, Any] = {"target": self.label, "status": answer.status_code, "refusal": refusal}
        if answer.is_redirect:
            return DeliveryError(text, hint="redirects are not followed, name the last address", **facts)
        if answer.status_code not in TRANSIENT and answer.status_code < 500:
            return DeliveryError(text, **facts)
        transient = TransientDeliveryError(text, **facts)
        transient.wait_seconds = retry_after_seconds(answer.headers.get("Retry-After"), _MOST_WAIT_SECONDS)
        return transient


def webhook_target(text: str) -> WebhookTarget:
    """The target at 'https://..'; http is allowed to this machine only, since others could read it."""
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("an address is ASCII without blanks; write others percent-encoded")
    parts = urlsplit(text)
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            "--send https://..: no name and password in an address",
            field="send",
            hint=f"who may post is known by the signature ({SECRET_VARIABLE}), or by a secret path "
            "in a variable (env:NAME)",
        )
    if not parts.hostname or parts.port == 0:  # a port that is none raises by itself
        raise ValueError("no host")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise UsageError(
            f"--send http://{parts.hostname}/..: use https", field="send", hint="http is for loopback only"
        )
    return WebhookTarget(parts._replace(fragment="").geturl())


def _headers(name: str, body: bytes) -> dict[str, str]:
    from importlib.metadata import version

    now = datetime.now(UTC)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"instance-sizing-advisor/{version('instance-sizing-advisor')}",
        "webhook-id": name,
        "webhook-timestamp": str(int(now.timestamp())),
    }
    signer = _signer()
    return headers | ({"webhook-signature": signer.sign(name, now, body.decode())} if signer else {})


def _signer() -> Webhook | None:
    from standardwebhooks import Webhook

    text = os.environ.get(SECRET_VARIABLE, "")
    if not text.startswith("whsec_"):
        return Webhook(text.encode()) if text else None
    try:
        return Webhook(text)
    except (binascii.Error, RuntimeError) as error:
        raise UsageError(f"{SECRET_VARIABLE} has no base64 behind whsec_") from error
