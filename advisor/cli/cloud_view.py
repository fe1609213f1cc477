"""What `advisor cloud status` and `reap` say, as lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from advisor.errors import one_line
from advisor.render.text import table
from advisor.units import format_counted

if TYPE_CHECKING:
    from advisor.infra.aws.managed import Managed
    from advisor.infra.aws.reap import Reaped

COLUMNS = ("Kind", "id", "region", "sweep", "owner", "state", "time")


def status_lines(reaped: Reaped) -> list[str]:
    """Everything there is, the expired first."""
    things = [*reaped.expired, *reaped.kept]
    if not things:
        none = "Nothing was told of a sweep" if reaped.not_listed else "Nothing of a sweep is there"
        return [f"{none}; asked {_regions(reaped)}.", *_not_told(reaped)]
    lines = [
        f"{_counted(things)} of sweeps, {len(reaped.expired)} expired; asked {_regions(reaped)}.",
        "",
        *_rows(things, reaped.now),
        *_not_told(reaped),
    ]
    if reaped.expired:
        lines += ["", "Remove what is expired: advisor cloud reap"]
    return lines


def reaped_lines(reaped: Reaped) -> list[str]:
    """What was removed, or would be; what is still there, and why."""
    done = reaped.expired if reaped.dry_run else reaped.removed
    verb = "would be removed" if reaped.dry_run else "removed"
    lines = [f"{_counted(done)} {verb}; asked {_regions(reaped)}."]
    if done:
        lines += ["", *_rows(done, reaped.now)]
    for thing in reaped.remaining:
        lines += [
            f"still there: {thing.thing.kind} {thing.thing.id} in {thing.thing.region}: "
            f"{one_line(thing.reason)}"
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
            thing.kind,
            thing.id,
            thing.region,
            one_line(thing.sweep_id),
            one_line(thing.owner),
            one_line(" ".join(filter(None, (thing.state, thing.detail)))),
            time_left(thing.expires_at, now),
        )
        for thing in things
    ]
    return table(COLUMNS, cells)


def _undated(kept: Iterable[Managed]) -> list[str]:
    """What nobody will ever reap."""
    return [
        f"has no readable advisor:expires-at, so it is left alone; remove it by hand: {thing.kind} "
        f"{thing.id} in {thing.region}"
        for thing in kept
        if thing.expires_at is None
    ]


def _not_told(reaped: Reaped) -> list[str]:
    return [
        f"not told: {thing.region} ({thing.kind}): {one_line(thing.reason)}" for thing in reaped.not_listed
    ]


def _counted(things: Sequence[Managed]) -> str:
    return format_counted(len(things), "thing")


def _regions(reaped: Reaped) -> str:
    return format_counted(len(reaped.regions), "region")
