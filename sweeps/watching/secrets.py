"""Nothing that is written down for others holds a password."""

from __future__ import annotations

import re

_HIDDEN = "***"
# scheme://user:PASSWORD@host; a password may hold anything but a blank, so the last @ counts.
_IN_URLS = re.compile(r"(?P<before>[a-zA-Z][\w+.-]*://[^\s:/@]*:)[^\s]*@")
# password=PASSWORD, PGPASSWORD='..', ?password=..&..; words of messages ("password failed") stay.
_NAMED = re.compile(
    r"(?i)(?P<before>(?:password|passwd|passfile|secret|access_key|api_?key)\s*[=:]\s*)"
    r"(?:'[^']*'|\"[^\"]*\"|[^\s&,;]+)"
)


def without_secrets(text: str) -> str:
    """The text with every password of a URL or setting as '***'."""
    return _NAMED.sub(rf"\g<before>{_HIDDEN}", _IN_URLS.sub(rf"\g<before>{_HIDDEN}@", text))
