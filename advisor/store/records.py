"""Schedules and runs as records. Times are seconds since 1970, money is US dollars."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

from msgspec import Struct, field


class Misfire(StrEnum):
    """Whether due times at which no daemon ran are made up for."""

    RUN_ONCE = "run-once"
    SKIP = "skip"


class RunState(StrEnum):
    """`due` waits for a process, `running` has one; the others have come to their end."""

    DUE = "due"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    STOPPED = "stopped"


OPEN_STATES = (RunState.DUE, RunState.RUNNING)


class Reporting(Struct, frozen=True, kw_only=True):
    """The report after each run: on the workloads of `plan` (a path from the schedule's folder) in
    `format`, with the changes since the last one, sent to the targets in `send`; `only_changes`: not
    where nothing changed. The targets may hold secrets."""

    plan: str
    send: tuple[str, ...]
    format: str
    only_changes: bool = False


class NewSchedule(Struct, frozen=True, kw_only=True):
    """A schedule to add: `command` without `advisor`, relative paths from `folder`.

    `budget_usd` may be spent in a month; a run costs `usd_per_hour` where that is known, and `run_usd` at
    most where its command says so."""

    name: str
    cron: str
    timezone: str
    command: tuple[str, ...]
    folder: str
    misfire: Misfire = Misfire.RUN_ONCE
    budget_usd: float | None = None
    usd_per_hour: float | None = None
    run_usd: float | None = None
    reporting: Reporting | None = None


class Schedule(NewSchedule, frozen=True, kw_only=True):
    """One that is kept. Every due time up to `considered_until` is settled."""

    number: int
    created_at: float
    considered_until: float


class NewRun(Struct, frozen=True):
    """A due time that gets its row: to be run, or `skipped` for what `note` says."""

    due_at: float
    state: RunState = RunState.DUE
    note: str = ""


class Run(Struct, frozen=True, kw_only=True):
    """A due time of a schedule, or a sweep that somebody started, and what became of it.

    `alive` says whether the process of a running one still lives; `attempts` how many processes have had it
    in hand. A started sweep has a `sweep_id`, what was asked (`request`), and when its end was asked for
    (`stop_at`); its `schedule` is None. `place` is the boot and process namespace that `pid` means."""

    number: int
    schedule: int | None
    due_at: float
    state: RunState
    note: str = ""
    attempts: int = 0
    host: str = ""
    pid: int | None = None
    alive: bool = False
    owner: str = ""
    begun_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    cost_usd: float | None = None
    trials: int | None = None
    log: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)
    sweep_id: str = ""
    request: Mapping[str, Any] = field(default_factory=dict)
    stop_at: float | None = None
    place: str = ""


class Ending(Struct, frozen=True, kw_only=True):
    """The end of a run."""

    state: RunState
    note: str = ""
    exit_code: int | None = None
    cost_usd: float | None = None
    trials: int | None = None
    report: Mapping[str, Any] = field(default_factory=dict)


class Leader(Struct, frozen=True):
    """The daemon that has the lock."""

    host: str
    pid: int


Record = TypeVar("Record", bound=Struct)


def record_of(kind: type[Record], row: Any, **more: Any) -> Record:
    """A row of a table as a record whose fields are called as its columns; what is null there is as it is by
    default. `more` are fields that are kept in another form."""
    names = set(kind.__struct_fields__) & set(row._mapping) - set(more)
    kept = {name: row._mapping[name] for name in names}
    return kind(**{name: value for name, value in kept.items() if value is not None}, **more)
