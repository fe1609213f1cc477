"""Price lists on the web: JSON in pages, fetched with limits, asked for again where that may help.

Nothing here shows a header: a key travels in one."""

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
# Before another try: half a second, doubled each time, up to a quarter longer; a server that says
# how long is believed up to here.
FIRST_PAUSE_SECONDS = 0.5
MOST_PAUSE_SECONDS = 20.0
# What a file may have, and one page, of which five thousand of Google's SKUs take 3 MiB in the
# documented form; read as JSON it may take thirty times as much. All pages of a list together:
# Google's has tens of thousands of SKUs.
MOST_MIB = 64
MOST_MIB_A_PAGE = 16
MOST_MIB_OF_A_LIST = 512
MOST_PAGES = 500
# For all of one answer: a body that trickles keeps each read within its own limit.
ANSWER_SECONDS = 90.0
# For all of one file of hundreds of MB.
FILE_SECONDS = 570.0
# RFC 9110 and 8470: the request may be sent again as it is.
TRANSIENT = (408, 425, 429)

Parameters = Mapping[str, str]
Say = Callable[[str], None]
Answer = TypeVar("Answer")


class WebList(Struct, frozen=True, kw_only=True):
    """A price list on the web: what it is called, where it is, and headers that may be secret."""

    service: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    credentials_hint: str = ""

    def __repr__(self) -> str:
        return f"WebList({self.service!r}, {self.url!r})"  # no header: it may be secret

    def pages(
        self,
        first: Parameters,
        following: Callable[[dict[str, Any]], Parameters | None],
        say: Say = lambda _line: None,
    ) -> Iterator[dict[str, Any]]:
        """Each page, a JSON object; `following` reads from one what the next is asked with. Only the query of
        a link to the next page counts: the key goes nowhere else. `LiveError` where pages do not end, or the
        service cannot be asked."""
        parameters_seen = set[tuple[tuple[str, str], ...]]()
        left = MOST_MIB_OF_A_LIST * 2**20
        wanted: Parameters | None = first
        with _client(self) as client:
            while wanted is not None:
                question = tuple(sorted(wanted.items()))
                if question in parameters_seen or len(parameters_seen) >= MOST_PAGES:
                    raise LiveError(
                        f"{self.service}: page {len(parameters_seen)} leads back to a page that "
                        f"was read, or there are more than {MOST_PAGES}",
                        hint="a proxy in between may cause this",
                    )
                parameters_seen.add(question)
                page, size = _tried(partial(_page, self, client, wanted))
                left -= size
                if left < 0:
                    raise _too_much(self, MOST_MIB_OF_A_LIST)
                wanted = following(page)
                if wanted is not None:
                    say(f"{self.service}: page {len(parameters_seen)} read")
                yield page


def download(url: str) -> bytes:
    """The content at an address, of up to `MOST_MIB`."""
    parts = urlsplit(url)
    source = WebList(service=str(parts.hostname), url=url)
    with _client(source) as client:
        return _tried(partial(_body, source, client, {}, MOST_MIB))


def streamed(source: WebList, take: Callable[[Iterator[bytes]], Answer], most_mib: float) -> Answer:
    """The result of `take` on a file as it arrives, of up to `most_mib`; it may be taken anew."""

    def ask() -> Answer:
        with _client(source) as client, _answered(source, client, {}) as answer:
            return take(_pieces(source, answer, most_mib, FILE_SECONDS))

    return _tried(ask)


def checked_url(url: str, option: str) -> str:
    """An address that prices may come from: https, or http on this machine; `UsageError` else."""
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
    """Whether what is sent there stays on this machine; other names are not looked up."""
    if host.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class _AskAgain(LiveError):
    """A failure that another try may mend, after `pause_seconds` where the service says so."""

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


def _tried(ask: Callable[[], Answer]) -> Answer:
    from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

    again, most = retry_if_exception_type(_AskAgain), stop_after_attempt(ATTEMPTS)
    return Retrying(stop=most, retry=again, wait=_pause, reraise=True)(ask)


def _page(source: WebList, client: Client, wanted: Parameters) -> tuple[dict[str, Any], int]:
    """A page and its bytes."""
    body = _body(source, client, wanted, MOST_MIB_A_PAGE)
    try:
        page = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        raise _again(unreadable(source.service)) from None
    if not isinstance(page, dict):
        raise unreadable(source.service)
    return page, len(body)


def _body(source: WebList, client: Client, wanted: Parameters, most_mib: float) -> bytes:
    with _answered(source, client, wanted) as answer:
        return b"".join(_pieces(source, answer, most_mib, ANSWER_SECONDS))


@contextmanager
def _answered(source: WebList, client: Client, wanted: Parameters) -> Iterator[Response]:
    """An answer whose body was not read yet; what goes wrong while it is open is a `LiveError`."""
    import httpx2

    try:
        address = httpx2.URL(source.url).copy_merge_params(wanted)
        with client.stream("GET", address) as answer:
            if not answer.is_success:
                raise _refused(source, answer)
            yield answer
    except httpx2.TimeoutException:
        raise _again(late(source.service)) from None
    except (httpx2.RemoteProtocolError, httpx2.DecodingError):
        raise _again(unreadable(source.service)) from None
    except (httpx2.TransportError, httpx2.InvalidURL):
        raise _again(unreachable(source.service)) from None
    except UnicodeEncodeError:  # the link to the next page has half a character
        raise unreadable(source.service) from None


def _pieces(source: WebList, answer: Response, most_mib: float, seconds: float) -> Iterator[bytes]:
    size, end = 0, time.monotonic() + seconds
    for piece in answer.iter_bytes():
        size += len(piece)
        if size > most_mib * 2**20:
            raise _too_much(source, most_mib)
        if time.monotonic() > end:
            raise late(source.service)
        yield piece


def _too_much(source: WebList, most_mib: float) -> LiveError:
    return LiveError(f"{source.service} answered more than {most_mib} MiB")


def _refused(source: WebList, answer: Response) -> LiveError:
    """The error for a refusal, without the answer's text, which may repeat the request and its key."""
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
        error = _AskAgain(f"{source.service} throttles", code=THROTTLED, hint="ask again in a minute")
        error.pause_seconds = retry_after_seconds(answer.headers.get("Retry-After"), MOST_PAUSE_SECONDS)
        return error
    refusal = LiveError(f"{source.service} refuses the request ({status})", hint="ask again later")
    return _again(refusal) if status in TRANSIENT or status >= 500 else refusal


def _again(error: LiveError) -> _AskAgain:
    return _AskAgain(error.message, hint=error.hint, code=error.code)


def _pause(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    named = error.pause_seconds if isinstance(error, _AskAgain) else None
    if named is not None:
        return named
    seconds: float = FIRST_PAUSE_SECONDS * 2 ** (state.attempt_number - 1)
    return min(MOST_PAUSE_SECONDS, seconds) * random.uniform(1, 1.25)


def retry_after_seconds(text: str | None, most: float) -> float | None:
    """Seconds of a Retry-After header, up to `most`; dates, rare there, are left to our own pauses."""
    text = (text or "").strip()
    return min(float(text), most) if text.isascii() and text.isdigit() else None
