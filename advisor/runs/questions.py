"""Questions that start a run other than a sweep: verifications, fits, price refreshes and schedules.

As in `advisor.questions.network`, each field is declared once; command-line options, HTTP fields with their
schemas, and equivalent command lines follow from it. The fields of sweeps are in `sweep_questions`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from advisor.catalog.catalog import DEFAULT_CLOUD
from advisor.catalog.overlay import LIVE_CLOUDS
from advisor.messages import FieldName, Message, option_name
from advisor.questions.fields import Choice, File, Kind, Number, Text, Texts, error_in
from advisor.questions.question import Needed, Question, ask
from advisor.questions.values import parse_gpus
from advisor.runs.fields import BUDGET, REGION, Budget, Nested
from advisor.runs.sweep_questions import MARKET, Launch, SweepRun, dollars, launch, refuse

REPORT_FORMATS = ("html", "pdf", "md", "csv", "xlsx", "json")
AUTO = "auto"
_LEAST_SAMPLES = 100

# More types would exceed an account's quota, and be hard to follow in a terminal.
MOST_SIDE_BY_SIDE = 8


class VerificationRun(Launch):
    """How a target is verified: where, and on which data."""

    instance: str = ask(
        "Instance type to verify, as g4dn.xlarge; auto: this machine, with --on aws the recommended type.",
        Kind(),
        default=AUTO,
    )
    accelerator: str | None = ask("cuda, cpu or emulated:<GPU>.", Text(), "the GPU that is here")
    data: Path | None = ask("Your own images.", File(), "generated")
    samples: int | None = ask("Number of images to generate.", Number(whole=True), "enough")
    minutes: float = ask("Longest measurement in minutes.", Number(most=60), default=2.0)
    budget: Budget | None = launch("Limit of --on aws: 1USD.", BUDGET, default=None)
    top: int | None = launch(
        "With --on aws: verify so many of the best types side by side, and choose among them.",
        Number(whole=True, most=MOST_SIDE_BY_SIDE),
        default=None,
    )

    asks = ("instance", "accelerator", "data", "samples", "minutes", "budget", "top", *Launch.asks)
    only_on_aws = (*Launch.asks[1:], "budget", "top")

    def __post_init__(self) -> None:
        if self.data is not None and not self.data.exists():
            raise error_in(
                "data", "there is nothing at '{path}'", path=self.data, hint="{data} takes your own images"
            )
        if self.data is not None and self.samples is not None:
            raise error_in("samples", "{field} is for images that are made", hint="leave it out with {data}")
        if self.samples is not None and self.samples < _LEAST_SAMPLES:
            raise error_in(
                "samples",
                "{field} takes {least} or more, not {samples}",
                least=_LEAST_SAMPLES,
                samples=self.samples,
            )
        if not self.on_aws:
            self.refuse_here()
        else:
            self._refuse_unrentable()

    def _refuse_unrentable(self) -> None:
        dollars(self.budget)
        if self.top is not None and self.instance.lower() != AUTO:
            raise error_in(
                "top", "{field} takes the best types, and {instance} names one", hint="leave one of them out"
            )
        refuse(self, ("data", "accelerator"), Message("{on} here", on=FieldName("on")))


class FitRun(Question):
    """A fit of the predictor on all that the store holds; it takes no fields."""


class PriceRefresh(Question):
    """Which prices are fetched, as by `advisor catalog refresh`; keys come from the environment."""

    cloud: str = ask("Cloud.", Choice("cloud", tuple(LIVE_CLOUDS)), default=DEFAULT_CLOUD)
    region: str | None = ask("Region.", Text(), "us-east-1 of aws")
    market: str = ask("Market.", MARKET, default="any")
    gpu: str | None = ask("GPUs, as T4,L4.", Text())

    def __post_init__(self) -> None:
        if self.region is None and self.cloud != DEFAULT_CLOUD:
            raise error_in("region", "{field} is needed for {cloud}", cloud=self.cloud)
        if self.region is not None and self.cloud == DEFAULT_CLOUD:
            REGION.from_text(self.region, "region")
        if self.gpu is not None:
            parse_gpus(self.gpu)


class ScheduleRequest(Question):
    """When something runs by itself; over HTTP also what: one of `sweep`, `fit` and `catalog_refresh`."""

    cron: str = ask("When to run: '0 3 * * 1' is Mondays at 3:00.", Text("LINE"), default=Needed)
    timezone: str = ask("Time zone, as Europe/Berlin.", Text("ZONE"), default="UTC")
    name: str | None = ask("Name of the schedule.", Text(), "derived from the command")
    misfire: str = ask(
        "After due times without a daemon: run once, or skip.",
        Choice("misfire", ("run-once", "skip")),
        default="run-once",
    )
    budget_per_month: str | None = ask(
        "Monthly budget, as 20USD; runs that could exceed it are skipped.", Text("MONEY")
    )
    report: Path | None = ask(
        "After each run, report on the workloads of this plan (docs/how-to/reports.md).", File(), where="cli"
    )
    send: tuple[str, ...] = ask(
        "Where to send the report and what changed since the last one; as `report --send`.",
        Texts("TARGET"),
        where="cli",
        default=(),
    )
    report_format: str = ask(
        "Format of the report.", Choice("report format", REPORT_FORMATS), where="cli", default="html"
    )
    send_when: str = ask(
        "Send always, or only when something changed.",
        Choice("--send-when", ("always", "changed")),
        where="cli",
        default="always",
    )
    sweep: SweepRun | None = ask("What `sweep run` measures.", Nested(SweepRun), where="http")
    fit: FitRun | None = ask("A fit.", Nested(FitRun), where="http")
    catalog_refresh: PriceRefresh | None = ask("A price refresh.", Nested(PriceRefresh), where="http")


def command_words(question: Question, without: Iterable[str] = ()) -> tuple[str, ...]:
    """The question as command-line options, without defaults and the fields in `without`. Option and value
    are one word (`--name=value`), so that no value is taken for an option."""
    words: list[str] = []
    for field in question.fields.values():
        value, kind = getattr(question, field.attribute), field.kind
        if not question.differs(field) or field.name in without:
            continue
        if value is True:
            words.append(field.option)
        else:
            values = value if kind.repeats else (value,)
            words += [f"{option_name(field.name)}={kind.text_of(item)}" for item in values]
    return tuple(words)
