"""Whether the store can be read."""

from __future__ import annotations

from contextlib import closing

_PATIENCE_SECONDS = 2.0


def require_store(url: str | None) -> None:
    """Returns where the database answers (a file that is not there yet is made when it is needed);
    raises what says why it does not."""
    from sweeps.store import SqlStore, default_database_url

    place = url or default_database_url()
    with closing(SqlStore(place, reading=True, patience_seconds=_PATIENCE_SECONDS)):
        pass
