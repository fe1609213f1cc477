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
    format_vcpus,
    parse_gpus,
    parse_ram,
    parse_vcpus,
)
from advisor.render.gpus import SORT_KEYS
from advisor.units import size_text

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
ANSWER, SOURCES = "Answer", "Predictor and prices"

_GPUS = Parsed(parse_gpus, str, "NAMES|SIZE..|ccX.Y..")
_VCPUS = Parsed(parse_vcpus, format_vcpus, "LEAST..MOST", or_number=True)
_RAM = Parsed(parse_ram, format_ram, "LEAST..MOST")

# Fields that several questions have.
TaskField = Annotated[
    Task,
    About(
        "What the instance does: training, inference or preprocessing.",
        Choice("task", Task),
        section=WORKLOAD,
    ),
]
BatchSize = Annotated[
    int | None,
    About(
        "Samples in a batch, on each GPU.",
        Number(whole=True, most=LARGEST_BATCH),
        usual="chosen by the advisor",
        section=WORKLOAD,
    ),
]
PrecisionField = Annotated[
    Precision,
    About(
        "Number format: fp32, amp (mixed fp16/fp32), bf16 (mixed bf16/fp32) or fp16.",
        Choice("precision", Precision),
        section=WORKLOAD,
    ),
]
Cloud = Annotated[
    str,
    About(
        "Cloud to search: aws, gcp, azure, alibaba, the name of an import, or any.",
        Text("CLOUD"),
        section=PLACE,
    ),
]
Region = Annotated[
    str | None,
    About(
        "Region to search.",
        Text("REGION"),
        usual="us-east-1 for aws, else all regions",
        section=PLACE,
    ),
]
MarketField = Annotated[
    Market,
    About(
        "How you pay: on demand, spot, or a 1- or 3-year commitment.",
        Choice("market", Market),
        section=PLACE,
    ),
]
Gpu = Annotated[
    GpuFilter | None,
    About(
        "GPUs to consider: names (T4,L4), memory (24GiB..) or compute capability (cc8.0..).",
        _GPUS,
        usual="any",
        section=HARDWARE,
    ),
]
Vcpus = Annotated[
    Range | None,
    About(
        "vCPUs of the instance: 4..16, 8 or 8.. (at least 8).",
        _VCPUS,
        usual="any",
        section=HARDWARE,
    ),
]
Memory = Annotated[
    Range | None,
    About(
        "RAM of the instance: 32GiB..64GiB or 32GiB.. (at least 32 GiB).",
        _RAM,
        usual="any",
        section=HARDWARE,
    ),
]
MaxPrice = Annotated[
    float | None,
    About("Highest price in USD per hour, disk included.", Number(metavar="USD"), section=TARGET),
]
Explain = Annotated[
    bool,
    About(
        "Show what limits the rate, what more of each resource adds, and how far this is from "
        "anything measured.",
        Flag(),
        section=ANSWER,
    ),
]
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
            str(others[0]),
            "{gpu} is a GPU without a host",
            gpu=FieldName("gpu"),
            hint=Message("leave out {others}", others=others),
        )


class Sources(Question, frozen=True, kw_only=True):
    """The data that answers. Not part of a question: one answers many."""

    performance_model: Annotated[
        Path | None,
        About(
            "Fitted predictor to use.",
            File(),
            where="cli",
            section=SOURCES,
            usual="your own of `advisor fit`, else the bundled one",
        ),
    ] = None
    cny_per_usd: Annotated[
        float | None,
        About(
            "Exchange rate: CNY per USD.",
            Number(metavar="YUAN"),
            where="cli",
            usual="ADVISOR_CNY_PER_USD, else that of the bundled prices",
            section=SOURCES,
        ),
    ] = None


