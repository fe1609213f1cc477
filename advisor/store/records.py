"""Records of schedules and runs. Times are seconds since 1970, money is US dollars."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

from msgspec import Struct, convert, field


class Misfire(StrEnum):
    """What happens to due times that passed while no daemon ran."""

    RUN_ONCE = "run-once"
    SKIP = "skip"


class RunState(StrEnum):
    """State of a run: `due` waits for a process, `running` has one, the others are final."""

    DUE = "due"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    STOPPED = "stopped"


OPEN_STATES = (RunState.DUE, RunState.RUNNING)


class Reporting(Struct, frozen=True, kw_only=True):
    """What to report after each run: the workloads in the file `plan` (relative to the schedule's folder), in
    `format`, with the changes since the last report, to the targets `send` (which may hold secrets); with
    `only_changes` nothing is sent where nothing changed."""

    plan: str
    send: tuple[str, ...]
    format: str
    only_changes: bool = False


class NewSchedule(Struct, frozen=True, kw_only=True):
    """A schedule to add. `command` lacks the word `advisor`; its relative paths start in `folder`.

    `budget_usd` is the limit per month. A run costs `usd_per_hour` (None: unknown), and `run_usd` at most
    (None: its command has no limit)."""

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
    """A stored schedule. Every due time up to `considered_until` has its row, or was skipped."""

    number: int
    created_at: float
    considered_until: float


class NewRun(Struct, frozen=True):
    """A row to insert for a due time: to be run, or skipped for the reason in `note`."""

    due_at: float
    state: RunState = RunState.DUE
    note: str = ""


class Run(Struct, frozen=True, kw_only=True):
    """A due time of a schedule, or a sweep started over HTTP, with its state and result.

    `alive`: whether a running run's process still lives; `attempts`: how many processes have worked on it.
    A started sweep has no `schedule`, but a `sweep_id`, the client's `request`, and `stop_at`, when somebody
    requested its end. `place` is the boot and process namespace in which `pid` is valid."""

    number: int
    schedule: int | None = None
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
    """How a run ended."""

    state: RunState
    note: str = ""
    exit_code: int | None = None
    cost_usd: float | None = None
    trials: int | None = None
    report: Mapping[str, Any] = field(default_factory=dict)


class Leader(Struct, frozen=True):
    """The daemon that holds the daemon lock."""

    host: str
    pid: int


Record = TypeVar("Record", bound=Struct)


def record_of(kind: type[Record], row: Any, **more: Any) -> Record:
    """A table row as a record: fields take the values of columns with their names, and their defaults where
    a column is NULL. `more` gives fields that are no columns."""
    given = {str(name): value for name, value in row._mapping.items() if value is not None}
    return convert(given | more, kind)
