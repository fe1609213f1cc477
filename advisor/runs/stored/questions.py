"""Which stored measurements, typed: the filters of `advisor measurements list` and `export`."""
# Annotations are evaluated here, not kept as texts: the models are looked into at every start.

from typing import TYPE_CHECKING, Annotated

from advisor.domain import LimitedBy, Status, Task
from advisor.questions.fields import About, Choice, Flag, Number, Text
from advisor.questions.models import Question

if TYPE_CHECKING:
    from sweeps.store.pages import Wanted

FORMATS = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}
_MOST_ROWS = 1000


class Measurements(Question, frozen=True, kw_only=True):
    """Measurements that are equal in all that is named."""

    model: Annotated[str | None, About("Only this network.", Text("NAME"))] = None
    task: Annotated[Task | None, About("Only this task.", Choice("task", Task))] = None
    accelerator: Annotated[
        str | None, About("Only this accelerator: emulated:T4.", Text("KIND"))
    ] = None
    status: Annotated[
        Status | None, About("Only this status: ok, failed.", Choice("status", Status))
    ] = None
    limited_by: Annotated[
        LimitedBy | None,
        About("Only this kind of limit: cgroup-v2, none.", Choice("limited by", LimitedBy)),
    ] = None

    def wanted(self) -> "Wanted":
        """As the store takes it."""
        from sweeps.store.pages import Wanted  # with the store itself, which loads slowly

        return Wanted(
            network=self.model, task=self.task, accelerator=self.accelerator, status=self.status,
            limited_by=self.limited_by,
        )  # fmt: skip


class MeasurementPage(Measurements, frozen=True, kw_only=True):
    """And which page of them; `cursor` is what the link to the next page carries."""

    spread: Annotated[bool, About("Add intervals and percentiles of steps.", Flag())] = False
    limit: Annotated[
        int, About("Measurements of a page.", Number(whole=True, client_most=_MOST_ROWS))
    ] = 100
    cursor: Annotated[
        int | None, About("Where the page begins.", Number(whole=True, client_most=10**18))
    ] = None


class MeasurementExport(Measurements, frozen=True, kw_only=True):
    """And in which format."""

    format: Annotated[
        str, About("jsonl: every raw value; csv: a summary row each.", Choice("format", FORMATS))
    ] = "jsonl"


class ScheduleDetails(Question, frozen=True, kw_only=True):
    """How much of a schedule is shown."""

    runs: Annotated[
        int, About("How many of its latest runs.", Number(whole=True, client_most=_MOST_ROWS))
    ] = 10
