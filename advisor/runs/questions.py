"""What starts a run, typed: sweeps and their grids, verifications, launches on AWS, schedules.

As in `advisor.questions.models`, a field stands here once; options of the command line, fields over
HTTP with their schemas, and the words of a command that asks the same follow from it. A client over
HTTP names nothing of this machine: `Allowed` holds the data sets and networks that it may name.
"""
# Annotations are evaluated here, not kept as texts: the models are looked into at every start.

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

from msgspec.structs import replace

from advisor.domain import MEASURABLE_PRECISIONS, CacheState, Precision, Task
from advisor.domain.workload import is_own
from advisor.errors import unknown_name
from advisor.messages import FieldName, Message, option_name
from advisor.questions.fields import About, Choice, File, Flag, Kind, Number, Text, Texts, wrong
from advisor.questions.models import Question
from advisor.questions.reading import fields_of
from advisor.questions.values import parse_gpus
from advisor.runs.budget import Budget
from advisor.runs.fields import (
    BUDGET,
    PORT,
    REGION,
    SIZE,
    TAG,
    Amount,
    ClientChoice,
    DiskPath,
    Items,
    Moment,
    Nested,
    NetworkName,
    Regions,
    Share,
)
from sweeps.planning.disks import split_disks

HERE, AWS = "here", "aws"
EXECUTORS = ("ray", "process", "inline")
DECODERS = ("pillow", "simplejpeg")
PRESETS = ("small",)
MARKETS = ("any", "spot", "on-demand")
REPORT_FORMATS = ("html", "pdf", "md", "csv", "xlsx", "json")
AUTO = "auto"
# A client's grid is a product: it is counted before it is made.
MOST_TRIALS = 5_000
_MOST_MINUTES, _LEAST_SAMPLES = 60.0, 100
R = TypeVar("R", bound="SweepGrid")

_trial = partial(About, section="Trials")
_planning = partial(About, section="Adaptive planning and costs")
_launch = partial(About, section="On AWS")
_of_launch = partial(About, section="On AWS", where="cli")
_watch = partial(About, section="Watching")
_NUMBERS, _COUNTS = Items(Amount(), "NUMBERS"), Items(Amount(whole=True), "NUMBERS")
_COUNT, _TYPES, _KINDS = Amount(whole=True), Items(Text(), "TYPE"), Items(Text(), "KIND")
_NETWORKS, _DISKS = Items(NetworkName(), "NAMES"), Items(Text(), "DISKS", split_disks)
_TASKS, _STATES = (
    Items(Choice("task", Task), "TASKS"),
    Items(Choice("cache state", CacheState), "STATES"),
)
_PRECISION = Choice("precision", MEASURABLE_PRECISIONS)
_MARKET = Choice("market", MARKETS)

# What a preset or a grid consists of; without the first five there is no grid.
_NEEDED = ("networks", "tasks", "vcpus", "memory", "disks")
_PRODUCT = (*_NEEDED, "accelerator", "batch_sizes", "cache")
_DESCRIBING = (*_PRODUCT, "precision")
# Fields of a launch, which sweeps and verifications have.
LAUNCH = ("dry_run", "hours", "queue", "owner", "sweep_id", "bucket", "subnet", "image",
          "instance_profile")  # fmt: skip
