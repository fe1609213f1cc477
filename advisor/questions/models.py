"""One typed model for each question. A field is declared here once, and nowhere else.

From it follow the options of the command line (`advisor.cli.questions`), the fields over HTTP with
their schemas, and the text that asks the question again (`advisor.questions.reading`), and the
`Request` that the engine decides on (`advisor.questions.requests`). A field has the same name
everywhere: `max_price` is `--max-price` and the JSON field `max_price`.

A question that contradicts itself cannot be made: `UsageError` names the field.
"""
# Annotations are evaluated here, not kept as texts: the models are looked into at every start.

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec

from advisor.domain import (
    HOURS_PER_MONTH,
    Market,
    MemoryFormat,
    Precision,
    Range,
    Stack,
    Task,
    Tf32,
)
from advisor.messages import FieldName, Message
from advisor.quantities import parse_memory_mib
from advisor.questions.datasets import DATASETS
from advisor.questions.fields import (
    About,
    Choice,
    CurveOf,
    DatasetName,
    File,
    Files,
    Flag,
    Network,
    Number,
    Parsed,
    Probability,
    Text,
    Texts,
    wrong,
)
from advisor.questions.values import (
    Curve,
    GpuFilter,
    format_ram,
    format_size,
    format_vcpus,
    parse_gpus,
    parse_ram,
    parse_vcpus,
)
from advisor.render.gpus import SORT_KEYS

# No GPU holds more samples; what comes near the end of floats overflows on the way.
LARGEST_BATCH = 10**9
# More than any machine has; a model's curve says nothing out there.
MOST_VCPUS = 1024
MOST_COUNT = 1000
MOST_RESULTS = 1000
MOST_OFFERS, USUAL_OFFERS = 1000, 100
MOST_NETWORKS = 500
OPTIMIZERS = ("sgd", "momentum", "adam")
ANY_MARKET = "any"

WORKLOAD, PLACE, RUN = "Workload", "Where and how it is paid", "Length of the run"
TARGET, HARDWARE = "Targets and limits", "Hardware"
ANSWER, SOURCES = "Answer", "Data"

_GPUS = Parsed(parse_gpus, str, "NAMES|SIZE..|ccX.Y..")
_VCPUS = Parsed(parse_vcpus, format_vcpus, "LEAST..MOST", or_number=True)
_RAM = Parsed(parse_ram, format_ram, "LEAST..MOST")

# Fields that several questions have.
TaskField = Annotated[Task, About("What is done with the network.", Choice("task", Task),
                                  section=WORKLOAD)]  # fmt: skip