class WorkloadQuestion(Question, frozen=True, kw_only=True):
    """A workload, and where it may run."""

    task: TaskField
    model: Annotated[
        str,
        About(
            "The network: a name from `advisor networks`, or your own file.py:build.",
            Network(),
            section=WORKLOAD,
        ),
    ]
    batch_size: BatchSize = None
    precision: PrecisionField = Precision.FP32
    input: Annotated[
        str | None,
        About(
            "Size of one sample: 384 or 3x384x384 (image), seq:384 (tokens).",
            Text("SIZE"),
            usual="the network's own",
            section=WORKLOAD,
        ),
    ] = None
    stack: Annotated[
        Stack | None,
        About(
            "How PyTorch runs the network: eager or torch.compile.",
            Choice("stack", Stack),
            usual="eager",
            section=WORKLOAD,
        ),
    ] = None
    memory_format: Annotated[
        MemoryFormat | None,
        About(
            "Memory layout of images.",
            Choice("memory format", MemoryFormat),
            usual="contiguous",
            section=WORKLOAD,
        ),
    ] = None
    tf32: Annotated[
        Tf32 | None,
        About(
            "Which fp32 arithmetic may round to TF32.",
            Choice("use of TF32", Tf32),
            usual="convolutions",
            section=WORKLOAD,
        ),
    ] = None
    dataset: Annotated[
        str | None,
        About(
            f"The data: {', '.join(DATASETS)}, or a path of your own images or text.",
            DatasetName(tuple(DATASETS)),
            section=WORKLOAD,
            usual="what such a network usually reads: imagenet, tokens, ..",
        ),
    ] = None
    confidence: Annotated[
        float,
        About(
            "Probability with which the lower bound must hold: at 0.9 it is the p10.",
            Probability(),
            section=TARGET,
        ),
    ] = 0.9
    disk: Annotated[
        str | None,
        About(
            "The disk: one order such as gp3:500GiB:6000iops:250MiB/s, or types to choose from: "
            "gp3,io2 or local.",
            Text("TYPE[:SIZE..]|TYPE,TYPE.."),
            section=HARDWARE,
            usual="chosen by the advisor",
        ),
    ] = None
    max_gpus: Annotated[
        int | None,
        About(
            "Most GPUs of one instance to use.", Number(whole=True), usual="all", section=HARDWARE
        ),
    ] = None
    cloud: Cloud = "aws"
    region: Region = None
    market: MarketField = Market.ON_DEMAND

    def __post_init__(self) -> None:
        if self.task is Task.PREPROCESSING:
            for field in ("stack", "memory_format", "tf32"):
                if getattr(self, field) is not None:
                    raise wrong(
                        field,
                        "{field} is of networks, and preprocessing runs none",
                        hint="leave it out",
                    )
        if self.tf32 is not None and self.precision is not Precision.FP32:
            raise wrong(
                "tf32",
                "{field} is of fp32 arithmetic, and {precision} has little of it",
                precision=str(self.precision),
                hint=Message(
                    "leave it out, or ask for {precision} fp32", precision=FieldName("precision")
                ),
            )


