"""The filters of `advisor measurements list` and `export`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.domain import LimitedBy, Status, Task
from advisor.questions.fields import Choice, Flag, Text
from advisor.questions.numbers import Number
from advisor.questions.question import Question, ask

if TYPE_CHECKING:
    from advisor.store.measurements import Wanted

FORMATS = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}
_MOST_ROWS = 1000


class Measurements(Question):
    """Measurements that are equal in all that is named."""

    model: str | None = ask("Only this network.", Text("NAME"), default=None)
    task: Task | None = ask("Only this task.", Choice("task", Task), default=None)
    accelerator: str | None = ask("Only this accelerator: emulated:T4.", Text("KIND"), default=None)
    status: Status | None = ask("Only this status: ok, failed.", Choice("status", Status), default=None)
    limited_by: LimitedBy | None = ask(
        "Only this kind of limit: cgroup-v2, none.", Choice("limited by", LimitedBy), default=None
    )

    def wanted(self) -> Wanted:
        """The filter as the store takes it."""
        from advisor.store.measurements import Wanted  # with the store itself, which loads slowly

        return Wanted(
            network=self.model,
            task=self.task,
            accelerator=self.accelerator,
            status=self.status,
            limited_by=self.limited_by,
        )


class MeasurementPage(Measurements):
    """And which page of them; `cursor` is what the link to the next page carries."""

    spread: bool = ask("Add intervals and percentiles of steps.", Flag(), default=False)
    limit: int = ask(
        "Measurements of a page.", Number(whole=True, client_most=_MOST_ROWS), where="http", default=100
    )
    cursor: int | None = ask(
        "Where the page begins.", Number(whole=True, client_most=10**18), where="http", default=None
    )


class MeasurementExport(Measurements):
    """And in which format."""

    format: str = ask(
        "jsonl: every raw value; csv: a summary row each.", Choice("format", FORMATS), default="jsonl"
    )


class ScheduleDetails(Question):
    """How much of a schedule is shown."""

    runs: int = ask("How many of its latest runs.", Number(whole=True, client_most=_MOST_ROWS), default=10)