_ONLY_ON_AWS: tuple[str, ...] = (*LAUNCH, "region", "market", "database_parameter")
_On = Annotated[
    str,
    _launch(
        "Where to measure: here, or aws: rent an instance within the budget and end it afterwards.",
        Choice("place", (HERE, AWS)),
    ),
]
_DryRun = Annotated[bool, _of_launch("With --on aws: check everything, launch nothing.", Flag())]
_Hours = Annotated[
    float | None,
    _launch("Longest life of an instance in hours.", Amount(most=168, metavar="HOURS")),
]
_Queue = Annotated[
    float | None,
    _launch("Minutes to wait for capacity.", Amount(most=10_080, metavar="MINUTES"), "15"),
]
_Owner = Annotated[str | None, _of_launch("Owner tag.", TAG, "your user name")]
_SweepId = Annotated[
    str | None, _of_launch("Name of the sweep.", Kind(), "derived from its options")
]
_Bucket = Annotated[
    str | None, _of_launch("S3 bucket for jobs and results.", Kind(), "ADVISOR_BUCKET")
]
_Subnet = Annotated[str | None, _of_launch("Subnet.", Kind(), "the default subnets")]
_Image = Annotated[
    str | None, _of_launch("Machine image.", Kind(), "AWS's newest with the GPU driver")
]
_Profile = Annotated[
    str | None, _of_launch("Role of the instance, or none.", Kind(), "advisor-guest")
]


class SweepGrid(Question, frozen=True, kw_only=True):
    """Trials to measure: `networks`, `tasks`, `vcpus`, `memory` and `disks`, or a `preset`. Without
    any of them it describes nothing, which stands for all that is stored."""

    preset: Annotated[
        str | None, _trial("Sweep by name: small (under 10 minutes).", Choice("preset", PRESETS))
    ] = None
    networks: Annotated[
        tuple[str, ...],
        _trial("Networks: alexnet,googlenet, or your own: net.py:build.", _NETWORKS),
    ] = ()
    tasks: Annotated[
        tuple[Task, ...], _trial("Tasks: training,inference,preprocessing.", _TASKS)
    ] = ()
    vcpus: Annotated[tuple[float, ...], _trial("vCPU limits: 0.5,1,2.", _NUMBERS)] = ()
    memory: Annotated[
        tuple[float, ...],
        _trial("RAM limits, page cache included: 2GiB,4GiB.", Items(SIZE, "SIZES")),
    ] = ()
    disks: Annotated[
        tuple[str, ...],
        _trial("Disks: gp3,st1:500GiB,slow=20MiB/s,500iops,unlimited.", _DISKS),
    ] = ()
    accelerator: Annotated[
        tuple[str, ...],
        _trial(
            "cuda, cpu, or emulated:GPU (takes its known step times).",
            _KINDS,
            "cuda where there is one, else emulated:T4",
        ),
    ] = ()
    batch_sizes: Annotated[tuple[int, ...], _trial("Batch sizes: 16,32.", _COUNTS, "32")] = ()
    cache: Annotated[
        tuple[CacheState, ...],
        _trial("Page cache at the start: warm, cold or both.", _STATES, "warm"),
    ] = ()
    precision: Annotated[
        Precision | None, _trial("Number format: fp32, amp or bf16.", _PRECISION, "fp32")
    ] = None
    data: Annotated[
        Path | None,
        _trial(
            "Your own images (JPEG files, .tar, .rec, LMDB) or text (.txt); of a service, a "
            "name that it allows.",
            File(),
            "generated",
        ),
    ] = None
    decoder: Annotated[str, _trial("Decoder of JPEG files.", Choice("decoder", DECODERS))] = (
        "pillow"
    )
    rel_error: Annotated[
        float, _trial("Stop a trial once its rate is known this precisely.", Share())
    ] = 0.02
    repeats: Annotated[
        int, _trial("Runs of each trial, in random order, stored in one row.", _COUNT)
    ] = 1
    iterations: Annotated[
        int | None, _trial("Number of steps of each trial, in place of a relative error.", _COUNT)
    ] = None
    disk_path: Annotated[
        tuple[tuple[str, Path], ...],
        _trial(
            "Folder on a mounted disk of that type, as gp3=/mnt/gp3; it is not throttled.",
            DiskPath(),
            where="cli",
        ),
    ] = ()
    ray_address: Annotated[
        str | None,
        _trial("Address of the Ray cluster to measure on.", Text("ADDRESS"), where="cli"),
    ] = None

    def __post_init__(self) -> None:
        described = [FieldName(name) for name in _DESCRIBING if getattr(self, name)]
        if self.preset and described:
            raise wrong(
                "preset", "{field} decides about {also} already", also=described,
                hint="give one or the other",
            )  # fmt: skip
        if described:
            self.require_trials()

    @property
    def is_empty(self) -> bool:
        """Whether it describes no trial."""
        return not any(getattr(self, name) for name in ("preset", *_DESCRIBING))

    def require_trials(self) -> None:
        """`UsageError` for what a grid lacks."""
        missing = [FieldName(name) for name in _NEEDED if not getattr(self, name)]
        if not self.preset and missing:
            hint = Message("or take {preset} small", preset=FieldName("preset"))
            raise wrong(str(missing[0]), "a sweep needs {missing}", missing=missing, hint=hint)


