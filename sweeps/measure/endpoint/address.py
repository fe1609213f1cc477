"""Parses the address of an endpoint, and reads its API key."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from advisor.errors import UsageError
from advisor.messages import FieldName, Message

KEY_VARIABLE = "ADVISOR_ENDPOINT_API_KEY"
_SCHEMES = ("http", "https")
_ROUTES = ("/chat/completions", "/completions", "/models")
_HIDDEN = "***"
_LONGEST_KEY = 4096


class ApiKey:
    """A secret key: it is written only to a header, and removed from servers' answers."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return f"ApiKey({_HIDDEN})"

    @property
    def headers(self) -> dict[str, str]:
        """The headers that authorise a request."""
        return {"Authorization": f"Bearer {self._text}"}

    def hidden_in(self, text: str) -> str:
        """The text with the key hidden, since some servers repeat it in their errors."""
        return text.replace(self._text, _HIDDEN)


class Address(Struct, frozen=True):
    """An endpoint's address: `base` is the URL up to and including `/v1`, without credentials."""

    base: str
    host: str
    is_encrypted: bool

    @property
    def root(self) -> str:
        """The URL without `/v1`, below which engines report health and version."""
        return self.base.removesuffix("/v1")

    @property
    def is_loopback(self) -> bool:
        """Whether the host's name or address is that of this machine."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def address_of(url: str) -> Address:
    """The address in a URL like `http://host:8000`, also with `/v1` or a route. Raises `UsageError`."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as error:
        raise _no_endpoint(url) from error
    if parts.scheme not in _SCHEMES or not parts.hostname or not url.isprintable():
        raise _no_endpoint(url)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            Message("{field} takes a URL without user, password or parameters", field=FieldName("endpoint")),
            field="endpoint",
            hint=f"a key goes into {KEY_VARIABLE} or --api-key-file",
        )
    path = parts.path.rstrip("/")
    for route in _ROUTES:
        path = path.removesuffix(route)
    path = path if path.endswith("/v1") else f"{path}/v1"
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    authority = host if port is None else f"{host}:{port}"
    base = f"{parts.scheme}://{authority}{path}"
    return Address(base, parts.hostname, parts.scheme == "https")


def _no_endpoint(url: str) -> UsageError:
    shown = _HIDDEN if "@" in url else url[:100]  # it may include a password
    return UsageError(
        f"'{shown}' is no endpoint", field="endpoint", hint="name its URL, as http://localhost:8000"
    )


def api_key(file: Path | None, environment: Mapping[str, str]) -> ApiKey | None:
    """The key in the file, else in the environment; None if there is none."""
    hint = f"{KEY_VARIABLE} or --api-key-file holds the key alone"
    try:
        text = file.read_text(encoding="ascii") if file else environment.get(KEY_VARIABLE, "")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"no key can be read from '{file}'", field="api_key_file", hint=hint) from error
    text = text.strip()
    if not (text.isascii() and text.isprintable()) or " " in text or len(text) > _LONGEST_KEY:
        raise UsageError("the key is no single word", field="api_key_file", hint=hint)
    return ApiKey(text) if text else None
