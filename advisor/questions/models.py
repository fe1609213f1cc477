"""The questions about networks. A field is declared once, here or where several questions share it.

From it follow the options of the command line (`advisor.cli.questions`), the fields over HTTP with
their schemas, and the text that asks the question again (`advisor.questions.reading`), and the
`Request` that the engine decides on (`advisor.questions.requests`). A field has the same name
everywhere: `max_price` is `--max-price` and the JSON field `max_price`.

A question that contradicts itself cannot be made: `UsageError` names the field.
"""

from __future__ import annotations

from pathlib import Path

from advisor.domain import HOURS_PER_MONTH, Market, MemoryFormat, Precision, Stack, Task, Tf32
from advisor.messages import FieldName, Message
from advisor.questions.fields import Choice, Files, Flag, KnownOrPath, Network, Text, wrong
from advisor.questions.numbers import RATE, Number
from advisor.questions.placed import HardwareQuestion, PlacedQuestion
from advisor.questions.question import Question, ask
from advisor.questions.shared import (
    ANSWER,
    BATCH_SIZE,
    CONFIDENCE,
    EXPLAIN,
    HARDWARE,
    MAX_COST,
    MAX_COUNT,
    MAX_GPUS,
    MAX_HOURS,
    MAX_NODES,
    PRECISION,
    RANKED_MARKET,
    RUN,
    TARGET,
    TASK,
    WORKLOAD,
)
from advisor.questions.values import DATASETS

USUAL_STEPS = 30


class NetworkQuestion(Question):
    """A network, and what it does with which data."""

    task: Task = TASK
    model: str = ask(
        "The network, which says what a sample is, also of preprocessing: a name from `advisor "
        "networks`, or your own file.py:build.",
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
    steps: int | None = ask(
        "Denoising steps of an image that a diffusion network makes. Inference only.",
        Number(whole=True, most=1000),
        section=WORKLOAD,
        default=None,
        usual=str(USUAL_STEPS),
    )
    guidance: bool | None = ask(
        "Whether a denoising step follows the text by two passes through the network.",
        Flag(),
        section=WORKLOAD,
        default=None,
        usual="two passes; flux.1-dev takes one",
    )
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        if self.task is Task.PREPROCESSING:
            for field in ("stack", "memory_format", "tf32"):
                if getattr(self, field) is not None:
                    raise wrong(
                        field, "{field} is of networks, and preprocessing runs none", hint="leave it out"
                    )
        if self.tf32 is not None and self.precision is not Precision.FP32:
            raise wrong(
                "tf32",
                "{field} is of fp32 arithmetic, and {precision} has little of it",
                precision=str(self.precision),
                hint=Message("leave it out, or ask for {precision} fp32", precision=FieldName("precision")),
            )


class WorkloadQuestion(NetworkQuestion, PlacedQuestion):
    """A workload, and where it may run."""

    max_gpus: int | None = MAX_GPUS


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


class Recommend(RunQuestion, HardwareQuestion):
    """What `advisor recommend` is asked."""

    target_throughput: float | None = ask(
        "Samples per second to reach (images, sequences or tokens). Without it, results are "
        "ranked by cost: of the run, or of a million samples.",
        RATE,
        section=TARGET,
        default=None,
    )
    max_latency_ms: float | None = ask(
        "Upper limit for the p99 latency in ms of one batch alone, with decoding and copying: what "
        "waits in a queue before it is not counted. Inference only.",
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
    market: Market | str = RANKED_MARKET
    accelerated_only: bool = ask(
        "Consider only instances with a GPU.", Flag(), section=HARDWARE, default=False
    )
    max_count: int = MAX_COUNT
    max_nodes: int = MAX_NODES
    explain: bool = EXPLAIN
    pareto: bool = ask(
        "Show the Pareto front of price and rate, with a target too.", Flag(), section=ANSWER, default=False
    )
    live: bool = ask(
        "Ask clouds for the price of the top three, AWS also for offer and quota (about 30 s).",
        Flag(),
        section=ANSWER,
        default=False,
        where="cli",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_latency_ms is not None and self.task is not Task.INFERENCE:
            raise wrong("max_latency_ms", "{field} goes with {task} inference only", task=FieldName("task"))
        if self.max_first_epoch_hours is not None and self.task is not Task.TRAINING:
            raise wrong(
                "max_first_epoch_hours", "{field} goes with {task} training only", task=FieldName("task")
            )
        if self.max_nodes > 1 and self.task is not Task.TRAINING:
            raise wrong(
                "max_nodes",
                "{field} goes with {task} training only",
                task=FieldName("task"),
                hint=Message("instances share other work with {count}", count=FieldName("max_count")),
            )
        if self.max_gpus is not None and self.task is Task.PREPROCESSING:
            raise wrong(
                "max_gpus", "{field} is of networks, and preprocessing runs none", hint="leave it out"
            )
        if self.horizon_hours != HOURS_PER_MONTH and self.target_throughput is None:
            raise wrong(
                "horizon_hours",
                "{field} is of borderline candidates, which only a target has",
                hint=Message("give a {target}, or leave it out", target=FieldName("target_throughput")),
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

    target_throughput: float = ask("Samples per second to reach.", RATE, section=TARGET)