class PlannedSweep(SweepGrid, frozen=True, kw_only=True):
    """A sweep that is planned: its trials, whether it plans itself, and what its host costs."""

    adaptive: Annotated[
        bool,
        _planning("Choose the most informative trials, and stop when they suffice.", Flag()),
    ] = False
    budget: Annotated[
        Budget | None,
        _planning("Limit of --adaptive: 30trials, 2h, 90min or 5USD; of --on aws: 5USD.", BUDGET),
    ] = None
    target_throughput: Annotated[
        float | None,
        _planning(
            "With --adaptive: find the cheapest spec that reaches this rate (samples/s).",
            Amount(metavar="RATE"),
        ),
    ] = None
    usd_per_hour: Annotated[
        float | None,
        _planning("Price of this host, for costs and budgets.", Amount(metavar="PRICE")),
    ] = None
    instance: Annotated[
        tuple[str, ...],
        _planning("Type of this host, for its price; with --on aws the types to launch.", _TYPES),
    ] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_trials()
        if getattr(self, "on", HERE) == HERE:
            self._check_planning()

    def _check_planning(self) -> None:
        adaptive, price = FieldName("adaptive"), FieldName("usd_per_hour")
        if not self.adaptive:
            _refuse(self, ("budget", "target_throughput"), adaptive)
        elif self.budget is None:
            raise wrong(
                "budget", "{adaptive} needs {field}, as 30trials, 2h or 5USD", adaptive=adaptive,
            )  # fmt: skip
        elif self.budget.usd is not None and not (self.usd_per_hour or self.instance):
            raise wrong(
                "budget", "a budget of {usd:g} USD needs the price of this host",
                usd=self.budget.usd,
                hint=Message(
                    "give {price}, or {instance} for one of the catalogue", price=price,
                    instance=FieldName("instance"),
                ),
            )  # fmt: skip
        if len(self.instance) + bool(self.usd_per_hour) > 1:
            raise wrong(
                "usd_per_hour", "{given} both price this host",
                given=[price, *self.instance] if self.usd_per_hour else self.instance,
                hint="give one of them",
            )  # fmt: skip


class SweepRun(PlannedSweep, frozen=True, kw_only=True):
    """A sweep that is measured, on this machine or on AWS."""

    executor: Annotated[
        str,
        About(
            "How trials run; inline is for debugging (no limits, never fitted).",
            ClientChoice("executor", EXECUTORS, "inline"),
        ),
    ] = "ray"
    retry_failed: Annotated[bool, About("Repeat failed and contaminated trials.", Flag())] = False
    on: _On = HERE
    dry_run: _DryRun = False
    hours: _Hours = None
    queue: _Queue = None
    owner: _Owner = None
    sweep_id: _SweepId = None
    bucket: _Bucket = None
    subnet: _Subnet = None
    image: _Image = None
    instance_profile: _Profile = None
    region: Annotated[
        tuple[str, ...],
        _launch("AWS regions, tried in this order.", Regions("REGION"), "us-east-1"),
    ] = ()
    market: Annotated[str | None, _launch("Market of the rented instance.", _MARKET, "any")] = None
    database_parameter: Annotated[
        str | None, _of_launch("SSM parameter that holds the URL of a shared PostgreSQL.", Kind())
    ] = None

    only_on_aws = _ONLY_ON_AWS

    @property
    def on_aws(self) -> bool:
        """Whether it measures there, which spends money and leaves this machine's quiet."""
        return self.on == AWS

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.on_aws:
            self._check_launch()
            return
        _refuse(self, self.only_on_aws, Message("{on} aws", on=FieldName("on")))
        if self.adaptive and self.retry_failed:
            raise wrong(
                "retry_failed", "{adaptive} goes on past failures", adaptive=FieldName("adaptive"),
                hint=Message("leave {failed} out", failed=FieldName("retry_failed")),
            )  # fmt: skip

    def _check_launch(self) -> None:
        for name, why in _NOT_ON_AWS.items():
            if getattr(self, name):
                raise wrong(name, "{field} {why}", why=why)
        if any(map(is_own, self.networks)):
            raise wrong(
                "networks", "{field}: a file of your own is not sent to AWS",
                hint="name known networks",
            )  # fmt: skip
        dollars(self.budget)
        if not self.instance:
            raise wrong("instance", "{on} aws needs {field}, as g4dn.xlarge", on=FieldName("on"))


