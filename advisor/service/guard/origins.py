"""What a browser tells about where a request comes from; CORS stays closed.

Host: a page of a stranger may point a name of its own at 127.0.0.1 (DNS rebinding) and then read
answers as if they were its own; the Host header has that name, so only known ones are taken.
Origin and Sec-Fetch-Site: a page of a stranger may send a request here without reading the answer;
browsers say so, and programs that are no browser send neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from advisor.service.guard.head import Head

LOCAL_NAMES = frozenset(("localhost", "127.0.0.1", "[::1]"))
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_OURS = ("same-origin", "none")
_HOST = re.compile(r"(?P<name>\[[^\[\]]*\]|[^:\[\]]*)(?::[0-9]*)?")


def changes(method: str) -> bool:
    """Whether a request of that method may change something."""
    return method not in _SAFE_METHODS


def host_name(host: str) -> str:
    """The name of a Host header, without its port, in small letters: '[::1]:8765' -> '[::1]'.

    '' where what follows the name is no port ('localhost:@evil.example')."""
    found = _HOST.fullmatch(host)
    return found["name"].rstrip(".").lower() if found else ""


class Hosts:
    """The names under which the service may be asked."""

    def __init__(self, *, is_loopback: bool, public: Iterable[str]) -> None:
        self.is_loopback = is_loopback
        self._public = frozenset(host_name(one) for one in public)
        self._checked = is_loopback or bool(self._public)

    def knows(self, host: str) -> bool:
        """Whether that Host header is one of ours. Anywhere but on loopback all are, unless names
        were given: there every request needs a key, which a stranger's page does not have."""
        name = host_name(host)
        return not self._checked or (bool(name) and name in LOCAL_NAMES | self._public)


def is_foreign(method: str, path: str, head: Head) -> bool:
    """Whether a browser says that another site's page sends this. Following a link to here is
    allowed; what changes something, and what a script asks of the API, is not."""
    if head.fetch_site and head.fetch_site not in _OURS:
        return changes(method) or (path.startswith("/v1") and head.fetch_mode != "navigate")
    if head.fetch_site:  # said to be ours; with our Referrer-Policy the Origin of a form is 'null'
        return False
    return changes(method) and bool(head.origin) and not is_own_origin(head)


def is_surely_own(head: Head) -> bool:
    """Whether a browser says that our own page sends this: asked of what comes with a cookie."""
    if head.fetch_site:
        return head.fetch_site == "same-origin"
    return bool(head.origin) and is_own_origin(head)


def is_own_origin(head: Head) -> bool:
    """Whether the Origin is the very host, with its port, that is asked."""
    _, _, place = head.origin.partition("://")
    return bool(place) and place.lower() == head.host.lower()
