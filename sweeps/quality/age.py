"""The age of a measurement."""

from __future__ import annotations

from datetime import UTC, datetime


def is_stale(started_at: str, since: datetime | None) -> bool:
    """Whether a measurement that began then (ISO 8601) is older than `since`; one that does not
    say when it began is older than anything, and nothing is where no `since` is asked for."""
    if since is None:
        return False
    try:
        begun = datetime.fromisoformat(started_at)
    except ValueError:
        return True
    return (begun if begun.tzinfo else begun.replace(tzinfo=UTC)) < since