# What means nothing on another machine, and why.
_NOT_ON_AWS = {
    "data": Message("lies on this machine"),
    "disk_path": Message(
        "is of this machine; on AWS a volume is mounted for each of {disks}",
        disks=FieldName("disks"),
    ),
    "ray_address": Message("is a cluster of yours; a launch brings its own machine"),
    "usd_per_hour": Message("is known of an instance"),
    "adaptive": Message("is not for AWS; give the grid"),
    "target_throughput": Message("goes with {adaptive}", adaptive=FieldName("adaptive")),
}


class NewSweep(SweepRun, frozen=True, kw_only=True):
    """A sweep that a client starts."""

    dry_run: Annotated[bool, About("Show the plan; start nothing.", Flag(), where="http")] = False
    max_minutes: Annotated[
        float, About("It is ended after so long.", Amount(most=10_080), where="http")
    ] = 1440.0
    fresh_since: Annotated[
        datetime | None,
        About(
            "Repeat trials measured before this time: 2026-11-21T03:00Z.", Moment(), where="http"
        ),
    ] = None

    only_on_aws = _ONLY_ON_AWS[1:]  # its plan may be asked for here, too


class Watching(Question, frozen=True, kw_only=True):
    """How a sweep is watched from inside: its log and its metrics."""

    log_file: Annotated[
        Path | None, _watch("Log file, one JSON object a line.", File(), "the user's log")
    ] = None
    log_level: Annotated[
        str,
        _watch("Least level that is logged.", Choice("log level", ("debug", "info", "warning"))),
    ] = "info"
    metrics_port: Annotated[int | None, _watch("Port for Prometheus metrics.", PORT)] = None
    metrics_host: Annotated[
        str | None,
        _watch("Address of the metrics port; it has no password.", Text("HOST"), "127.0.0.1"),
    ] = None
    metrics_file: Annotated[
        Path | None, _watch("File for metrics (.prom), for the node exporter.", File())
    ] = None

    def __post_init__(self) -> None:
        if self.metrics_host and self.metrics_port is None:
            hint = Message("add {port}", port=FieldName("metrics_port"))
            raise wrong("metrics_host", "{field} is the address of a port", hint=hint)

    def refuse_elsewhere(self) -> None:
        """`UsageError` where another machine measures."""
        for name in ("metrics_port", "metrics_file", "log_file"):
            if getattr(self, name) is not None:
                raise wrong(name, "{field} is of this machine")


