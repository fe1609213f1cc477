"""The questions about networks. A field is declared once, here or where several questions share it.

From it follow the options of the command line (`advisor.cli.questions`), the fields over HTTP with their
schemas, the text that asks the question again and its place in an answer's document (both in
`advisor.questions.reading`); the engine takes the record as it is. A question that contradicts itself cannot
be made: `UsageError` names the field."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from advisor.domain import (
    HOURS_PER_MONTH,
    IMAGENET,
    MEASURABLE_PRECISIONS,
    DatasetProfile,
    Market,
    MemoryFormat,
    Precision,
    Protocol,
    Stack,
    Task,
    Tf32,
    Workload,
)
from advisor.messages import FieldName, Message, size_text
from advisor.quantities import parse_memory_mib
from advisor.questions import spec
from advisor.questions.fields import (
    RATE,
    Choice,
    Curve,
    CurveOf,
    Files,
    Flag,
    KnownOrPath,
    Names,
    Network,
    Number,
    Parsed,
    Probability,
    Text,
    error_in,
)
from advisor.questions.question import Needed, Question, ask
from advisor.questions.values import DATASETS, FORMATS, REQUESTS, GpuFilter

# No GPU holds more samples, and numbers near the largest float overflow.
LARGEST_BATCH = 10**9
MOST_NODES = 64
# No machine has more, and a model's curve means nothing there.
MOST_VCPUS = 1024
# Stands for the precision or memory format that suits each GPU.
AUTO = "auto"
OPTIMIZERS = ("sgd", "momentum", "adam")
USUAL_STEPS = 30

_workload, _run = partial(ask, section=spec.WORKLOAD), partial(ask, section=spec.RUN)
# The task of questions that other classes ask about language models.
_TASK: Any = _workload(
    "Networks: training, inference, preprocessing; LLMs: generation, finetuning.",
    Choice("task", Task),
    default=Needed,
)
_target, _hardware, _answer = (
    partial(ask, section=name) for name in (spec.TARGET, spec.HARDWARE, spec.ANSWER)
)
# Fields of how PyTorch runs a network; preprocessing runs none.
_OF_NETWORKS = ("stack", "memory_format", "tf32")
_OF_NETWORKS_ONLY = Message("{field} is of networks, and preprocessing runs none").text
_TRAINING_ONLY = Message("{field} goes with {task} training only").text
_OF_WORKLOAD: tuple[str, ...] = (
    *("task", "network", "batch_size", "precision", "input", *_OF_NETWORKS, "dataset_name"),
    *("dataset_format", "dataset_samples", "steps", "protocol", "guidance", "required_confidence"),
    *("max_gpus", *spec.OF_PLACE),
)
_OF_RUN: tuple[str, ...] = (*_OF_WORKLOAD, "anchor", "epochs", "samples", "start_minutes")


class NetworkQuestion(spec.SpecQuestion):
    """A network, its task and data, and limits on the spec. None leaves a field to the advisor; `input` None
    is the network's default. `advisor.questions.settled` resolves `network`, `dataset` and `input` to the
    network's. It also sets `sample_input`, one sample as the network takes it ('seq:128'); `writes_text`,
    whether the network generates text token by token; `model_asked`, the user's name for the network where
    that differs; and `namesake`, another network of almost the same name."""

    splits: ClassVar[bool] = False  # whether several instances may share the work by default

    network: str = _workload(
        "The network: a name from `advisor networks`, or your own file.py:build. Preprocessing needs it, "
        "too: it says what a sample is.",
        Network(),
        name="model",
        default=Needed,
    )
    task: Task = _workload("What the instance does.", Choice("task", Task), default=Needed)
    target_throughput: float | None = _target(
        "Samples per second to reach (images, sequences or tokens). Without it, results are "
        "ranked by cost: of the run, or of a million samples.",
        RATE,
    )
    batch_size: int | None = _workload(
        "Samples in a batch, on each GPU.",
        Number(whole=True, most=LARGEST_BATCH),
        usual="chosen by the advisor",
    )
    precision: Precision | None = _workload(
        "Number format: fp32, amp (mixed fp16/fp32), bf16 (mixed bf16/fp32), fp16, or auto: the mixed one "
        "that the GPU's tensor cores compute (all in fp16 where only that is as quick as --max-latency-ms), "
        "fp32 without any.",
        Choice("precision", (*Precision, AUTO), every=AUTO),
        usual=AUTO,
    )
    dataset_name: str | None = _workload(
        f"The data: {', '.join(DATASETS)}, a path of your own images or text, or requests: samples that "
        "users send, on no disk.",
        KnownOrPath("dataset", (*DATASETS, REQUESTS), "NAME|PATH"),
        name="dataset",
        usual="what such a network usually reads: imagenet, tokens, ..",
        in_document=False,
    )
    dataset_format: str | None = _workload(
        "How a named data set of images is stored: files, tar and recordio keep its JPEG images, lmdb holds "
        "pixels (256 x 256).",
        Choice("format", FORMATS),
        name="data_format",
        usual="files",
        in_document=False,
    )
    dataset_samples: int | None = _workload(
        "How many samples your data set has, each like those of the data named: sizes disk and epochs.",
        Number(whole=True, counted=True),
        usual="as many as the data named",
        in_document=False,
    )
    dataset: DatasetProfile = IMAGENET
    stack: Stack = _workload(
        "How PyTorch runs the network: eager or torch.compile.",
        Choice("stack", Stack),
        value=Stack.EAGER,
        usual="eager",
    )
    memory_format: MemoryFormat | None = _workload(
        "Memory layout of images: contiguous, channels_last, or auto: the faster one on each GPU.",
        Choice("memory format", (*MemoryFormat, AUTO), every=AUTO),
        usual=AUTO,
    )
    tf32: Tf32 = _workload(
        "Which fp32 arithmetic may round to TF32.",
        Choice("use of TF32", Tf32),
        value=Tf32.CONVOLUTIONS,
        usual="convolutions",
    )
    protocol: Protocol = _workload(
        "The training step that is meant: a typical script's of today, or a bare one. Training only.",
        Choice("protocol", Protocol),
        value=Protocol.SCRIPT,
        usual="script",
    )
    input: str | None = _workload(
        "Size of one sample: 384 or 3x384x384 (image), seq:384 (tokens).",
        Text("SIZE"),
        usual="the network's own",
    )
    sample_input: str | None = None
    writes_text: bool = False
    model_asked: str | None = None
    namesake: str | None = None
    steps: int | None = _workload(
        "Denoising steps of an image that a diffusion network makes. Inference only.",
        Number(whole=True, most=1000),
        usual=str(USUAL_STEPS),
        in_document=False,
    )
    guidance: bool | None = _workload(
        "Whether a denoising step follows the text by two passes through the network.",
        Flag(),
        usual="two passes; flux.1-dev takes one",
        in_document=False,
    )
    anchor: tuple[Path, ...] = _workload(
        "Measurement of your network on one GPU, from `advisor measure`, `measurements "
        "export` or a campaign. Repeatable. --model may then be any name.",
        Files(),
        default=(),
        where="cli",
        in_document=False,
    )
    max_latency_ms: float | None = _target(
        "Upper limit for the p99 latency in ms of one batch alone, with decoding and copying: what "
        "waits in a queue before it is not counted. Inference only.",
        Number(metavar="MS"),
    )
    epochs: float | None = _run(
        "Length of the run in passes over the data set; adds its hours and cost.", Number()
    )
    samples: int | None = _run(
        "Length of the run in samples, whatever the size of the data set; adds its hours and cost.",
        Number(whole=True),
    )
    max_hours: float | None = spec.MAX_HOURS
    max_run_usd: float | None = spec.MAX_COST
    start_minutes: float | None = spec.START_MINUTES
    max_first_epoch_hours: float | None = _run(
        "Longest first pass over the data in hours: it reads from the disk, where later ones "
        "may read from RAM. Training only.",
        Number(metavar="HOURS"),
        usual="with a target and no --epochs: twice a pass at the target",
    )
    most_instances: int | None = spec.MAX_COUNT._replace(
        name="max_count", default=None, value=None, usual=str(spec.USUAL_COUNT), in_document=False
    )
    max_count: int = 1
    max_nodes: int = _hardware(
        "Most identical instances that train one network together, each with its own disk. Training only.",
        Number(whole=True, most=MOST_NODES),
        default=1,
    )
    pareto: bool = _answer(
        "Show the Pareto front of price and rate, with a target too.", Flag(), default=False
    )
    accelerated_only: bool = _hardware("Consider only instances with a GPU.", Flag(), default=False)
    explain: bool = spec.EXPLAIN
    live: bool = _answer(
        "Ask clouds for the price of the top three, AWS also for offer and quota (about 30 s).",
        Flag(),
        default=False,
        where="cli",
        in_document=False,
    )

    @classmethod
    def refuse_given(cls, values: Mapping[str, Any]) -> None:
        """`UsageError` for fields that do not apply to the task."""
        if values.get("task") is Task.PREPROCESSING:
            for field in _OF_NETWORKS:
                if field in values:
                    raise error_in(field, _OF_NETWORKS_ONLY, hint="leave it out")
        if "protocol" in values and values.get("task") is not Task.TRAINING:
            raise error_in("protocol", _TRAINING_ONLY)
        precision = values.get("precision")
        if "tf32" in values and precision not in (None, AUTO, Precision.FP32):
            raise error_in(
                "tf32",
                "{field} is of fp32 arithmetic, and {precision} has little of it",
                precision=str(precision),
                hint="leave it out, or ask for {precision} fp32",
            )

    def __post_init__(self) -> None:
        if self.epochs is not None and self.samples is not None:
            raise error_in(
                "samples",
                "{epochs} and {field} both say how long a run is",
                hint="give one of them; the size of a data set is {dataset_samples}",
            )
        if self.max_latency_ms is not None and self.task is not Task.INFERENCE:
            raise error_in("max_latency_ms", "{field} goes with {task} inference only")

    @property
    def model_text(self) -> str:
        """The network as the user named it."""
        return self.network

    @property
    def can_be_measured(self) -> bool:
        """True if a trial can run this: eager PyTorch on the network's default input, in a known format, with
        samples on a disk."""
        return (
            self.stack is Stack.EAGER
            and self.tf32 is Tf32.CONVOLUTIONS
            and self.input is None
            and self.dataset_name != REQUESTS
            and self.precision in (None, *MEASURABLE_PRECISIONS)
        )

    def as_run(self, workload: Workload) -> Self:
        """The question with the batch size, precision and memory format of a workload."""
        return self.replace(
            batch_size=workload.batch_size, precision=workload.precision, memory_format=workload.memory_format
        )

    @property
    def ranks_by_price(self) -> bool:
        """True if specs are ranked by hourly price; else by the cost of a run, or of a sample."""
        return self.target_throughput is not None and not self.ends

    @property
    def ends(self) -> bool:
        """True if the question is about a run of a given length."""
        return self.run_samples is not None

    @property
    def run_samples(self) -> float | None:
        """Samples of the whole run; None without a given length."""
        if self.epochs is not None:
            return self.epochs * self.dataset.samples
        return self.samples

    @property
    def first_samples(self) -> float:
        """Samples of the first pass over the data, or of the run if it is shorter."""
        return min(self.run_samples or math.inf, self.dataset.samples)


class Recommend(NetworkQuestion):
    """The question of `advisor recommend`."""

    asks = (
        *(*_OF_RUN, "target_throughput", "max_latency_ms", "max_hours", "max_run_usd"),
        *("max_first_epoch_hours", "accelerated_only", "most_instances", "max_nodes"),
        *("explain", "pareto", "live"),
        *spec.OF_HARDWARE,
    )

    splits = True
    task: Task = _TASK
    market: Market | None = spec.RANKED_MARKET

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_first_epoch_hours is not None and self.task is not Task.TRAINING:
            raise error_in("max_first_epoch_hours", _TRAINING_ONLY)
        if self.max_nodes > 1 and self.task is not Task.TRAINING:
            raise error_in("max_nodes", _TRAINING_ONLY, hint="instances share other work with {max_count}")
        if self.max_gpus is not None and self.task is Task.PREPROCESSING:
            raise error_in("max_gpus", _OF_NETWORKS_ONLY, hint="leave it out")
        if (
            self.horizon_hours != HOURS_PER_MONTH
            and self.market is not None
            and self.target_throughput is None
            and not self.owes_term
        ):
            raise error_in(
                "horizon_hours",
                "{field} matters only with a {target_throughput} or with {market} any",
                hint="give one of these, or leave it out",
            )
        is_endless = self.epochs is None and self.samples is None
        for name in ("max_hours", "max_run_usd", "start_minutes") if is_endless else ():
            if getattr(self, name) is not None:
                hint = "say how long it is with {epochs} or {samples}"
                raise error_in(self.declared[name].name, "{field} limits a run", hint=hint)


class Verify(NetworkQuestion):
    """The question of `advisor verify` about its workload, and the limits on what to take."""

    asks = (*_OF_WORKLOAD, "max_latency_ms", "max_usd_per_hour")

    target_throughput: float | None = _target("Samples per second to reach.", RATE, default=Needed)


# Limits that an answer about a named instance is checked against, and their names for users.
_LIMITS = ("target_throughput", "max_latency_ms", "max_usd_per_hour")
_LIMIT_NAMES = ("target_throughput", "max_latency_ms", "max_price")
# Fields of a host, which a GPU by itself lacks.
_OF_HOSTS = frozenset({"vcpus", "memory", "disk"})


class _NamedHardware(NetworkQuestion):
    """A question about named instances, or about GPUs alone, to which `not_of_gpus` do not apply."""

    asks = (*_OF_WORKLOAD, *_LIMITS)
    not_of_gpus: ClassVar[tuple[str, ...]] = ("disk", "max_gpus", "cloud", "region", "market", *_LIMIT_NAMES)
    without_gpu: ClassVar[Message]

    @classmethod
    def refuse_given(cls, values: Mapping[str, Any]) -> None:
        """`UsageError` for fields that do not apply to the task, or to GPUs alone."""
        super().refuse_given(values)
        if not values.get("gpu"):
            return
        usual = (None, False, ())
        others = [
            FieldName(name)
            for name in cls.not_of_gpus
            if values.get(name) not in (*usual, cls.fields[name].default)
        ]
        if others:
            raise error_in(
                str(others[0]),
                "{gpu} is a GPU without a host",
                hint=Message(
                    "leave out {others}, or describe the machine: `advisor catalog import "
                    "own_machines.csv` (docs/examples has one), and name it as {instance}",
                    others=others,
                    instance=FieldName("instance"),
                )
                if _OF_HOSTS.intersection(map(str, others))
                else Message("leave out {others}", others=others),
            )
        if values.get("task") is Task.PREPROCESSING:
            raise error_in("gpu", "preprocessing uses no GPU", hint=cls.without_gpu)


class Predict(_NamedHardware):
    """The question of `advisor predict`: about one instance, or a GPU by itself. `other_vcpus` and
    `other_memory_mib` replace those of the instance."""

    asks = (*_OF_RUN, *_LIMITS)
    not_of_gpus = ("instance", "vcpus", "memory", "explain", "epochs", "samples", *_NamedHardware.not_of_gpus)
    without_gpu = Message("name an {instance}", instance=FieldName("instance"))

    task: Task = _TASK
    instance: str | None = _hardware("Instance type, as g4dn.xlarge.", Text("TYPE"), required=True)
    gpu: str | None = _hardware(
        "A GPU by itself, without a host: 'RTX 5090'. Instead of an instance.", Text("GPU"), where="cli"
    )
    other_vcpus: int | None = _hardware(
        "What if the instance had this many vCPUs.", Number(whole=True, most=MOST_VCPUS), name="vcpus"
    )
    other_memory_mib: float | None = _hardware(
        "What if the instance had this much RAM: 24GiB.",
        Parsed(parse_memory_mib, size_text, "SIZE"),
        name="memory",
    )
    curve: Curve | None = ask("How the rate moves with vCPUs, RAM and disk.", CurveOf(), where="http")
    explain: bool = spec.EXPLAIN

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gpu is None and self.instance is None:
            raise error_in(
                "instance", "name an {field} (g4dn.xlarge)", hint="or a {gpu} ('RTX 5090') by itself"
            )


class Compare(_NamedHardware):
    """The question of `advisor compare`; `network` may name several, with commas between."""

    asks = (*_OF_WORKLOAD, "epochs", "samples", "start_minutes", *_LIMITS)
    not_of_gpus = ("epochs", "samples", *_NamedHardware.not_of_gpus)
    without_gpu = Message("compare instances: {instance}, two or more", instance=FieldName("instance"))

    task: Task = _TASK

    instance: tuple[str, ...] = _hardware(
        "Instance types, two or more: a,b, or the option again.", Names("TYPE"), default=()
    )
    gpu: GpuFilter | None = _hardware(
        "Instead of instances: GPUs by themselves, as T4,V100,L4, 24GiB.. or cc8.0...", spec.GPUS
    )
    baseline: str | None = _answer(
        "What counts as 1: an instance type, or a GPU where GPUs are compared.",
        Text("NAME"),
        usual="the first one",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.instance) == bool(self.gpu):
            raise error_in(
                "gpu" if self.instance else "instance",
                "name what to compare",
                hint="give {instance} two or more types, or {gpu} as T4,L4",
            )


_MEMORY_OF_TRAINING = Message("{field} belongs to training")
_MEMORY_SAVED = Message("{field} is of use in training only")
_GRAPH_KEPT = Message("{field} belongs to inference: training keeps its graph anyway")


class MemoryQuestion(Question):
    """The question of `advisor memory`."""

    network: str = ask(
        "The network: a name from `advisor networks`, or your own file.py:build.",
        Network(),
        name="model",
        default=Needed,
    )
    task: Task = ask(
        "What the network does: training or inference.",
        Choice("task", (Task.TRAINING, Task.INFERENCE)),
        default=Task.TRAINING,
    )
    batch_size: int = ask("Samples in a batch.", Number(whole=True, most=LARGEST_BATCH), default=32)
    precision: Precision | None = ask(
        "Number format: fp32, amp (mixed fp16/fp32), bf16 (mixed bf16/fp32), fp16, or auto: the mixed one "
        "that all of the GPUs compute, fp32 where none has tensor cores.",
        Choice("precision", (*Precision, AUTO), every=AUTO),
        usual=AUTO,
    )
    optimizer: str | None = ask(
        "Optimizer; decides how many values are kept per weight. Training only.",
        Choice("optimizer", OPTIMIZERS, adamw="adam"),  # they keep as much
        usual="momentum",
    )
    checkpointing: bool = ask(
        "Recompute blocks in the backward pass (activation checkpointing).", Flag(), default=False
    )
    keep_graph: bool = ask("Inference without torch.no_grad().", Flag(), default=False)
    input_size: int | None = ask(
        "Side of square images in pixels.",
        Number(whole=True, metavar="PIXELS"),
        where="cli",
        usual="the network's own",
    )
    input: str | None = ask("The same, as 3x384x384, or seq:384 (tokens).", Text("SIZE"), where="cli")
    gpu: GpuFilter | None = spec.MEMORY_GPU
    confidence: float = ask("Probability with which each bound holds.", Probability(), default=0.95)

    def __post_init__(self) -> None:
        trains = self.task is Task.TRAINING
        for field, is_wrong, text in (
            ("optimizer", not trains and self.optimizer is not None, _MEMORY_OF_TRAINING),
            ("checkpointing", not trains and self.checkpointing, _MEMORY_SAVED),
            ("keep_graph", trains and self.keep_graph, _GRAPH_KEPT),
        ):
            if is_wrong:
                raise error_in(field, text.text, hint="leave it out")
        if self.input is not None and self.input_size is not None:
            raise error_in("input", "{field} and {input_size} say the same", hint="give one of them")
