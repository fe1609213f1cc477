"""What starts a run, typed: sweeps and their grids, verifications, launches on AWS, schedules.

As in `advisor.questions.models`, a field stands here once; options of the command line, fields over
HTTP with their schemas, and the words of a command that asks the same follow from it. A client over
HTTP names nothing of this machine: `Allowed` holds the data sets and networks that it may name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from advisor.catalog.catalog import DEFAULT_CLOUD
from advisor.catalog.live import LIVE_CLOUDS
from advisor.domain import (
    MEASURABLE_PRECISIONS,
    CacheState,
    MemoryFormat,
    Precision,
    Stack,
    Task,
)
from advisor.domain.workload import is_own
from advisor.errors import unknown_name
from advisor.messages import FieldName, Message, option_name
from advisor.questions.fields import Choice, File, Flag, Kind, Place, Text, Texts, wrong
from advisor.questions.numbers import Number
from advisor.questions.question import Question, ask
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
from advisor.sweeps.datasets.remote import S3, is_address
from advisor.sweeps.planning.disks import split_disks

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

_trial = partial(ask, section="Trials")
_planning = partial(ask, section="Adaptive planning and costs")
_launch = partial(ask, section="On AWS")
_of_launch = partial(ask, section="On AWS", where="cli")
_watch = partial(ask, section="Watching")
_NUMBERS, _COUNTS = Items(Amount(), "NUMBERS"), Items(Amount(whole=True), "NUMBERS")
_COUNT, _TYPES, _KINDS = Amount(whole=True), Items(Text(), "TYPE"), Items(Text(), "KIND")
_NETWORKS, _DISKS = Items(NetworkName(), "NAMES"), Items(Text(), "DISKS", split_disks)
_TASKS, _STATES = (
    Items(Choice("task", Task), "TASKS"),
    Items(Choice("cache state", CacheState), "STATES"),
)
_FORMATS = Items(Choice("memory format", MemoryFormat), "FORMATS")
_STACKS = Items(Choice("stack", Stack), "STACKS")
_PRECISION = Choice("precision", MEASURABLE_PRECISIONS)
_MARKET = Choice("market", MARKETS)

# What a preset or a grid consists of; without the first five there is no grid.
_NEEDED = ("networks", "tasks", "vcpus", "memory", "disks")
_PRODUCT = (*_NEEDED, "accelerator", "batch_sizes", "cache", "memory_format", "stack")
_DESCRIBING = (*_PRODUCT, "precision")
# Fields of a launch, which sweeps and verifications have.
LAUNCH = ("dry_run", "hours", "queue", "owner", "sweep_id", "bucket", "subnet", "image",
          "instance_profile")  # fmt: skip
_ONLY_ON_AWS: tuple[str, ...] = (*LAUNCH, "region", "market", "database_parameter")
_On: Any = _launch(
    "Where to measure: here, or aws: rent an instance within the budget and end it afterwards.",
    Choice("place", (HERE, AWS)),
    default=HERE,
)
_DryRun: Any = _of_launch("With --on aws: check everything, launch nothing.", Flag(), default=False)
_Hours: Any = _launch(
    "Longest life of an instance in hours.", Amount(most=168, metavar="HOURS"), default=None
)
_Queue: Any = _launch(
    "Minutes to wait for capacity.", Amount(most=10_080, metavar="MINUTES"), "15", default=None
)
_Owner: Any = _of_launch("Owner tag.", TAG, "your user name", default=None)
_SweepId: Any = _of_launch("Name of the sweep.", Kind(), "derived from its options", default=None)
_Bucket: Any = _of_launch("S3 bucket for jobs and results.", Kind(), "ADVISOR_BUCKET", default=None)
_Subnet: Any = _of_launch("Subnet.", Kind(), "the default subnets", default=None)
_Image: Any = _of_launch("Machine image.", Kind(), "AWS's newest with the GPU driver", default=None)
_Profile: Any = _of_launch("Role of the instance, or none.", Kind(), "advisor-guest", default=None)


class SweepGrid(Question):
    """Trials to measure: `networks`, `tasks`, `vcpus`, `memory` and `disks`, or a `preset`. Without
    any of them it describes nothing, which stands for all that is stored."""

    preset: str | None = _trial(
        "Sweep by name: small (under 10 minutes).", Choice("preset", PRESETS), default=None
    )
    networks: tuple[str, ...] = _trial(
        "Networks: alexnet,googlenet, or your own: net.py:build.", _NETWORKS, default=()
    )
    tasks: tuple[Task, ...] = _trial("Tasks: training,inference,preprocessing.", _TASKS, default=())
    vcpus: tuple[float, ...] = _trial("vCPU limits: 0.5,1,2.", _NUMBERS, default=())
    memory: tuple[float, ...] = _trial(
        "RAM limits, page cache included: 2GiB,4GiB.", Items(SIZE, "SIZES"), default=()
    )
    disks: tuple[str, ...] = _trial(
        "Disks: gp3,st1:500GiB,slow=20MiB/s,500iops,unlimited.", _DISKS, default=()
    )
    accelerator: tuple[str, ...] = _trial(
        "cuda, cuda:T4 (that whole card), cpu, or emulated:T4 (takes its known step times).",
        _KINDS,
        "cuda where there is one, else emulated:T4",
        default=(),
    )
    batch_sizes: tuple[int, ...] = _trial("Batch sizes: 16,32.", _COUNTS, "32", default=())
    cache: tuple[CacheState, ...] = _trial(
        "Page cache at the start: warm, cold or both.", _STATES, "warm", default=()
    )
    precision: Precision | None = _trial(
        "Number format: fp32, amp or bf16.", _PRECISION, "fp32", default=None
    )
    memory_format: tuple[MemoryFormat, ...] = _trial(
        "Memory layouts of images: contiguous,channels_last.",
        _FORMATS,
        "contiguous; on a GPU in amp or bf16 both",
        default=(),
    )
    stack: tuple[Stack, ...] = _trial(
        "How PyTorch runs networks: eager,compile.", _STACKS, "eager", default=()
    )
    cudnn_benchmark: bool = _trial(
        "Let cuDNN try its algorithms before the first step.", Flag(), default=False
    )
    synchronise_each_step: bool = _trial(
        "Wait for a GPU after each step: the latency of a batch, not the rate of a loop.",
        Flag(),
        default=False,
    )
    data: str | None = _trial(
        "Your own images (JPEG files, .tar, .rec, LMDB) or text (.txt), here or at an address "
        "(s3://bucket/photos); of a service, a name that it allows.",
        Place(),
        "generated",
        default=None,
    )
    decoder: str = _trial("Decoder of JPEG files.", Choice("decoder", DECODERS), default="pillow")
    rel_error: float = _trial(
        "Stop a trial once its rate is known this precisely.", Share(), default=0.02
    )
    measure_seconds: float | None = _trial(
        "Seconds of steady state that a trial measures at least.",
        Amount(most=3600, metavar="SECONDS"),
        "60 on a GPU, else 4",
        default=None,
    )
    repeats: int = _trial(
        "Runs of each trial, in random order, stored in one row.", _COUNT, default=1
    )
    iterations: int | None = _trial(
        "Number of steps of each trial, in place of a relative error.", _COUNT, default=None
    )
    disk_path: tuple[tuple[str, Path], ...] = _trial(
        "Folder on a mounted disk of that type, as gp3=/mnt/gp3; it is not throttled.",
        DiskPath(),
        where="cli",
        default=(),
    )
    ray_address: str | None = _trial(
        "Address of the Ray cluster to measure on.", Text("ADDRESS"), where="cli", default=None
    )

    def __post_init__(self) -> None:
        described = [FieldName(name) for name in _DESCRIBING if getattr(self, name)]
        if self.preset and described:
            raise wrong(
                "preset", "{field} decides about {also} already", also=described,
                hint="give one or the other",
            )  # fmt: skip
        if described:
            self.require_trials()
        if self.ray_address and self.disk_path and is_address(self.data or ""):
            raise wrong(
                "data", "{field}: a cluster's nodes do not copy an address to {disk_path}",
                disk_path=FieldName("disk_path"),
                hint="copy the data to that disk of each node, and name the path there",
            )  # fmt: skip

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


class PlannedSweep(SweepGrid):
    """A sweep that is planned: its trials, whether it plans itself, and what its host costs."""

    adaptive: bool = _planning(
        "Choose the most informative trials, and stop when they suffice.", Flag(), default=False
    )
    budget: Budget | None = _planning(
        "Limit of --adaptive: 30trials, 2h, 90min or 5USD; of --on aws: 5USD.", BUDGET, default=None
    )
    target_throughput: float | None = _planning(
        "With --adaptive: find the cheapest spec that reaches this rate (samples/s).",
        Amount(metavar="RATE"),
        default=None,
    )
    usd_per_hour: float | None = _planning(
        "Price of this host, for costs and budgets.", Amount(metavar="PRICE"), default=None
    )
    instance: tuple[str, ...] = _planning(
        "Type of this host, for its price; with --on aws the types to launch.", _TYPES, default=()
    )

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


class SweepRun(PlannedSweep):
    """A sweep that is measured, on this machine or on AWS."""

    executor: str | None = ask(
        "How trials run: by default ray on a cluster and on several GPUs, else process; inline is "
        "for debugging (no limits, never fitted).",
        ClientChoice("executor", EXECUTORS, "inline"),
        default=None,
    )
    retry_failed: bool = ask("Repeat failed and contaminated trials.", Flag(), default=False)
    on: str = _On
    dry_run: bool = _DryRun
    hours: float | None = _Hours
    queue: float | None = _Queue
    owner: str | None = _Owner
    sweep_id: str | None = _SweepId
    bucket: str | None = _Bucket
    subnet: str | None = _Subnet
    image: str | None = _Image
    instance_profile: str | None = _Profile
    region: tuple[str, ...] = _launch(
        "AWS regions, tried in this order.", Regions("REGION"), "us-east-1", default=()
    )
    market: str | None = _launch("Market of the rented instance.", _MARKET, "any", default=None)
    database_parameter: str | None = _of_launch(
        "SSM parameter that holds the URL of a shared PostgreSQL.", Kind(), default=None
    )

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
        if self.data and not self.data.startswith(f"{S3}://"):
            raise wrong(
                "data", "{field} {why}",
                why=_NOT_IN_S3[is_address(self.data)],
                hint="copy it there, and name s3://BUCKET/PREFIX",
            )  # fmt: skip
        if any(map(is_own, self.networks)):
            raise wrong(
                "networks", "{field}: a file of your own is not sent to AWS",
                hint="name known networks",
            )  # fmt: skip
        dollars(self.budget)
        if not self.instance:
            raise wrong("instance", "{on} aws needs {field}, as g4dn.xlarge", on=FieldName("on"))


_NOT_IN_S3 = {
    True: Message("is read from S3 by an instance"),
    False: Message("lies on this machine"),
}
# What means nothing on another machine, and why.
_NOT_ON_AWS = {
    "disk_path": Message(
        "is of this machine; on AWS a volume is mounted for each of {disks}",
        disks=FieldName("disks"),
    ),
    "ray_address": Message("is a cluster of yours; a launch brings its own machine"),
    "usd_per_hour": Message("is known of an instance"),
    "adaptive": Message("is not for AWS; give the grid"),
    "target_throughput": Message("goes with {adaptive}", adaptive=FieldName("adaptive")),
}


class NewSweep(SweepRun):
    """A sweep that a client starts."""

    dry_run: bool = ask("Show the plan; start nothing.", Flag(), where="http", default=False)
    max_minutes: float = ask(
        "It is ended after so long.", Amount(most=10_080), where="http", default=1440.0
    )
    fresh_since: datetime | None = ask(
        "Repeat trials measured before this time: 2026-11-21T03:00Z.",
        Moment(),
        where="http",
        default=None,
    )

    only_on_aws = _ONLY_ON_AWS[1:]  # its plan may be asked for here, too


class Watching(Question):
    """How a sweep is watched from inside: its log and its metrics."""

    log_file: Path | None = _watch(
        "Log file, one JSON object a line.", File(), "the user's log", default=None
    )
    log_level: str = _watch(
        "Least level that is logged.",
        Choice("log level", ("debug", "info", "warning")),
        default="info",
    )
    metrics_port: int | None = _watch("Port for Prometheus metrics.", PORT, default=None)
    metrics_host: str | None = _watch(
        "Address of the metrics port; it has no password.", Text("HOST"), "127.0.0.1", default=None
    )
    metrics_file: Path | None = _watch(
        "File for metrics (.prom), for the node exporter.", File(), default=None
    )

    def __post_init__(self) -> None:
        if self.metrics_host and self.metrics_port is None:
            hint = Message("add {port}", port=FieldName("metrics_port"))
            raise wrong("metrics_host", "{field} is the address of a port", hint=hint)

    def refuse_elsewhere(self) -> None:
        """`UsageError` where another machine measures."""
        for name in ("metrics_port", "metrics_file", "log_file"):
            if getattr(self, name) is not None:
                raise wrong(name, "{field} is of this machine")


# One account's quota, one user's terminal, as for types of a sweep.
_MOST_SIDE_BY_SIDE = 8


class VerificationRun(Question):
    """How a target is verified: where, and on which data."""

    instance: str = ask(
        "Instance type to verify, as g4dn.xlarge; auto: this machine, with --on aws the "
        "recommended type.",
        Kind(),
        default=AUTO,
    )
    accelerator: str | None = ask(
        "cuda, cpu or emulated:<GPU>.", Text(), "the GPU that is here", default=None
    )
    data: Path | None = ask("Your own images.", File(), "generated", default=None)
    samples: int | None = ask(
        "Number of images to generate.", Number(whole=True), "enough", default=None
    )
    minutes: float = ask("Longest measurement in minutes.", Number(), default=2.0)
    budget: Budget | None = _launch("Limit of --on aws: 1USD.", BUDGET, default=None)
    top: int | None = _launch(
        "With --on aws: verify so many of the best types side by side, and choose among them.",
        Number(whole=True, most=_MOST_SIDE_BY_SIDE),
        default=None,
    )
    on: str = _On
    dry_run: bool = _DryRun
    hours: float | None = _Hours
    queue: float | None = _Queue
    owner: str | None = _Owner
    sweep_id: str | None = _SweepId
    bucket: str | None = _Bucket
    subnet: str | None = _Subnet
    image: str | None = _Image
    instance_profile: str | None = _Profile

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
            _refuse(self, (*LAUNCH, "budget", "top"), Message("{on} aws", on=FieldName("on")))
        else:
            self._refuse_unrentable()

    def _refuse_unrentable(self) -> None:
        dollars(self.budget)
        if self.top is not None and self.instance.lower() != AUTO:
            raise wrong(
                "top", "{field} takes the best types, and {instance} names one",
                instance=FieldName("instance"), hint="leave one of them out",
            )  # fmt: skip
        if self.data is not None:
            raise wrong(
                "data", "{field} lies on this machine; data of that size are made there",
                hint="leave it out",
            )  # fmt: skip
        if self.accelerator is not None:
            raise wrong("accelerator", "{field} is the GPU of the instance", hint="leave it out")


class FitRun(Question):
    """A fit of the predictor on all that the store holds; it takes no fields."""


class PriceRefresh(Question):
    """Which prices of whom are fetched, as `advisor catalog refresh` calls them. Keys are the
    server's own: it has them in its environment."""

    cloud: str = ask("Cloud.", Choice("cloud", tuple(LIVE_CLOUDS)), default=DEFAULT_CLOUD)
    region: str | None = ask("Region.", Text(), "us-east-1 of aws", default=None)
    market: str = ask("Market.", _MARKET, default="any")
    gpu: str | None = ask("GPUs, as T4,L4.", Text(), default=None)

    def __post_init__(self) -> None:
        if self.region is None and self.cloud != DEFAULT_CLOUD:
            raise wrong("region", "{field} is needed for {cloud}", cloud=self.cloud)
        if self.region is not None and self.cloud == DEFAULT_CLOUD:
            REGION.from_text(self.region, "region")
        if self.gpu is not None:
            parse_gpus(self.gpu)


