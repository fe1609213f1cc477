"""What goes wrong alike with every cloud that is asked, in one line with the way out."""

from __future__ import annotations

from advisor.errors import LiveError

# Codes of errors by which programs decide whether to ask again.
NO_CREDENTIALS, THROTTLED = "no_credentials", "throttled"


def late(service: str) -> LiveError:
    """It accepted the question and stayed silent."""
    return LiveError("{service} did not answer in time", hint="ask again later", service=service)


def unreachable(service: str) -> LiveError:
    """No connection."""
    return LiveError("{service} cannot be reached from here", hint="ask without it", service=service)


def unreadable(service: str) -> LiveError:
    """An answer of another form than the service documents."""
    return LiveError("{service} answered what cannot be read", hint="is a proxy in between?", service=service)
