"""Mail: `smtp://HOST:PORT?to=ADDRESS,..&from=ADDRESS`, or `smtps://` for TLS from the start.

Name and password are in ADVISOR_SMTP_USER and ADVISOR_SMTP_PASSWORD, and are sent over TLS only. To a server
without STARTTLS nothing is sent, except on this machine."""

from __future__ import annotations

import os
import re
import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from email.utils import formatdate
from functools import partial
from urllib.parse import parse_qs, unquote, urlsplit

from msgspec import Struct

from advisor.errors import DeliveryError, UsageError, one_line
from advisor.infra.live.web import is_loopback
from advisor.runs.delivery.letter import Letter, TransientDeliveryError

USER_VARIABLE, PASSWORD_VARIABLE = "ADVISOR_SMTP_USER", "ADVISOR_SMTP_PASSWORD"
FROM_VARIABLE = "ADVISOR_SMTP_FROM"
TIMEOUT_SECONDS = 20.0
_PORTS = {"smtp": 587, "smtps": 465}
_MOST_RECIPIENTS = 50
_MOST_SUBJECT = 150
# An address without a display name; the server does the finer checks.
_ADDRESS = re.compile(r"[^\s@<>,;:\"()\[\]\\]{1,64}@[^\s@<>,;:\"()\[\]\\]{1,255}")


class MailTarget(Struct, frozen=True, kw_only=True):
    """A mail server, recipients, and sender (None: ADVISOR_SMTP_FROM, or the login name)."""

    host: str
    port: int
    tls_at_once: bool
    to: tuple[str, ...]
    sender: str | None = None
    timeout_seconds: float = TIMEOUT_SECONDS

    @property
    def label(self) -> str:
        """The target as text, without the sender."""
        return f"smtp{'s' if self.tls_at_once else ''}://{self.host}:{self.port}?to={','.join(self.to)}"

    def check(self) -> None:
        """Raise `UsageError` without a sender, or for a name without a password."""
        self._from()
        if bool(os.environ.get(USER_VARIABLE)) != bool(os.environ.get(PASSWORD_VARIABLE)):
            raise UsageError(f"set both {USER_VARIABLE} and {PASSWORD_VARIABLE}, or neither")

    def send(self, message: Letter) -> None:
        """Send to all recipients at once. If the server refuses some of them, this raises without a retry,
        since the others would get the mail twice."""
        mail = self.mail(message)
        try:
            with self._session() as server:
                refused = server.send_message(mail, self._from(), list(self.to))
        except smtplib.SMTPException as error:
            raise self._refused(error) from error
        except OSError as error:
            raise TransientDeliveryError(f"{self.label} cannot be reached: {error}") from error
        if refused:
            raise DeliveryError(f"{self.label}: refused for {', '.join(sorted(refused))}")

    def mail(self, message: Letter) -> EmailMessage:
        """The message as a mail with its files attached. Odd names cannot break headers: `EmailMessage`
        encodes them, and `one_line` removes line ends."""
        mail = EmailMessage()
        mail["Subject"] = one_line(message.title)[:_MOST_SUBJECT]
        mail["From"], mail["To"] = self._from(), ", ".join(self.to)
        mail["Date"] = formatdate(localtime=False)
        mail["Message-ID"] = f"<{message.id}@instance-sizing-advisor.invalid>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(message.text)
        for file in message.files:
            kind, _, sub = file.media_type.partition(";")[0].partition("/")
            params = {"charset": "utf-8"} if kind == "text" else {}
            mail.add_attachment(file.content, maintype=kind, subtype=sub, filename=file.name, params=params)
        return mail

    def _from(self) -> str:
        user = os.environ.get(USER_VARIABLE, "")
        address = self.sender or os.environ.get(FROM_VARIABLE) or (user if "@" in user else "")
        if not address:
            raise UsageError(
                f"--send {self.label}: from whom?",
                field="send",
                hint=f"add &from=ADDRESS, or set {FROM_VARIABLE}",
            )
        return _address(address)

    @contextmanager
    def _session(self) -> Iterator[smtplib.SMTP]:
        """An encrypted connection to the server, logged in if there is a name and password."""
        context, seconds = ssl.create_default_context(), self.timeout_seconds
        connect = partial(smtplib.SMTP_SSL, context=context) if self.tls_at_once else smtplib.SMTP
        with connect(self.host, self.port, timeout=seconds) as server:
            server.ehlo()
            secure = self.tls_at_once
            if not secure and server.has_extn("starttls"):
                server.starttls(context=context)
                server.ehlo()
                secure = True
            if not secure and not is_loopback(self.host):
                raise DeliveryError(
                    f"{self.label} offers no STARTTLS, so nothing is sent", hint="use smtps://"
                )
            user, password = os.environ.get(USER_VARIABLE), os.environ.get(PASSWORD_VARIABLE)
            if user and password:
                if not secure:
                    raise DeliveryError(f"{self.label} has no TLS, so the password is not sent to it")
                server.login(user, password)
            yield server

    def _refused(self, error: smtplib.SMTPException) -> DeliveryError:
        """The error for a refusal, with the server's code and words (for the first refused recipient)."""
        if isinstance(error, smtplib.SMTPAuthenticationError):
            return DeliveryError(f"{self.label} does not accept {USER_VARIABLE} and its password")
        if isinstance(error, smtplib.SMTPRecipientsRefused):
            code, reply = next(iter(error.recipients.values()))
        else:
            code, reply = getattr(error, "smtp_code", 0), getattr(error, "smtp_error", str(error).encode())
        words = one_line(reply.decode(errors="replace"))[:200]
        # RFC 5321, 4.2.1: 4yz may be tried again, 5yz may not.
        passes = 400 <= code < 500 or isinstance(error, smtplib.SMTPServerDisconnected)
        kind = TransientDeliveryError if passes else DeliveryError
        return kind(f"{self.label}: {f'{code} ' if code else ''}{words}")


def mail_target(text: str) -> MailTarget:
    """The target in 'smtp://HOST:PORT?to=..'; `to` may be repeated, or have commas."""
    parts = urlsplit(text)
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            f"--send {parts.scheme}://..: no name and password there",
            field="send",
            hint=f"set {USER_VARIABLE} and {PASSWORD_VARIABLE}",
        )
    if not parts.hostname or parts.path not in ("", "/"):
        raise ValueError("SERVER:PORT stands between // and ?")
    # `parse_qs` would turn the plus in an address into a blank.
    parameters = parse_qs(parts.query.replace("+", "%2B"), strict_parsing=True)
    if unknown := set(parameters) - {"to", "from"}:
        raise ValueError(f"{', '.join(sorted(unknown))}: only to and from are known")
    to = [_address(address) for value in parameters.get("to", []) for address in value.split(",")]
    if not 0 < len(to) <= _MOST_RECIPIENTS:
        raise ValueError(f"to= names 1 to {_MOST_RECIPIENTS} addresses")
    return MailTarget(
        host=unquote(parts.hostname),
        port=parts.port or _PORTS[parts.scheme],
        tls_at_once=parts.scheme == "smtps",
        to=tuple(dict.fromkeys(to)),
        sender=_address(parameters["from"][-1]) if "from" in parameters else None,
    )


def _address(text: str) -> str:
    text = text.strip()
    if not _ADDRESS.fullmatch(text) or not text.isprintable():
        raise UsageError(f"'{one_line(text)[:80]}' is no mail address, as ann@example.com", field="send")
    return text
