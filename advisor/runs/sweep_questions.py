"""The questions of a sweep: its grid, planning, run and monitoring, and its start over HTTP.

An HTTP client may name no path of this machine, only the data sets and networks in `Allowed`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeVar

from msgspec import Struct, field

from advisor.domain import MEASURABLE_PRECISIONS, CacheState, MemoryFormat, Precision, Stack, Task
from advisor.domain.workload import is_own_code, names_a_file
from advisor.errors import unknown_name
from advisor.messages import FieldName, Message
from advisor.models.performance.networks import bundled_networks
from advisor.questions.fields import Choice, File, Flag, Kind, Place, Text, error_in
from advisor.questions.question import Question, ask
from advisor.runs.fields import (
    BUDGET,
    PORT,
    SIZE,
    TAG,
    Amount,
    Budget,
    ClientChoice,
    DiskPath,
    Items,
    Moment,
    NetworkName,
    Regions,
    Share,
)
from advisor.sweeps.datasets.remote import S3, is_address
from advisor.sweeps.planning.disks import split_disks
from advisor.sweeps.trial.trial_process import WAIT, WHEN_BUSY

EXECUTORS = ("ray", "process", "inline")
DECODERS = ("pillow", "simplejpeg")
PRESETS = ("small",)
# Limit for a client's grid, which is counted before its trials are made.
MOST_TRIALS = 5_000
R = TypeVar("R", bound="SweepGrid")

_trial = partial(ask, section="Trials")
_planning = partial(ask, section="Adaptive planning and costs")
_watch = partial(ask, section="Watching")
_NUMBERS, _COUNTS = Items(Amount(), "NUMBERS"), Items(Amount(whole=True), "NUMBERS")
_COUNT, _TYPES, _KINDS = Amount(whole=True), Items(Text(), "TYPE"), Items(Text(), "KIND")
_NETWORKS, _DISKS = Items(NetworkName(), "NAMES"), Items(Text(), "DISKS", split_disks)
_TASKS, _STATES = (Items(Choice("task", Task), "TASKS"), Items(Choice("cache state", CacheState), "STATES"))
_FORMATS = Items(Choice("memory format", MemoryFormat), "FORMATS")
_STACKS = Items(Choice("stack", Stack), "STACKS")
_PRECISION = Choice("precision", MEASURABLE_PRECISIONS)

HERE, AWS = "here", "aws"
MARKET = Choice("market", ("any", "spot", "on-demand"))
launch = partial(ask, section="On AWS")
of_launch = partial(ask, section="On AWS", where="cli")

# The fields whose combinations are the trials of a grid; `_NEEDED` have no defaults.
_NEEDED = ("networks", "tasks", "vcpus", "memory", "disks")
_PRODUCT = (*_NEEDED, "accelerator", "batch_sizes", "cache", "memory_format", "stack")
_DESCRIBING = (*_PRODUCT, "precision")


class Launch(Question):
    """Where to measure, and how a launch on AWS is made: what sweeps and verifications share."""

    only_on_aws: ClassVar[tuple[str, ...]] = ()

    on: str = launch(
        "Where to measure: here, or aws: rent an instance within the budget and end it afterwards.",
        Choice("place", (HERE, AWS)),
        default=HERE,
    )
    dry_run: bool = of_launch("With --on aws: check everything, launch nothing.", Flag(), default=False)
    hours: float | None = launch("Longest life of an instance in hours.", Amount(most=168, metavar="HOURS"))
    queue: float | None = launch(
        "Minutes to wait for capacity.", Amount(most=10_080, metavar="MINUTES"), "15"
    )
    owner: str | None = of_launch("Owner tag.", TAG, "your user name")
    sweep_id: str | None = of_launch("Name of the sweep.", Kind(), "derived from its options")
    bucket: str | None = of_launch("S3 bucket for jobs and results.", Kind(), "ADVISOR_BUCKET")
    subnet: str | None = of_launch("Subnet.", Kind(), "the default subnets")
    image: str | None = of_launch("Machine image.", Kind(), "AWS's newest with the GPU driver")
    instance_profile: str | None = of_launch("Role of the instance, or none.", Kind(), "advisor-guest")

    @property
    def on_aws(self) -> bool:
        """True if it measures on AWS, which costs money and does not load this machine."""
        return self.on == AWS

    def refuse_here(self) -> None:
        """Raise `UsageError` for fields that only apply to AWS."""
        refuse(self, self.only_on_aws, Message("{on} aws", on=FieldName("on")))


class SweepGrid(Launch):
    """Trials to measure: `networks`, `tasks`, `vcpus`, `memory` and `disks`, or a `preset`. Without
    any of them it describes nothing, which stands for all that is stored."""

    asks: ClassVar[tuple[str, ...]] = ()  # no field of `Launch`: only a run has a place

    preset: str | None = _trial("Sweep by name: small (under 10 minutes).", Choice("preset", PRESETS))
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
    precision: Precision | None = _trial("Number format: fp32, amp or bf16.", _PRECISION, "fp32")
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
    )
    decoder: str = _trial("Decoder of JPEG files.", Choice("decoder", DECODERS), default="pillow")
    rel_error: float = _trial("Stop a trial once its rate is known this precisely.", Share(), default=0.02)
    measure_seconds: float | None = _trial(
        "Seconds of steady state that a trial measures at least.",
        Amount(most=3600, metavar="SECONDS"),
        "60 on a GPU, else 4",
    )
    repeats: int = _trial("Runs of each trial, in random order, stored in one row.", _COUNT, default=1)
    iterations: int | None = _trial("Number of steps of each trial, in place of a relative error.", _COUNT)
    disk_path: tuple[tuple[str, Path], ...] = _trial(
        "Folder on a mounted disk of that type, as gp3=/mnt/gp3; it is not throttled.",
        DiskPath(),
        where="cli",
        default=(),
    )
    ray_address: str | None = _trial(
        "Address of the Ray cluster to measure on.", Text("ADDRESS"), where="cli"
    )

    def __post_init__(self) -> None:
        described = [FieldName(name) for name in _DESCRIBING if getattr(self, name)]
        if self.preset and described:
            raise error_in(
                "preset", "{field} decides about {also} already", also=described, hint="give one or the other"
            )
        if described:
            self.require_trials()
        if self.ray_address and self.disk_path and is_address(self.data or ""):
            raise error_in(
                "data",
                "{field}: a cluster's nodes do not copy an address to {disk_path}",
                hint="copy the data to that disk of each node, and name the path there",
            )

    @property
    def is_empty(self) -> bool:
        """True if the grid describes no trials."""
        return not any(getattr(self, name) for name in ("preset", *_DESCRIBING))

    def require_trials(self) -> None:
        """Raise `UsageError` if the grid lacks needed fields."""
        missing = [FieldName(name) for name in _NEEDED if not getattr(self, name)]
        if not self.preset and missing:
            raise error_in(
                str(missing[0]), "a sweep needs {missing}", missing=missing, hint="or take {preset} small"
            )


class PlannedSweep(SweepGrid):
    """A sweep that is planned: its trials, whether it plans itself, and what its host costs."""

    adaptive: bool = _planning(
        "Choose the most informative trials, and stop when they suffice.", Flag(), default=False
    )
    budget: Budget | None = _planning(
        "Limit of --adaptive: 30trials, 2h, 90min or 5USD; of --on aws: 5USD.", BUDGET
    )
    target_throughput: float | None = _planning(
        "With --adaptive: find the cheapest spec that reaches this rate (samples/s).",
        Amount(counted=True, metavar="RATE"),
    )
    usd_per_hour: float | None = _planning(
        "Price of this host, for costs and budgets.", Amount(metavar="PRICE")
    )
    instance: tuple[str, ...] = _planning(
        "Type of this host, for its price; with --on aws the types to launch.", _TYPES, default=()
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_trials()
        if self.on_aws:
            return
        if not self.adaptive:
            refuse(self, ("budget", "target_throughput"), FieldName("adaptive"))
        elif self.budget is None:
            raise error_in("budget", "{adaptive} needs {field}, as 30trials, 2h or 5USD")
        elif self.budget.usd is not None and not (self.usd_per_hour or self.instance):
            raise error_in(
                "budget",
                "{field}: in USD it needs the price of this host",
                hint="give {usd_per_hour} or {instance}",
            )
        if len(self.instance) + bool(self.usd_per_hour) > 1:
            raise error_in(
                "usd_per_hour", "{field} and each {instance} price this host", hint="give one of them"
            )


class SweepRun(PlannedSweep):
    """A sweep that is measured, on this machine or on AWS."""

    asks = (*PlannedSweep.asks, "executor", "retry_failed", "when_busy", *Launch.asks)
    only_on_aws = (*Launch.asks[1:], "region", "market", "database_parameter")

    executor: str | None = ask(
        "How trials run: by default ray on a cluster and on several GPUs, else process; inline is "
        "for debugging (no limits, never fitted).",
        ClientChoice("executor", EXECUTORS, "inline"),
    )
    retry_failed: bool = ask("Repeat failed and contaminated trials.", Flag(), default=False)
    when_busy: str = ask(
        "What becomes of a trial that other processes spoiled: wait for a quieter machine and repeat it "
        "(twice), accept it, or skip it.",
        Choice("way", WHEN_BUSY),
        default=WAIT,
    )
    region: tuple[str, ...] = launch(
        "AWS regions, tried in this order.", Regions("REGION"), "us-east-1", default=()
    )
    market: str | None = launch("Market of the rented instance.", MARKET, "any")
    database_parameter: str | None = of_launch(
        "SSM parameter that holds the URL of a shared PostgreSQL.", Kind()
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.on_aws:
            self._check_launch()
            return
        self.refuse_here()
        if self.adaptive and self.retry_failed:
            raise error_in("retry_failed", "{adaptive} goes on past failures", hint="leave {field} out")

    def _check_launch(self) -> None:
        refuse(self, _ONLY_HERE, Message("{on} here", on=FieldName("on")))
        if self.data and not self.data.startswith(f"{S3}://"):
            raise error_in(
                "data",
                "{field} is read from S3 by an instance",
                hint="copy it there, and name s3://BUCKET/PREFIX",
            )
        if any(map(is_own_code, self.networks)):
            raise error_in(
                "networks", "{field}: a file of your own is not sent to AWS", hint="name known networks"
            )
        dollars(self.budget)
        if not self.instance:
            raise error_in("instance", "{on} aws needs {field}, as g4dn.xlarge")


# Fields that do not apply to AWS.
_ONLY_HERE = ("disk_path", "ray_address", "usd_per_hour", "adaptive", "target_throughput")


class NewSweep(SweepRun):
    """A sweep that a client starts."""

    dry_run: bool = ask("Show the plan; start nothing.", Flag(), where="http", default=False)
    max_minutes: float = ask("It is ended after so long.", Amount(most=10_080), where="http", default=1440.0)
    fresh_since: datetime | None = ask(
        "Repeat trials measured before this time: 2026-11-21T03:00Z.", Moment(), where="http"
    )

    only_on_aws = SweepRun.only_on_aws[1:]  # without `dry_run`, which also works on this machine


class Watching(Question):
    """How a sweep is watched from inside: its log and its metrics."""

    log_file: Path | None = _watch("Log file, one JSON object a line.", File(), "the user's log")
    log_level: str = _watch(
        "Least level that is logged.", Choice("log level", ("debug", "info", "warning")), default="info"
    )
    metrics_port: int | None = _watch("Port for Prometheus metrics.", PORT)
    metrics_host: str | None = _watch(
        "Address of the metrics port; it has no password.", Text("HOST"), "127.0.0.1"
    )
    metrics_file: Path | None = _watch("File for metrics (.prom), for the node exporter.", File())

    def __post_init__(self) -> None:
        if self.metrics_host and self.metrics_port is None:
            raise error_in("metrics_host", "{field} is the address of a port", hint="add {metrics_port}")

    def refuse_elsewhere(self) -> None:
        """Raise `UsageError` for logs and metrics, which exist only where this machine measures."""
        for name in ("metrics_port", "metrics_file", "log_file"):
            if getattr(self, name) is not None:
                raise error_in(name, "{field} is of this machine")


def dollars(budget: Budget | None) -> float:
    """The dollars that a launch may spend; `UsageError` without a budget, or if it is not in dollars."""
    if budget is None:
        raise error_in("budget", "{on} aws needs {field}, as 5USD: it is never passed")
    if budget.usd is None:
        raise error_in("budget", "{on} aws takes a {field} of money, as 5USD, not {text}", text=budget.text)
    return budget.usd


def refuse(question: Question, names: Iterable[str], only_with: object) -> None:
    """Raise `UsageError` for given fields that have no effect without another one, `only_with`."""
    given = [FieldName(name) for name in names if getattr(question, name)]
    if given:
        raise error_in(
            str(given[0]),
            "{given}: only with {other}",
            given=given,
            other=only_with,
            hint=Message("add {other}, or leave it out", other=only_with),
        )


class Allowed(Struct, frozen=True, kw_only=True):
    """The data sets (name -> path) and networks (name -> `file.py:build`) that clients may name."""

    data: Mapping[str, str] = field(default_factory=dict)
    code: Mapping[str, str] = field(default_factory=dict)

    def resolved(self, sweep: R) -> R:
        """A client's sweep with paths for names; `UsageError` if it is too large or names something else."""
        counts = [len(getattr(sweep, name)) for name in _PRODUCT]
        if (trials := math.prod(max(1, count) for count in counts)) > MOST_TRIALS:
            raise error_in(
                "vcpus",
                "that would be {trials:,} trials",
                trials=trials,
                hint=Message("at most {most:,} are taken", most=MOST_TRIALS),
            )
        return sweep.replace(
            networks=tuple(map(self._network, sweep.networks)),
            data=None if sweep.data is None else self._data(sweep.data),
        )

    def _network(self, name: str) -> str:
        if name in self.code:
            return self.code[name]
        if names_a_file(name) or ("/" in name and not bundled_networks().knows(name)):
            raise error_in(
                "networks",
                "{field}: '{name}' names code of this machine",
                name=name[:80],
                hint=Message(
                    "only what `advisor serve --allow-code` names may be run: {names}",
                    names=", ".join(sorted(self.code)) or Message("it names none"),
                ),
            )
        return name.lower()

    def _data(self, name: str) -> str:
        if name in self.data:
            return self.data[name]
        if self.data:
            raise unknown_name("data set", name, self.data, field="data")
        raise error_in(
            "data",
            "{field}: no data set is allowed here",
            hint="`advisor serve --allow-data NAME=PATH` names one, or leave it out for "
            "photographs that are made",
        )