class RunQuestion(WorkloadQuestion, frozen=True, kw_only=True):
    """A workload that may be a run of a known length."""

    anchor: Annotated[
        tuple[Path, ...],
        About(
            "Measurement of your network on one GPU, from `advisor measure`, `measurements "
            "export` or a campaign. Repeatable. --model may then be any name.",
            Files(),
            where="cli",
            section=WORKLOAD,
        ),
    ] = ()
    epochs: Annotated[
        float | None,
        About(
            "Length of the run in passes over the data set; adds its hours and cost.",
            Number(),
            section=RUN,
        ),
    ] = None
    samples: Annotated[
        int | None,
        About(
            "Length of the run in samples, whatever the size of the data set; adds its hours "
            "and cost.",
            Number(whole=True),
            section=RUN,
        ),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epochs is not None and self.samples is not None:
            raise wrong(
                "samples",
                "{epochs} and {field} both say how long a run is",
                epochs=FieldName("epochs"),
                hint="give one of them",
            )


class Recommend(RunQuestion, frozen=True, kw_only=True):
    """What `advisor recommend` is asked."""

    target_throughput: Annotated[
        float | None,
        About(
            "Samples per second to reach (images, sequences or tokens). Without it, results are "
            "ranked by cost: of the run, or of a million samples.",
            Number(metavar="RATE"),
            section=TARGET,
        ),
    ] = None
    max_latency_ms: Annotated[
        float | None,
        About(
            "Upper limit for the p99 latency of one batch in ms, with decoding and copying. "
            "Inference only.",
            Number(metavar="MS"),
            section=TARGET,
        ),
    ] = None
    max_hours: Annotated[
        float | None,
        About(
            "Longest run in hours; must hold at the confidence.",
            Number(metavar="HOURS"),
            section=RUN,
        ),
    ] = None
    max_cost: Annotated[
        float | None,
        About(
            "Most that the run may cost in USD, disk included; must hold at the confidence.",
            Number(metavar="USD"),
            section=RUN,
        ),
    ] = None
    max_first_epoch_hours: Annotated[
        float | None,
        About(
            "Longest first pass over the data in hours: it reads from the disk, where later ones "
            "may read from RAM. Training only.",
            Number(metavar="HOURS"),
            section=RUN,
            usual="with a target and no --epochs: twice a pass at the target",
        ),
    ] = None
    gpu: Gpu = None
    vcpus: Vcpus = None
    memory: Memory = None
    accelerated_only: Annotated[
        bool, About("Consider only instances with a GPU.", Flag(), section=HARDWARE)
    ] = False
    max_price: MaxPrice = None
    quota: Annotated[
        str | None,
        About(
            "vCPUs that your AWS quotas still allow, by family: G=8,P=0, or by code: L-DB2E81BA=8.",
            Text("FAMILY=VCPUS,.."),
            usual="no limit",
            section=HARDWARE,
        ),
    ] = None
    max_count: Annotated[
        int,
        About(
            "Most identical instances that share the work, each with its own disk.",
            Number(whole=True, most=MOST_COUNT),
            section=HARDWARE,
        ),
    ] = 1
    max_results: Annotated[
        int,
        About(
            "Number of specs to list.", Number(whole=True, client_most=MOST_RESULTS), section=ANSWER
        ),
    ] = 10
    horizon_hours: Annotated[
        float,
        About(
            "Hours you will use the instance; decides whether a verifying trial pays for itself.",
            Number(metavar="HOURS"),
            section=ANSWER,
        ),
    ] = HOURS_PER_MONTH
    explain: Explain = False
    explain_rejected: Annotated[
        bool,
        About(
            "List every rejected type with its reason, not the nearest ten alone.",
            Flag(),
            section=ANSWER,
        ),
    ] = False
    pareto: Annotated[
        bool,
        About(
            "Show the Pareto front of price and rate, with a target too.", Flag(), section=ANSWER
        ),
    ] = False
    strict: Annotated[
        bool,
        About(
            "Fail (exit 5) if the instance's price is older than 90 days.", Flag(), section=ANSWER
        ),
    ] = False
    allow_extrapolation: Annotated[
        bool,
        About("Answer even where no calibrated interval exists.", Flag(), section=ANSWER),
    ] = False
    live: Annotated[
        bool,
        About(
            "Check price, availability and quota of the top three against AWS (about 30 s).",
            Flag(),
            where="cli",
            section=ANSWER,
        ),
    ] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_latency_ms is not None and self.task is not Task.INFERENCE:
            raise wrong(
                "max_latency_ms", "{field} goes with {task} inference only", task=FieldName("task")
            )
        if self.max_first_epoch_hours is not None and self.task is not Task.TRAINING:
            raise wrong(
                "max_first_epoch_hours",
                "{field} goes with {task} training only",
                task=FieldName("task"),
            )
        if self.max_gpus is not None and self.task is Task.PREPROCESSING:
            raise wrong(
                "max_gpus",
                "{field} is of networks, and preprocessing runs none",
                hint="leave it out",
            )
        if self.horizon_hours != HOURS_PER_MONTH and self.target_throughput is None:
            raise wrong(
                "horizon_hours",
                "{field} is of borderline candidates, which only a target has",
                hint=Message(
                    "give a {target}, or leave it out", target=FieldName("target_throughput")
                ),
            )
        for field in ("max_hours", "max_cost"):
            if getattr(self, field) is not None and self.epochs is None and self.samples is None:
                raise wrong(
                    field,
                    "{field} limits a run",
                    hint=Message(
                        "say how long it is with {epochs} or {samples}",
                        epochs=FieldName("epochs"),
                        samples=FieldName("samples"),
                    ),
                )


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
        About(
            "A GPU by itself, without a host: 'RTX 5090'. Instead of an instance.",
            Text("GPU"),
            where="cli",
            section=HARDWARE,
        ),
    ] = None
    vcpus: Annotated[
        int | None,
        About(
            "What if the instance had this many vCPUs.",
            Number(whole=True, most=MOST_VCPUS),
            section=HARDWARE,
        ),
    ] = None
    memory: Annotated[
        float | None,
        About(
            "What if the instance had this much RAM: 24GiB.",
            Parsed(parse_memory_mib, size_text, "SIZE"),
            section=HARDWARE,
        ),
    ] = None
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
                    "instance",
                    "name an {field} (g4dn.xlarge)",
                    hint=Message("or a {gpu} ('RTX 5090') by itself", gpu=FieldName("gpu")),
                )
            return
        _refuse_fields_of_hosts(
            self, ("instance", "vcpus", "memory", "explain", "epochs", "samples", *_OF_OFFERS)
        )
        if self.task is Task.PREPROCESSING:
            raise wrong(
                "gpu",
                "preprocessing uses no GPU",
                hint=Message("name an {instance}", instance=FieldName("instance")),
            )


