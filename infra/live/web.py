"""Price lists on the web: JSON pages and large files, fetched with limits and retries.

Headers are never shown, since they may hold a key."""

from __future__ import annotations

import ipaddress
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

from advisor.errors import LiveError, UsageError
from advisor.infra.live.session import NO_CREDENTIALS, THROTTLED, late, unreachable, unreadable

if TYPE_CHECKING:
    from httpx2 import Client, Response
    from tenacity import RetryCallState

CONNECT_SECONDS = 5.0
READ_SECONDS = 20.0
ATTEMPTS = 4
# Pause before a retry: half a second, doubled each time, plus up to a quarter at random; or what the server
# says, up to this maximum.
FIRST_PAUSE_SECONDS = 0.5
MOST_PAUSE_SECONDS = 20.0
# Largest size of a file, and of one page: five thousand of Google's SKUs take 3 MiB, and parsed JSON may take
# thirty times as much memory.
MOST_MIB = 64
MOST_MIB_A_PAGE = 16
MOST_PAGES = 100  # Google's list has some twenty
# Limit for a whole answer, since a trickling body never exceeds the limit of one read.
ANSWER_SECONDS = 90.0
# Limit for a whole file of hundreds of MB.
FILE_SECONDS = 570.0
# RFC 9110 and 8470: the same request may be sent again.
TRANSIENT = (408, 425, 429)

Parameters = Mapping[str, str]
Say = Callable[[str], None]
Answer = TypeVar("Answer")


class WebList(Struct, frozen=True, kw_only=True):
    """A price list on the web: its name, its address, and headers, which may be secret."""

    service: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    credentials_hint: str = ""

    def __repr__(self) -> str:
        return f"WebList({self.service!r}, {self.url!r})"  # no headers, since they may be secret

    def pages(
        self, first: Parameters, next_parameters: Callable[[dict[str, Any]], Parameters | None]
    ) -> Iterator[dict[str, Any]]:
        """All pages, each a JSON object; `next_parameters` gets a page and returns the query for the next one
        (only a query, so that the key goes to no other address). `LiveError` if pages do not end, or the
        service fails."""
        wanted = first
        with _client(self) as client:
            for _ in range(MOST_PAGES):
                page = _with_retries(partial(_page, self, client, wanted))
                yield page
                following = next_parameters(page)
                if following is None:
                    return
                wanted = following
        raise LiveError(f"{self.service} has more than {MOST_PAGES} pages", hint="is a proxy in between?")


def download(url: str) -> bytes:
    """The content at an address; `LiveError` if it has more than `MOST_MIB`."""
    source = WebList(service=str(urlsplit(url).hostname), url=url)
    with _client(source) as client:
        return _with_retries(partial(_body, source, client, {}, MOST_MIB))


def streamed(source: WebList, take: Callable[[Iterator[bytes]], Answer], most_mib: float) -> Answer:
    """The result of `take` on a file's bytes as they arrive, up to `most_mib`; a retry calls it again."""

    def ask() -> Answer:
        with _client(source) as client, _response(source, client, {}) as answer:
            return take(_pieces(source, answer, most_mib, FILE_SECONDS))

    return _with_retries(ask)


def checked_url(url: str, option: str) -> str:
    """The address, if prices may come from it (https, or http on this machine); else `UsageError`."""
    parts = None
    if url.isascii() and url.isprintable() and " " not in url:
        with suppress(ValueError):
            read = urlsplit(url)
            parts = read if read.port is None or read.port else None
    if parts is None or not parts.hostname or parts.scheme not in ("http", "https"):
        raise UsageError(f"{option} takes an address like https://prices.example.org/list", field="url")
    if parts.username is not None or parts.password is not None:
        raise UsageError(f"{option}: no name and password in an address", field="url")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise UsageError(
            f"{option}: prices over http can be changed on the way",
            field="url",
            hint="use https; http is for loopback only",
        )
    return parts._replace(fragment="").geturl()


def is_loopback(host: str) -> bool:
    """True if a host is this machine; names other than localhost are not resolved."""
    if host.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class _RetryableError(LiveError):
    """A failure after which a retry may succeed, after `pause_seconds` if the service named a time."""

    pause_seconds: float | None = None