class VerificationRun(Question, frozen=True, kw_only=True):
    """How a target is verified: where, and on which data."""

    instance: Annotated[
        str,
        About(
            "Instance type to verify, as g4dn.xlarge; auto: this machine, with --on aws the "
            "recommended type.",
            Kind(),
        ),
    ] = AUTO
    accelerator: Annotated[
        str | None, About("cuda, cpu or emulated:<GPU>.", Text(), "the GPU that is here")
    ] = None
    data: Annotated[Path | None, About("Your own images.", File(), "generated")] = None
    samples: Annotated[
        int | None, About("Number of images to generate.", Number(whole=True), "enough")
    ] = None
    minutes: Annotated[float, About("Longest measurement in minutes.", Number())] = 2.0
    budget: Annotated[Budget | None, _launch("Limit of --on aws: 1USD.", BUDGET)] = None
    on: _On = HERE
    dry_run: _DryRun = False
    hours: _Hours = None
    queue: _Queue = None
    owner: _Owner = None
    sweep_id: _SweepId = None
    bucket: _Bucket = None
    subnet: _Subnet = None
    image: _Image = None
    instance_profile: _Profile = None

    def __post_init__(self) -> None:
        if self.minutes > _MOST_MINUTES:
            raise wrong(
                "minutes", "{field} takes up to {most:g}, not {minutes:g}", most=_MOST_MINUTES,
                minutes=self.minutes,
            )  # fmt: skip
        if self.data is not None and not self.data.exists():
            hint = Message("{data} takes your own images", data=FieldName("data"))
            raise wrong("data", "there is nothing at '{path}'", path=self.data, hint=hint)
        if self.data is not None and self.samples is not None:
            hint = Message("leave it out with {data}", data=FieldName("data"))
            raise wrong("samples", "{field} is for images that are made", hint=hint)
        if self.samples is not None and self.samples < _LEAST_SAMPLES:
            raise wrong(
                "samples", "{field} takes {least} or more, not {samples}", least=_LEAST_SAMPLES,
                samples=self.samples,
            )  # fmt: skip
        if self.on != AWS:
            _refuse(self, (*LAUNCH, "budget"), Message("{on} aws", on=FieldName("on")))
            return
        dollars(self.budget)
        if self.data is not None:
            raise wrong(
                "data", "{field} lies on this machine; data of that size are made there",
                hint="leave it out",
            )  # fmt: skip
        if self.accelerator is not None:
            raise wrong("accelerator", "{field} is the GPU of the instance", hint="leave it out")


class FitRun(Question, frozen=True, kw_only=True):
    """A fit of the predictor on all that the store holds; it takes no fields."""


class PriceRefresh(Question, frozen=True, kw_only=True):
    """Which prices of AWS are fetched, as `advisor catalog refresh` calls them."""

    region: Annotated[str, About("AWS region.", REGION)] = "us-east-1"
    market: Annotated[str, About("Market.", _MARKET)] = "any"
    gpu: Annotated[str | None, About("GPUs, as T4,L4.", Text())] = None

    def __post_init__(self) -> None:
        if self.gpu is not None:
            parse_gpus(self.gpu)