class Compare(WorkloadQuestion, frozen=True, kw_only=True):
    """What `advisor compare` is asked; `model` may be several networks, divided by commas."""

    instance: Annotated[
        tuple[str, ...],
        About("Instance type; repeat for each, two or more.", Texts("TYPE"), section=HARDWARE),
    ] = ()
    gpu: Annotated[
        GpuFilter | None,
        About(
            "Instead of instances: GPUs by themselves, as T4,V100,L4, 24GiB.. or cc8.0...",
            _GPUS,
            section=HARDWARE,
        ),
    ] = None
    baseline: Annotated[
        str | None,
        About(
            "What counts as 1: an instance type, or a GPU where GPUs are compared.",
            Text("NAME"),
            usual="the first one",
            section=ANSWER,
        ),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.instance) == bool(self.gpu):
            raise wrong(
                "gpu" if self.instance else "instance",
                "name what to compare",
                hint=Message(
                    "give {instance} two or more types, or {gpu} as T4,L4",
                    instance=FieldName("instance"),
                    gpu=FieldName("gpu"),
                ),
            )
        if self.gpu:
            _refuse_fields_of_hosts(self, _OF_OFFERS)
        if self.gpu and self.task is Task.PREPROCESSING:
            raise wrong(
                "gpu",
                "preprocessing uses no GPU",
                hint=Message(
                    "compare instances: {instance}, two or more", instance=FieldName("instance")
                ),
            )


class MemoryQuestion(Question, frozen=True, kw_only=True):
    """What `advisor memory` is asked."""

    model: Annotated[
        str,
        About("The network: a name from `advisor networks`, or your own file.py:build.", Network()),
    ]
    task: Annotated[
        Task,
        About(
            "What the network does: training or inference.",
            Choice("task", (Task.TRAINING, Task.INFERENCE)),
        ),
    ] = Task.TRAINING
    batch_size: Annotated[
        int, About("Samples in a batch.", Number(whole=True, most=LARGEST_BATCH))
    ] = 32
    precision: Annotated[
        Precision,
        About(
            "Number format: fp32, amp (mixed fp16/fp32), bf16 (mixed bf16/fp32) or fp16.",
            Choice("precision", Precision),
        ),
    ] = Precision.FP32
    optimizer: Annotated[
        str | None,
        About(
            "Optimizer; decides how many values are kept per weight. Training only.",
            Choice("optimizer", OPTIMIZERS),
            usual="momentum",
        ),
    ] = None
    checkpointing: Annotated[
        bool,
        About("Recompute blocks in the backward pass (activation checkpointing).", Flag()),
    ] = False
    keep_graph: Annotated[bool, About("Inference without torch.no_grad().", Flag())] = False
    input_size: Annotated[
        int | None,
        About(
            "Side of square images in pixels.",
            Number(whole=True, metavar="PIXELS"),
            where="cli",
            usual="the network's own",
        ),
    ] = None
    input: Annotated[str | None, About("The same, as 3x384x384.", Text("SIZE"), where="cli")] = None
    gpu: Annotated[
        GpuFilter | None,
        About(
            "Only these GPUs: names (T4,L4), or memory of one (24GiB..).",
            _GPUS,
            usual="those for rent",
        ),
    ] = None
    confidence: Annotated[
        float, About("Probability with which each bound holds.", Probability())
    ] = 0.95

    def __post_init__(self) -> None:
        if self.task is Task.INFERENCE and self.optimizer is not None:
            raise wrong("optimizer", "{field} belongs to training", hint="leave it out")
        if self.task is Task.INFERENCE and self.checkpointing:
            raise wrong("checkpointing", "{field} is of use in training only", hint="leave it out")
        if self.task is Task.TRAINING and self.keep_graph:
            raise wrong(
                "keep_graph",
                "{field} belongs to inference: training keeps its graph anyway",
                hint="leave it out",
            )
        if self.input is not None and self.input_size is not None:
            raise wrong(
                "input",
                "{field} and {size} say the same",
                size=FieldName("input_size"),
                hint="give one of them",
            )


class Gpus(Question, frozen=True, kw_only=True):
    """What `advisor gpus` is asked."""

    gpu: Gpu = None
    cloud: Cloud = "aws"
    region: Region = None
    market: MarketField = Market.ON_DEMAND
    sort_by: Annotated[
        str,
        About(
            "Column to sort by: cheapest or largest first, unknown last.",
            Choice("sort key", tuple(SORT_KEYS)),
        ),
    ] = "usd_per_gpu_hour"


class HardwareFilter(Question, frozen=True, kw_only=True):
    """Which types are meant, by what they have."""

    gpu: Gpu = None
    vcpus: Vcpus = None
    memory: Memory = None


class Offers(Question, frozen=True, kw_only=True):
    """What `/v1/catalog` is asked."""

    cloud: Annotated[str, About("Only this cloud.", Text("CLOUD"))] = "any"
    region: Annotated[str | None, About("Only this region.", Text("REGION"))] = None
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
