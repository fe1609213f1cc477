"""What `advisor cloud status` and `reap` say, as lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from advisor.errors import one_line
from advisor.render.text import table
from advisor.units import format_counted

if TYPE_CHECKING:
    from infra.aws.managed import Managed
    from infra.aws.reap import Reaped

COLUMNS = ("Kind", "id", "region", "sweep", "owner", "state", "time")


def status_lines(found: Reaped) -> list[str]:
    """Everything there is, the expired first."""
    things = [*found.expired, *found.kept]
    if not things:
        none = "Nothing was told of a sweep" if found.not_listed else "Nothing of a sweep is there"
        return [f"{none}; asked {_regions(found)}.", *_not_told(found)]
    lines = [
        f"{_counted(things)} of sweeps, {len(found.expired)} expired; asked {_regions(found)}.",
        "",
        *_rows(things, found.now),
        *_not_told(found),
    ]
    if found.expired:
        lines += ["", "Remove what is expired: advisor cloud reap"]
    return lines


def reaped_lines(reaped: Reaped) -> list[str]:
    """What was removed, or would be; what is still there, and why."""
    done = reaped.expired if reaped.dry_run else reaped.removed
    verb = "would be removed" if reaped.dry_run else "removed"
    lines = [f"{_counted(done)} {verb}; asked {_regions(reaped)}."]
    if done:
        lines += ["", *_rows(done, reaped.now)]
    for one in reaped.remaining:
        lines += [
            f"still there: {one.thing.kind} {one.thing.id} in {one.thing.region}: "
            f"{one_line(one.reason)}"
        ]
    lines += _undated(reaped.kept)
    return [*lines, *_not_told(reaped)]


def time_left(expires_at: datetime | None, now: datetime) -> str:
    """'40 min left', 'over since 2 h'; 'not told' where the tag is missing."""
    if expires_at is None:
        return "not told"
    seconds = (expires_at - now).total_seconds()
    span = _span(abs(seconds))
    return f"{span} left" if seconds > 0 else f"over since {span}"


def _span(seconds: float) -> str:
    minutes = int(seconds // 60)
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // (24 * 60)} days"


def _rows(things: Sequence[Managed], now: datetime) -> list[str]:
    cells = [
        (
            one.kind, one.id, one.region, one_line(one.sweep_id), one_line(one.owner),
            one_line(" ".join(filter(None, (one.state, one.detail)))),
            time_left(one.expires_at, now),
        )
        for one in things
    ]  # fmt: skip
    return table(COLUMNS, cells)


def _undated(kept: Iterable[Managed]) -> list[str]:
    """What nobody will ever reap."""
    return [
        f"has no readable advisor:expires-at, so it is left alone; remove it by hand: {one.kind} "
        f"{one.id} in {one.region}"
        for one in kept
        if one.expires_at is None
    ]


def _not_told(reaped: Reaped) -> list[str]:
    return [
        f"not told: {one.region} ({one.kind}): {one_line(one.reason)}" for one in reaped.not_listed
    ]


def _counted(things: Sequence[Managed]) -> str:
    return format_counted(len(things), "thing")


def _regions(reaped: Reaped) -> str:
    return format_counted(len(reaped.regions), "region")