class ScheduleRequest(Question, frozen=True, kw_only=True):
    """When something runs by itself; over HTTP also what: one of `sweep`, `fit` and
    `catalog_refresh`."""

    cron: Annotated[str, About("When to run: '0 3 * * 1' is Mondays at 3:00.", Text("LINE"))]
    timezone: Annotated[str, About("Time zone, as Europe/Berlin.", Text("ZONE"))] = "UTC"
    name: Annotated[
        str | None, About("Name of the schedule.", Text(), "derived from the command")
    ] = None
    misfire: Annotated[
        str,
        About(
            "After due times without a daemon: run once, or skip.",
            Choice("misfire", ("run-once", "skip")),
        ),
    ] = "run-once"
    budget_per_month: Annotated[
        str | None,
        About("Monthly budget, as 20USD; runs that could exceed it are skipped.", Text("MONEY")),
    ] = None
    report: Annotated[
        Path | None,
        About(
            "After each run, report on the workloads of this plan (docs/reports.md).",
            File(),
            where="cli",
        ),
    ] = None
    send: Annotated[
        tuple[str, ...],
        About(
            "Where to send the report and what changed since the last one; as `report --send`.",
            Texts("TARGET"),
            where="cli",
        ),
    ] = ()
    report_format: Annotated[
        str, About("Format of the report.", Choice("report format", REPORT_FORMATS), where="cli")
    ] = "html"
    send_when: Annotated[
        str,
        About(
            "Send always, or only when something changed.",
            Choice("--send-when", ("always", "changed")),
            where="cli",
        ),
    ] = "always"
    sweep: Annotated[
        SweepRun | None, About("What `sweep run` measures.", Nested(SweepRun), where="http")
    ] = None
    fit: Annotated[FitRun | None, About("A fit.", Nested(FitRun), where="http")] = None
    catalog_refresh: Annotated[
        PriceRefresh | None, About("A price refresh.", Nested(PriceRefresh), where="http")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """What clients may name: data sets (name -> path), own networks (name -> `file.py:build`)."""

    data: Mapping[str, str] = field(default_factory=dict)
    code: Mapping[str, str] = field(default_factory=dict)

    def resolved(self, sweep: R) -> R:
        """A client's sweep with the paths of what it names; `UsageError` for what is not allowed,
        and for a grid that nobody wants to plan."""
        counts = [len(getattr(sweep, name)) for name in _PRODUCT]
        if (trials := math.prod(max(1, count) for count in counts)) > MOST_TRIALS:
            raise wrong("vcpus", "that would be {trials:,} trials", trials=trials,
                        hint=Message("at most {most:,} are taken", most=MOST_TRIALS))  # fmt: skip
        return replace(
            sweep,
            networks=tuple(map(self._network, sweep.networks)),
            data=None if sweep.data is None else self._data(str(sweep.data)),
        )

    def _network(self, name: str) -> str:
        from models.performance.networks import bundled_networks

        if name in self.code:
            return self.code[name]
        if is_own(name.lower()) or ("/" in name and not bundled_networks().knows(name)):
            raise wrong(
                "networks", "{field}: '{name}' names code of this machine", name=name[:80],
                hint=Message("only what `advisor serve --allow-code` names may be run: {names}",
                             names=", ".join(sorted(self.code)) or Message("it names none")),
            )  # fmt: skip
        return name.lower()

    def _data(self, name: str) -> Path:
        if name in self.data:
            return Path(self.data[name])
        if self.data:
            raise unknown_name("data set", name, self.data, field="data")
        raise wrong(
            "data", "{field}: no data set is allowed here",
            hint="`advisor serve --allow-data NAME=PATH` names one, or leave it out for "
            "photographs that are made",
        )  # fmt: skip


def words_of(question: Question, without: Iterable[str] = ()) -> tuple[str, ...]:
    """Options of a command that asks the same. Each word holds its option's name, so that no value
    is ever taken for an option; what is as it would be anyway is left out."""
    words: list[str] = []
    for each in fields_of(type(question)).values():
        value, kind = getattr(question, each.name), each.about.kind
        if value == each.default or each.name in without:
            continue
        if value is True:
            words.append(each.option)
        else:
            values = value if kind.repeats else (value,)
            words += [f"{option_name(each.name)}={kind.text_of(one)}" for one in values]
    return tuple(words)


def dollars(budget: Budget | None) -> float:
    """What a launch may spend; `UsageError` for other budgets, and none."""
    if budget is None:
        raise wrong("budget", "{on} aws needs {field}, as 5USD: it is never passed",
                    on=FieldName("on"))  # fmt: skip
    if budget.usd is None:
        raise wrong("budget", "{on} aws takes a {field} of money, as 5USD, not {text}",
                    on=FieldName("on"), text=budget.text)  # fmt: skip
    return budget.usd


def _refuse(question: Question, names: Iterable[str], only_with: object) -> None:
    """Fields that mean nothing without another one, and would be thought to do something."""
    given = [FieldName(name) for name in names if getattr(question, name)]
    if given:
        raise wrong(str(given[0]), "{given}: only with {other}", given=given, other=only_with,
                    hint="add it, or leave that out")  # fmt: skip