class ScheduleRequest(Question):
    """When something runs by itself; over HTTP also what: one of `sweep`, `fit` and
    `catalog_refresh`."""

    cron: str = ask("When to run: '0 3 * * 1' is Mondays at 3:00.", Text("LINE"))
    timezone: str = ask("Time zone, as Europe/Berlin.", Text("ZONE"), default="UTC")
    name: str | None = ask(
        "Name of the schedule.", Text(), "derived from the command", default=None
    )
    misfire: str = ask(
        "After due times without a daemon: run once, or skip.",
        Choice("misfire", ("run-once", "skip")),
        default="run-once",
    )
    budget_per_month: str | None = ask(
        "Monthly budget, as 20USD; runs that could exceed it are skipped.",
        Text("MONEY"),
        default=None,
    )
    report: Path | None = ask(
        "After each run, report on the workloads of this plan (docs/how-to/reports.md).",
        File(),
        where="cli",
        default=None,
    )
    send: tuple[str, ...] = ask(
        "Where to send the report and what changed since the last one; as `report --send`.",
        Texts("TARGET"),
        where="cli",
        default=(),
    )
    report_format: str = ask(
        "Format of the report.",
        Choice("report format", REPORT_FORMATS),
        where="cli",
        default="html",
    )
    send_when: str = ask(
        "Send always, or only when something changed.",
        Choice("--send-when", ("always", "changed")),
        where="cli",
        default="always",
    )
    sweep: SweepRun | None = ask(
        "What `sweep run` measures.", Nested(SweepRun), where="http", default=None
    )
    fit: FitRun | None = ask("A fit.", Nested(FitRun), where="http", default=None)
    catalog_refresh: PriceRefresh | None = ask(
        "A price refresh.", Nested(PriceRefresh), where="http", default=None
    )


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
        return sweep.replace(
            networks=tuple(map(self._network, sweep.networks)),
            data=None if sweep.data is None else self._data(sweep.data),
        )

    def _network(self, name: str) -> str:
        from advisor.models.performance.networks import bundled_networks

        if name in self.code:
            return self.code[name]
        if is_own(name.lower()) or ("/" in name and not bundled_networks().knows(name)):
            raise wrong(
                "networks", "{field}: '{name}' names code of this machine", name=name[:80],
                hint=Message("only what `advisor serve --allow-code` names may be run: {names}",
                             names=", ".join(sorted(self.code)) or Message("it names none")),
            )  # fmt: skip
        return name.lower()

    def _data(self, name: str) -> str:
        if name in self.data:
            return self.data[name]
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
    for each in question.fields.values():
        value, kind = getattr(question, each.name), each.kind
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
