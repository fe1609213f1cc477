"""Measurements a page at a time, in the order in which their trials were first stored.

A row keeps its number when a newer measurement takes its place, so that whoever reads page after
page meets each trial once, whatever is stored meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sql
from msgspec import Struct

from advisor.records import asdict
from advisor.sweeps.store.contract import Stored
from advisor.sweeps.store.rows import sorted_out
from advisor.sweeps.store.sql_store import SqlStore
from advisor.sweeps.store.tables import MEASUREMENTS as ROWS

_ROWS_AT_ONCE = 200


class Wanted(Struct, frozen=True, kw_only=True):
    """Which rows: those that are equal in all that is named; None is anything."""

    network: str | None = None
    task: str | None = None
    accelerator: str | None = None
    status: str | None = None
    limited_by: str | None = None


class Page(Struct, frozen=True):
    """Some rows, and behind which number the next ones stand; None where there are no more."""

    stored: Stored
    next_after: int | None


def page_of(store: SqlStore, wanted: Wanted, *, after: int = 0, limit: int) -> Page:
    """The first `limit` rows whose number is above `after`."""
    query = (
        sql.select(ROWS.c.trial_id, ROWS.c.payload, ROWS.c.number)
        .where(ROWS.c.number > after, *_conditions(wanted))
        .order_by(ROWS.c.number)
        .limit(limit + 1)
    )
    result = store.rows(query)
    rows, more = result[:limit], len(result) > limit
    stored = sorted_out(((row.trial_id, row.payload) for row in rows), store.name)
    return Page(stored, rows[-1].number if more else None)


def pages_of(store: SqlStore, wanted: Wanted) -> Iterator[Stored]:
    """All such rows, never many of them in memory."""
    after: int | None = 0
    while after is not None:
        page = page_of(store, wanted, after=after, limit=_ROWS_AT_ONCE)
        yield page.stored
        after = page.next_after


def all_of(store: SqlStore, wanted: Wanted) -> Stored:
    """All such rows at once."""
    parts = list(pages_of(store, wanted))
    return Stored(
        tuple(row for part in parts for row in part.measurements),
        tuple(row for part in parts for row in part.damaged),
    )


def _conditions(wanted: Wanted) -> list[sql.ColumnElement[Any]]:
    return [ROWS.c[name] == value for name, value in asdict(wanted).items() if value is not None]
