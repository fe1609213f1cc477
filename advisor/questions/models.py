"""One typed model for each question. A field is declared here once, and nowhere else.

From it follow the options of the command line (`advisor.cli.questions`), the fields over HTTP with
their schemas, and the text that asks the question again (`advisor.questions.reading`), and the
`Request` that the engine decides on (`advisor.questions.requests`). A field has the same name
everywhere: `max_price` is `--max-price` and the JSON field `max_price`.

A question that contradicts itself cannot be made: `UsageError` names the field.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from advisor.catalog.gpu_prices import SORT_KEYS
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
from advisor.questions.fields import (
    Choice,
    CurveOf,
    File,
    Files,
    Flag,
    KnownOrPath,
    Network,
    Number,
    Parsed,
    Probability,
    Text,
    Texts,
    wrong,
)
from advisor.questions.question import Question, ask
from advisor.questions.shared import (
    ALLOW_EXTRAPOLATION,
    ANSWER,
    BATCH_SIZE,
    CLOUD,
    CONFIDENCE,
    CURSOR,
    DISK,
    EXPLAIN,
    EXPLAIN_REJECTED,
    GPU,
    GPUS,
    HARDWARE,
    HORIZON_HOURS,
    LARGEST_BATCH,
    MARKET,
    MAX_COST,
    MAX_COUNT,
    MAX_GPUS,
    MAX_HOURS,
    MAX_PRICE,
    MAX_RESULTS,
    MEMORY,
    PRECISION,
    QUOTA,
    REGION,
    RUN,
    SOURCES,
    STRICT,
    TARGET,
    TASK,
    VCPUS,
    WORKLOAD,
)
from advisor.questions.values import (
    DATASETS,
    Curve,
    GpuFilter,
)
from advisor.units import size_text

# More than any machine has; a model's curve says nothing out there.
MOST_VCPUS = 1024
MOST_OFFERS, USUAL_OFFERS = 1000, 100
MOST_NETWORKS = 500
OPTIMIZERS = ("sgd", "momentum", "adam")
ANY_MARKET = "any"

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


class Sources(Question):
    """The data that answers. Not part of a question: one answers many."""

    performance_model: Path | None = ask(
        "Fitted predictor to use.",
        File(),
        section=SOURCES,
        default=None,
        where="cli",
        usual="your own of `advisor fit`, else the bundled one",
    )
    cny_per_usd: float | None = ask(
        "Exchange rate: CNY per USD.",
        Number(metavar="YUAN"),
        section=SOURCES,
        default=None,
        where="cli",
        usual="ADVISOR_CNY_PER_USD, else that of the bundled prices",
    )


class WorkloadQuestion(Question):
    """A workload, and where it may run."""

    task: Task = TASK
    model: str = ask(
        "The network: a name from `advisor networks`, or your own file.py:build.",
        Network(),
        section=WORKLOAD,
    )
    batch_size: int | None = BATCH_SIZE
    precision: Precision = PRECISION
    input: str | None = ask(
        "Size of one sample: 384 or 3x384x384 (image), seq:384 (tokens).",
        Text("SIZE"),
        section=WORKLOAD,
        default=None,
        usual="the network's own",
    )
    stack: Stack | None = ask(
        "How PyTorch runs the network: eager or torch.compile.",
        Choice("stack", Stack),
        section=WORKLOAD,
        default=None,
        usual="eager",
    )
    memory_format: MemoryFormat | None = ask(
        "Memory layout of images.",
        Choice("memory format", MemoryFormat),
        section=WORKLOAD,
        default=None,
        usual="contiguous",
    )
    tf32: Tf32 | None = ask(
        "Which fp32 arithmetic may round to TF32.",
        Choice("use of TF32", Tf32),
        section=WORKLOAD,
        default=None,
        usual="convolutions",
    )
    dataset: str | None = ask(
        f"The data: {', '.join(DATASETS)}, or a path of your own images or text.",
        KnownOrPath("dataset", tuple(DATASETS), "NAME|PATH"),
        section=WORKLOAD,
        default=None,
        usual="what such a network usually reads: imagenet, tokens, ..",
    )
    confidence: float = CONFIDENCE
    disk: str | None = DISK
    max_gpus: int | None = MAX_GPUS
    cloud: str = CLOUD
    region: str | None = REGION
    market: Market = MARKET

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


class RunQuestion(WorkloadQuestion):
    """A workload that may be a run of a known length."""

    anchor: tuple[Path, ...] = ask(
        "Measurement of your network on one GPU, from `advisor measure`, `measurements "
        "export` or a campaign. Repeatable. --model may then be any name.",
        Files(),
        section=WORKLOAD,
        default=(),
        where="cli",
    )
    epochs: float | None = ask(
        "Length of the run in passes over the data set; adds its hours and cost.",
        Number(),
        section=RUN,
        default=None,
    )
    samples: int | None = ask(
        "Length of the run in samples, whatever the size of the data set; adds its hours and cost.",
        Number(whole=True),
        section=RUN,
        default=None,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epochs is not None and self.samples is not None:
            raise wrong(
                "samples",
                "{epochs} and {field} both say how long a run is",
                epochs=FieldName("epochs"),
                hint="give one of them",
            )


class Recommend(RunQuestion):
    """What `advisor recommend` is asked."""

    target_throughput: float | None = ask(
        "Samples per second to reach (images, sequences or tokens). Without it, results are "
        "ranked by cost: of the run, or of a million samples.",
        Number(metavar="RATE"),
        section=TARGET,
        default=None,
    )
    max_latency_ms: float | None = ask(
        "Upper limit for the p99 latency of one batch in ms, with decoding and copying. "
        "Inference only.",
        Number(metavar="MS"),
        section=TARGET,
        default=None,
    )
    max_hours: float | None = MAX_HOURS
    max_cost: float | None = MAX_COST
    max_first_epoch_hours: float | None = ask(
        "Longest first pass over the data in hours: it reads from the disk, where later ones "
        "may read from RAM. Training only.",
        Number(metavar="HOURS"),
        section=RUN,
        default=None,
        usual="with a target and no --epochs: twice a pass at the target",
    )
    gpu: GpuFilter | None = GPU
    vcpus: Range | None = VCPUS
    memory: Range | None = MEMORY
    accelerated_only: bool = ask(
        "Consider only instances with a GPU.", Flag(), section=HARDWARE, default=False
    )
    max_price: float | None = MAX_PRICE
    quota: str | None = QUOTA
    max_count: int = MAX_COUNT
    max_results: int = MAX_RESULTS
    horizon_hours: float = HORIZON_HOURS
    explain: bool = EXPLAIN
    explain_rejected: bool = EXPLAIN_REJECTED
    pareto: bool = ask(
        "Show the Pareto front of price and rate, with a target too.",
        Flag(),
        section=ANSWER,
        default=False,
    )
    strict: bool = STRICT
    allow_extrapolation: bool = ALLOW_EXTRAPOLATION
    live: bool = ask(
        "Check price, availability and quota of the top three against AWS (about 30 s).",
        Flag(),
        section=ANSWER,
        default=False,
        where="cli",
    )

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


class Verify(WorkloadQuestion):
    """What `advisor verify` is asked of its workload."""

    target_throughput: float = ask(
        "Samples per second to reach.", Number(metavar="RATE"), section=TARGET
    )


class Predict(RunQuestion):
    """What `advisor predict` is asked: of one instance, or of a GPU by itself."""

    instance: str | None = ask(
        "Instance type, as g4dn.xlarge.",
        Text("TYPE"),
        section=HARDWARE,
        default=None,
        required=True,
    )
    gpu: str | None = ask(
        "A GPU by itself, without a host: 'RTX 5090'. Instead of an instance.",
        Text("GPU"),
        section=HARDWARE,
        default=None,
        where="cli",
    )
    vcpus: int | None = ask(
        "What if the instance had this many vCPUs.",
        Number(whole=True, most=MOST_VCPUS),
        section=HARDWARE,
        default=None,
    )
    memory: float | None = ask(
        "What if the instance had this much RAM: 24GiB.",
        Parsed(parse_memory_mib, size_text, "SIZE"),
        section=HARDWARE,
        default=None,
    )
    curve: Curve | None = ask(
        "How the rate moves with vCPUs, RAM and disk.", CurveOf(), default=None, where="http"
    )
    explain: bool = EXPLAIN

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


class Compare(WorkloadQuestion):
    """What `advisor compare` is asked; `model` may be several networks, divided by commas."""

    instance: tuple[str, ...] = ask(
        "Instance type; repeat for each, two or more.", Texts("TYPE"), section=HARDWARE, default=()
    )
    gpu: GpuFilter | None = ask(
        "Instead of instances: GPUs by themselves, as T4,V100,L4, 24GiB.. or cc8.0...",
        GPUS,
        section=HARDWARE,
        default=None,
    )
    baseline: str | None = ask(
        "What counts as 1: an instance type, or a GPU where GPUs are compared.",
        Text("NAME"),
        section=ANSWER,
        default=None,
        usual="the first one",
    )

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


class MemoryQuestion(Question):
    """What `advisor memory` is asked."""

    model: str = ask(
        "The network: a name from `advisor networks`, or your own file.py:build.", Network()
    )
    task: Task = ask(
        "What the network does: training or inference.",
        Choice("task", (Task.TRAINING, Task.INFERENCE)),
        default=Task.TRAINING,
    )
    batch_size: int = ask("Samples in a batch.", Number(whole=True, most=LARGEST_BATCH), default=32)
    precision: Precision = ask(
        "Number format: fp32, amp (mixed fp16/fp32), bf16 (mixed bf16/fp32) or fp16.",
        Choice("precision", Precision),
        default=Precision.FP32,
    )
    optimizer: str | None = ask(
        "Optimizer; decides how many values are kept per weight. Training only.",
        Choice("optimizer", OPTIMIZERS),
        default=None,
        usual="momentum",
    )
    checkpointing: bool = ask(
        "Recompute blocks in the backward pass (activation checkpointing).", Flag(), default=False
    )
    keep_graph: bool = ask("Inference without torch.no_grad().", Flag(), default=False)
    input_size: int | None = ask(
        "Side of square images in pixels.",
        Number(whole=True, metavar="PIXELS"),
        default=None,
        where="cli",
        usual="the network's own",
    )
    input: str | None = ask("The same, as 3x384x384.", Text("SIZE"), default=None, where="cli")
    gpu: GpuFilter | None = ask(
        "Only these GPUs: names (T4,L4), or memory of one (24GiB..).",
        GPUS,
        default=None,
        usual="those for rent",
    )
    confidence: float = ask("Probability with which each bound holds.", Probability(), default=0.95)

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


class Gpus(Question):
    """What `advisor gpus` is asked."""

    gpu: GpuFilter | None = GPU
    cloud: str = CLOUD
    region: str | None = REGION
    market: Market = MARKET
    sort_by: str = ask(
        "Column to sort by: cheapest or largest first, unknown last.",
        Choice("sort key", tuple(SORT_KEYS)),
        default="usd_per_gpu_hour",
    )


class HardwareFilter(Question):
    """Which types are meant, by what they have."""

    gpu: GpuFilter | None = GPU
    vcpus: Range | None = VCPUS
    memory: Range | None = MEMORY


class Offers(Question):
    """What `/v1/catalog` is asked."""

    cloud: str = ask("Only this cloud.", Text("CLOUD"), default="any")
    region: str | None = ask("Only this region.", Text("REGION"), default=None)
    market: str = ask(
        "How the instance is paid.", Choice("market", (*Market, ANY_MARKET)), default=ANY_MARKET
    )
    gpu: GpuFilter | None = GPU
    vcpus: Range | None = VCPUS
    memory: Range | None = MEMORY
    instance: tuple[str, ...] = ask("Only these types.", Texts("TYPE"), default=())
    max_price: float | None = ask(
        "Highest price in USD per hour, without a disk.", Number(), default=None
    )
    limit: int = ask(
        "Offers of a page.",
        Number(whole=True, client_most=MOST_OFFERS),
        default=USUAL_OFFERS,
        where="http",
    )
    cursor: str | None = CURSOR


class InstanceDetails(Question):
    """What `/v1/catalog/{instance_type}` is asked."""

    cloud: str | None = ask("The cloud, where several have the name.", Text("CLOUD"), default=None)
    region: str | None = ask("Prices in this region only.", Text("REGION"), default=None)
    market: Market = MARKET


class Networks(Question):
    """What `/v1/networks` is asked."""

    search: str | None = ask(
        "Part of a name, title or family, or a pattern of it.", Text(), default=None
    )
    limit: int = ask(
        "Networks of a page.",
        Number(whole=True, client_most=MOST_NETWORKS),
        default=MOST_NETWORKS,
        where="http",
    )
    cursor: str | None = CURSOR