BatchSize = Annotated[
    int | None,
    About("Samples in a batch.", Number(whole=True, most=LARGEST_BATCH),
          usual="chosen by the advisor", section=WORKLOAD),
]  # fmt: skip
PrecisionField = Annotated[
    Precision,
    About("Number format of the arithmetic.", Choice("precision", Precision), section=WORKLOAD),
]
Cloud = Annotated[
    str, About("Cloud: aws, gcp, azure, alibaba, the name of an import, or any.", Text("CLOUD"),
               section=PLACE)
]  # fmt: skip
Region = Annotated[
    str | None,
    About("Region of the cloud.", Text("REGION"), usual="us-east-1 for aws, else all regions",
          section=PLACE),
]  # fmt: skip
MarketField = Annotated[
    Market, About("How the instance is paid.", Choice("market", Market), section=PLACE)
]
Gpu = Annotated[
    GpuFilter | None,
    About("Only these GPUs: names (T4,L4), memory of one (24GiB..), compute capability (cc8.0..).",
          _GPUS, usual="any", section=HARDWARE),
]  # fmt: skip
Vcpus = Annotated[
    Range | None,
    About("Only types with so many vCPUs: 4..16, 8.., 8.", _VCPUS, usual="any", section=HARDWARE),
]
Memory = Annotated[
    Range | None,
    About("Only types with so much RAM: 32GiB..64GiB, 32GiB...", _RAM, usual="any",
          section=HARDWARE),
]  # fmt: skip
MaxPrice = Annotated[
    float | None,
    About("Highest price in USD per hour, disk included.", Number(metavar="USD"), section=TARGET),
]
Explain = Annotated[
    bool,
    About("Explain the prediction: what binds, what more of each resource would bring, how far it "
          "is from what was measured.", Flag(), section=ANSWER),
]  # fmt: skip
Cursor = Annotated[
    str | None, About("Where the page begins: out of a Link header.", Text(), where="http")
]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, as typed values; None is left to the advisor."""


# What a GPU without a host has none of.
_OF_OFFERS = ("disk", "max_gpus", "cloud", "region", "market")


def _refuse_fields_of_hosts(question: Question, fields: Iterable[str]) -> None:
    """A question about a GPU by itself has no field of a host, a disk or a price."""
    usual = {"cloud": "aws", "market": Market.ON_DEMAND}
    others = [
        FieldName(name)
        for name in fields
        if getattr(question, name) not in (None, False, (), usual.get(name))
    ]
    if others:
        raise wrong(
            str(others[0]), "{gpu} is a GPU without a host", gpu=FieldName("gpu"),
            hint=Message("leave out {others}", others=others),
        )  # fmt: skip


class Sources(Question, frozen=True, kw_only=True):
    """The data that answers. Not part of a question: one answers many."""

    performance_model: Annotated[
        Path | None,
        About("A fitted performance model.", File(), where="cli", section=SOURCES,
              usual="your own of `advisor fit`, else the bundled one"),
    ] = None  # fmt: skip
    cny_per_usd: Annotated[
        float | None,
        About("Exchange rate for prices in yuan: yuan for one US dollar.", Number(metavar="YUAN"),
              where="cli", usual="prices in yuan are left out", section=SOURCES),
    ] = None  # fmt: skip


class WorkloadQuestion(Question, frozen=True, kw_only=True):
    """A workload, and where it may run."""

    task: TaskField
    model: Annotated[
        str,
        About("The network, as googlenet, or your own as file.py:build.", Network(),
              section=WORKLOAD),
    ]  # fmt: skip
    batch_size: BatchSize = None
    precision: PrecisionField = Precision.FP32
    input: Annotated[
        str | None,
        About("Size of one sample: 384, 3x384x384 or seq:384.", Text("SIZE"),
              usual="the network's own", section=WORKLOAD),
    ] = None  # fmt: skip
    stack: Annotated[
        Stack | None,
        About("How PyTorch runs the network: eager, or with torch.compile.",
              Choice("stack", Stack), usual="eager", section=WORKLOAD),
    ] = None  # fmt: skip
    memory_format: Annotated[
        MemoryFormat | None,
        About("Memory layout of images.", Choice("memory format", MemoryFormat),
              usual="contiguous", section=WORKLOAD),
    ] = None  # fmt: skip
    tf32: Annotated[
        Tf32 | None,
        About("Which fp32 arithmetic may round to TF32.", Choice("use of TF32", Tf32),
              usual="convolutions", section=WORKLOAD),
    ] = None  # fmt: skip
    dataset: Annotated[
        str | None,
        About(f"Data set: {', '.join(DATASETS)}, or a path of your own images or text.",
              DatasetName(tuple(DATASETS)), section=WORKLOAD,
              usual="what such a network usually reads: imagenet, tokens, .."),
    ] = None  # fmt: skip
    confidence: Annotated[
        float,
        About("Confidence of each bound: at 0.9, 9 of 10 rates are at or above their lower bound.",
              Probability(), section=TARGET),
    ] = 0.9  # fmt: skip
    disk: Annotated[
        str | None,
        About("Fix the disk (gp3:500GiB:6000iops:250MiB/s), or name types to choose among "
              "(gp3,io2 or local).", Text("TYPE[:SIZE..]|TYPE,TYPE.."), section=HARDWARE,
              usual="chosen by the advisor"),
    ] = None  # fmt: skip
    max_gpus: Annotated[
        int | None,
        About("Use at most this many GPUs of an instance.", Number(whole=True), usual="all",
              section=HARDWARE),
    ] = None  # fmt: skip
    cloud: Cloud = "aws"
    region: Region = None
    market: MarketField = Market.ON_DEMAND

    def __post_init__(self) -> None:
        if self.task is Task.PREPROCESSING:
            for field in ("stack", "memory_format", "tf32"):
                if getattr(self, field) is not None:
                    raise wrong(
                        field, "{field} is of networks, and preprocessing runs none",
                        hint="leave it out",
                    )  # fmt: skip
        if self.tf32 is not None and self.precision is not Precision.FP32:
            raise wrong(
                "tf32", "{field} is of fp32 arithmetic, and {precision} has little of it",
                precision=str(self.precision),
                hint=Message("leave it out, or ask for {precision} fp32",
                             precision=FieldName("precision")),
            )  # fmt: skip


class RunQuestion(WorkloadQuestion, frozen=True, kw_only=True):
    """A workload that may be a run of a known length."""

    anchor: Annotated[
        tuple[Path, ...],
        About("What you measured of the network on a GPU: a file of `advisor measure` or "
              "`advisor measurements export`, or the folder of a sweep. Repeatable. --model may "
              "then be any name.", Files(), where="cli", section=WORKLOAD),
    ] = ()  # fmt: skip
    epochs: Annotated[
        float | None,
        About("Passes over the data set: adds hours and cost of that run.", Number(), section=RUN),
    ] = None
    samples: Annotated[
        int | None,
        About("The same for a run of this many samples.", Number(whole=True), section=RUN),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epochs is not None and self.samples is not None:
            raise wrong(
                "samples", "{epochs} and {field} both say how long a run is",
                epochs=FieldName("epochs"), hint="give one of them",
            )  # fmt: skip


class Recommend(RunQuestion, frozen=True, kw_only=True):
    """What `advisor recommend` is asked."""

    target_throughput: Annotated[
        float | None,
        About("Samples per second to reach. Without it: ranked by cost, of the run or of a "
              "million samples.", Number(metavar="RATE"), section=TARGET),
    ] = None  # fmt: skip
    max_latency_ms: Annotated[
        float | None,
        About("Upper limit for p99 batch latency in ms, decoding and copying included; inference "
              "only.", Number(metavar="MS"), section=TARGET),
    ] = None  # fmt: skip
    max_hours: Annotated[
        float | None,
        About("Upper limit for the hours of the run, kept at the confidence.",
              Number(metavar="HOURS"), section=RUN),
    ] = None  # fmt: skip
    max_cost: Annotated[
        float | None,
        About("Upper limit in USD for the whole run, disk included, kept at the confidence.",
              Number(metavar="USD"), section=RUN),
    ] = None  # fmt: skip
    max_first_epoch_hours: Annotated[
        float | None,
        About("Upper limit for the hours of the first pass over the data, which reads it from the "
              "disk; training only.", Number(metavar="HOURS"), section=RUN,
              usual="with a target and no --epochs: twice a pass at the target"),
    ] = None  # fmt: skip
    gpu: Gpu = None
    vcpus: Vcpus = None
    memory: Memory = None
    accelerated_only: Annotated[
        bool, About("Only instances with a GPU.", Flag(), section=HARDWARE)
    ] = False
    max_price: MaxPrice = None
    quota: Annotated[
        str | None,
        About("vCPUs that your AWS quotas still allow, as G=8,P=0 or L-DB2E81BA=8.",
              Text("FAMILY=VCPUS,.."), usual="no limit", section=HARDWARE),
    ] = None  # fmt: skip
    max_count: Annotated[
        int,
        About("Up to this many identical instances side by side, each with its own disk.",
              Number(whole=True, most=MOST_COUNT), section=HARDWARE),
    ] = 1  # fmt: skip
    max_results: Annotated[
        int,
        About("How many specs to list.", Number(whole=True, client_most=MOST_RESULTS),
              section=ANSWER),
    ] = 10  # fmt: skip
    horizon_hours: Annotated[
        float,
        About("Hours that you will rent it: decides whether a trial that settles a borderline "
              "candidate pays for itself.", Number(metavar="HOURS"), section=ANSWER),
    ] = HOURS_PER_MONTH  # fmt: skip
    explain: Explain = False
    explain_rejected: Annotated[
        bool, About("List why each other type was rejected.", Flag(), section=ANSWER)
    ] = False
    pareto: Annotated[
        bool,
        About("Show the Pareto front of price and rate with a target too.", Flag(),
              section=ANSWER),
    ] = False  # fmt: skip
    strict: Annotated[
        bool,
        About("Refuse an instance price older than 90 days (exit 5).", Flag(), section=ANSWER),
    ] = False
    allow_extrapolation: Annotated[
        bool,
        About("Accept rates that have no calibrated interval.", Flag(), section=ANSWER),
    ] = False
    live: Annotated[
        bool,
        About("Check price, availability and quota of the top three against AWS (about 30 s).",
              Flag(), where="cli", section=ANSWER),
    ] = False  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_latency_ms is not None and self.task is not Task.INFERENCE:
            raise wrong(
                "max_latency_ms", "{field} goes with {task} inference only", task=FieldName("task")
            )
        if self.max_first_epoch_hours is not None and self.task is not Task.TRAINING:
            raise wrong(
                "max_first_epoch_hours", "{field} goes with {task} training only",
                task=FieldName("task"),
            )  # fmt: skip
        if self.max_gpus is not None and self.task is Task.PREPROCESSING:
            raise wrong(
                "max_gpus", "{field} is of networks, and preprocessing runs none",
                hint="leave it out",
            )  # fmt: skip
        if self.horizon_hours != HOURS_PER_MONTH and self.target_throughput is None:
            raise wrong(
                "horizon_hours", "{field} is of borderline candidates, which only a target has",
                hint=Message("give a {target}, or leave it out",
                             target=FieldName("target_throughput")),
            )  # fmt: skip
        for field in ("max_hours", "max_cost"):
            if getattr(self, field) is not None and self.epochs is None and self.samples is None:
                raise wrong(
                    field, "{field} limits a run",
                    hint=Message("say how long it is with {epochs} or {samples}",
                                 epochs=FieldName("epochs"), samples=FieldName("samples")),
                )  # fmt: skip


class Verify(WorkloadQuestion, frozen=True, kw_only=True):
    """What `advisor verify` is asked of its workload."""

    target_throughput: Annotated[
        float, About("Samples per second to reach.", Number(metavar="RATE"), section=TARGET)
    ]


class Predict(RunQuestion, frozen=True, kw_only=True):
    """What `advisor predict` is asked: of one instance, or of a GPU by itself."""

    instance: Annotated[
        str | None,
        About("Instance type, as g4dn.xlarge.", Text("TYPE"), section=HARDWARE, required=True),
    ] = None
    gpu: Annotated[
        str | None,
        About("Instead of an instance: a GPU by itself, whatever host feeds it, as 'RTX 5090'.",
              Text("GPU"), where="cli", section=HARDWARE),
    ] = None  # fmt: skip
    vcpus: Annotated[
        int | None,
        About("What if the instance had this many vCPUs.", Number(whole=True, most=MOST_VCPUS),
              section=HARDWARE),
    ] = None  # fmt: skip
    memory: Annotated[
        float | None,
        About("What if the instance had this much RAM: 24GiB.",
              Parsed(parse_memory_mib, format_size, "SIZE"), section=HARDWARE),
    ] = None  # fmt: skip
    curve: Annotated[
        Curve | None,
        About("How the rate moves with vCPUs, RAM and disk.", CurveOf(), where="http"),
    ] = None
    explain: Explain = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gpu is None:
            if self.instance is None:
                raise wrong(
                    "instance", "name an {field} (g4dn.xlarge)",
                    hint=Message("or a {gpu} ('RTX 5090') by itself", gpu=FieldName("gpu")),
                )  # fmt: skip
            return
        _refuse_fields_of_hosts(
            self, ("instance", "vcpus", "memory", "explain", "epochs", "samples", *_OF_OFFERS)
        )
        if self.task is Task.PREPROCESSING:
            raise wrong(
                "gpu", "preprocessing uses no GPU",
                hint=Message("name an {instance}", instance=FieldName("instance")),
            )  # fmt: skip


class Compare(WorkloadQuestion, frozen=True, kw_only=True):
    """What `advisor compare` is asked; `model` may be several networks, divided by commas."""

    instance: Annotated[
        tuple[str, ...],
        About("An instance type; name two or more.", Texts("TYPE"), section=HARDWARE),
    ] = ()
    gpu: Annotated[
        GpuFilter | None,
        About("Instead of instances: GPUs by themselves, whatever host feeds them: T4,V100,L4 | "
              "24GiB.. | cc8.0..", _GPUS, section=HARDWARE),
    ] = None  # fmt: skip
    baseline: Annotated[
        str | None,
        About("What counts as 1: an instance type, or with --gpu a GPU.", Text("NAME"),
              usual="the first one", section=ANSWER),
    ] = None  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.instance) == bool(self.gpu):
            raise wrong(
                "gpu" if self.instance else "instance", "name what to compare",
                hint=Message("give {instance} two or more types, or {gpu} as T4,L4",
                             instance=FieldName("instance"), gpu=FieldName("gpu")),
            )  # fmt: skip
        if self.gpu:
            _refuse_fields_of_hosts(self, _OF_OFFERS)
        if self.gpu and self.task is Task.PREPROCESSING:
            raise wrong(
                "gpu", "preprocessing uses no GPU",
                hint=Message("compare instances: {instance}, two or more",
                             instance=FieldName("instance")),
            )  # fmt: skip


class MemoryQuestion(Question, frozen=True, kw_only=True):
    """What `advisor memory` is asked."""

    model: Annotated[
        str, About("The network, as googlenet, or your own as file.py:build.", Network())
    ]
    task: Annotated[
        Task,
        About("What is done with the network.",
              Choice("task", (Task.TRAINING, Task.INFERENCE))),
    ] = Task.TRAINING  # fmt: skip
    batch_size: Annotated[
        int, About("Samples in a batch.", Number(whole=True, most=LARGEST_BATCH))
    ] = 32
    precision: Annotated[
        Precision, About("Number format of the arithmetic.", Choice("precision", Precision))
    ] = Precision.FP32
    optimizer: Annotated[
        str | None,
        About("Optimizer, which keeps values for each weight; training only.",
              Choice("optimizer", OPTIMIZERS), usual="momentum"),
    ] = None  # fmt: skip
    checkpointing: Annotated[
        bool,
        About("Activation checkpointing: blocks are computed again in the backward pass.", Flag()),
    ] = False
    keep_graph: Annotated[bool, About("Inference without torch.no_grad().", Flag())] = False
    input_size: Annotated[
        int | None,
        About("Side of square images.", Number(whole=True, metavar="PIXELS"), where="cli",
              usual="the network's own"),
    ] = None  # fmt: skip
    input: Annotated[str | None, About("The same, as 3x384x384.", Text("SIZE"), where="cli")] = None
    gpu: Annotated[
        GpuFilter | None,
        About("Only these GPUs: T4,L4 or 24GiB...", _GPUS, usual="those for rent"),
    ] = None
    confidence: Annotated[float, About("Confidence of each bound.", Probability())] = 0.95

    def __post_init__(self) -> None:
        if self.task is Task.INFERENCE and self.optimizer is not None:
            raise wrong("optimizer", "{field} belongs to training", hint="leave it out")
        if self.task is Task.INFERENCE and self.checkpointing:
            raise wrong("checkpointing", "{field} is of use in training only", hint="leave it out")
        if self.task is Task.TRAINING and self.keep_graph:
            raise wrong(
                "keep_graph", "{field} belongs to inference: training keeps its graph anyway",
                hint="leave it out",
            )  # fmt: skip
        if self.input is not None and self.input_size is not None:
            raise wrong(
                "input", "{field} and {size} say the same", size=FieldName("input_size"),
                hint="give one of them",
            )  # fmt: skip


class Gpus(Question, frozen=True, kw_only=True):
    """What `advisor gpus` is asked."""

    gpu: Gpu = None
    cloud: Cloud = "aws"
    region: Region = None
    market: MarketField = Market.ON_DEMAND
    sort_by: Annotated[
        str,
        About("Sort key: the cheapest, or the largest, first; unknown last.",
              Choice("sort key", tuple(SORT_KEYS))),
    ] = "usd_per_gpu_hour"  # fmt: skip


class HardwareFilter(Question, frozen=True, kw_only=True):
    """Which types are meant, by what they have."""

    gpu: Gpu = None
    vcpus: Vcpus = None
    memory: Memory = None


class Offers(Question, frozen=True, kw_only=True):
    """What `/v1/catalog` is asked."""

    cloud: Annotated[str, About("Only this cloud.", Text("CLOUD"))] = "any"
    region: Region = None
    market: Annotated[
        str, About("How the instance is paid.", Choice("market", (*Market, ANY_MARKET)))
    ] = ANY_MARKET
    gpu: Gpu = None
    vcpus: Vcpus = None
    memory: Memory = None
    instance: Annotated[tuple[str, ...], About("Only these types.", Texts("TYPE"))] = ()
    max_price: Annotated[
        float | None, About("Highest price in USD per hour, without a disk.", Number())
    ] = None
    limit: Annotated[
        int, About("Offers of a page.", Number(whole=True, client_most=MOST_OFFERS), where="http")
    ] = USUAL_OFFERS
    cursor: Cursor = None


class InstanceDetails(Question, frozen=True, kw_only=True):
    """What `/v1/catalog/{instance_type}` is asked."""

    cloud: Annotated[
        str | None, About("The cloud, where several have the name.", Text("CLOUD"))
    ] = None
    region: Annotated[str | None, About("Prices in this region only.", Text("REGION"))] = None
    market: MarketField = Market.ON_DEMAND


class Networks(Question, frozen=True, kw_only=True):
    """What `/v1/networks` is asked."""

    search: Annotated[
        str | None, About("Part of a name, title or family, or a pattern of it.", Text())
    ] = None
    limit: Annotated[
        int,
        About("Networks of a page.", Number(whole=True, client_most=MOST_NETWORKS), where="http"),
    ] = MOST_NETWORKS
    cursor: Cursor = None