def _client(source: WebList) -> Client:
    import ssl
    from importlib.metadata import version

    import httpx2

    agent = f"instance-sizing-advisor/{version('instance-sizing-advisor')}"
    return httpx2.Client(
        headers={"User-Agent": agent, "Accept": "application/json", **source.headers},
        timeout=httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
        verify=ssl.create_default_context(),
    )


def _with_retries(ask: Callable[[], Answer]) -> Answer:
    from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

    again, most = retry_if_exception_type(_RetryableError), stop_after_attempt(ATTEMPTS)
    return Retrying(stop=most, retry=again, wait=_pause, reraise=True)(ask)


def _page(source: WebList, client: Client, wanted: Parameters) -> dict[str, Any]:
    try:
        page = msgspec.json.decode(_body(source, client, wanted, MOST_MIB_A_PAGE))
    except (msgspec.DecodeError, RecursionError):
        raise _retryable(unreadable(source.service)) from None
    if not isinstance(page, dict):
        raise unreadable(source.service)
    return page


def _body(source: WebList, client: Client, wanted: Parameters, most_mib: float) -> bytes:
    with _response(source, client, wanted) as answer:
        return b"".join(_pieces(source, answer, most_mib, ANSWER_SECONDS))


@contextmanager
def _response(source: WebList, client: Client, wanted: Parameters) -> Iterator[Response]:
    """A response with an unread body; errors while it is open become `LiveError`."""
    import httpx2

    try:
        address = httpx2.URL(source.url).copy_merge_params(wanted)
        with client.stream("GET", address) as answer:
            if not answer.is_success:
                raise _refused(source, answer)
            yield answer
    except httpx2.TimeoutException:
        raise _retryable(late(source.service)) from None
    except (httpx2.RemoteProtocolError, httpx2.DecodingError):
        raise _retryable(unreadable(source.service)) from None
    except (httpx2.TransportError, httpx2.InvalidURL):
        raise _retryable(unreachable(source.service)) from None
    except UnicodeEncodeError:  # the next page's link has a lone surrogate
        raise unreadable(source.service) from None


def _pieces(source: WebList, answer: Response, most_mib: float, seconds: float) -> Iterator[bytes]:
    size, end = 0, time.monotonic() + seconds
    for piece in answer.iter_bytes():
        size += len(piece)
        if size > most_mib * 2**20:
            raise LiveError(f"{source.service} answered more than {most_mib} MiB")
        if time.monotonic() > end:
            raise late(source.service)
        yield piece


def _refused(source: WebList, answer: Response) -> LiveError:
    """The error for a refusal, without the answer's text, which may contain the request and its key."""
    status = answer.status_code
    if answer.is_redirect:
        return LiveError(f"{source.service} answers with a redirect ({status})", hint="name the last address")
    if status in (401, 403) or (status == 400 and source.credentials_hint):
        return LiveError(
            f"{source.service} refuses the request ({status})",
            code=NO_CREDENTIALS,
            hint=source.credentials_hint or "ask without it",
        )
    if status == 429:
        error = _RetryableError(f"{source.service} throttles", code=THROTTLED, hint="ask again in a minute")
        error.pause_seconds = retry_after_seconds(answer.headers.get("Retry-After"), MOST_PAUSE_SECONDS)
        return error
    refusal = LiveError(f"{source.service} refuses the request ({status})", hint="ask again later")
    return _retryable(refusal) if status in TRANSIENT or status >= 500 else refusal


def _retryable(error: LiveError) -> _RetryableError:
    return _RetryableError(error.message, hint=error.hint, code=error.code)


def _pause(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    named = error.pause_seconds if isinstance(error, _RetryableError) else None
    if named is not None:
        return named
    seconds: float = FIRST_PAUSE_SECONDS * 2 ** (state.attempt_number - 1)
    return min(MOST_PAUSE_SECONDS, seconds) * random.uniform(1, 1.25)


def retry_after_seconds(text: str | None, most: float) -> float | None:
    """Seconds in a Retry-After header, up to `most`; None for others, such as dates, which are rare."""
    text = (text or "").strip()
    return min(float(text), most) if text.isascii() and text.isdigit() else None
