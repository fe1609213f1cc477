"""The questions about instances or GPUs that are named: their rate, and their memory."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.domain import Market, Precision, Task
from advisor.messages import FieldName, Message
from advisor.quantities import parse_memory_mib
from advisor.questions.curves import CurveOf
from advisor.questions.fields import Choice, Flag, Names, Network, Parsed, Text, wrong
from advisor.questions.models import RunQuestion, WorkloadQuestion
from advisor.questions.numbers import Number, Probability
from advisor.questions.question import Question, ask
from advisor.questions.shared import ANSWER, EXPLAIN, GPUS, HARDWARE, LARGEST_BATCH
from advisor.questions.values import Curve, GpuFilter
from advisor.units import size_text

# More than any machine has; a model's curve says nothing out there.
MOST_VCPUS = 1024
OPTIMIZERS = ("sgd", "momentum", "adam")

# What a GPU without a host has none of.
_OF_HOSTS = frozenset({"vcpus", "memory", "disk"})
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
            hint=Message(
                "leave out {others}, or describe the machine: `advisor catalog import "
                "own_machines.csv` (docs/examples has one), and name it as {instance}",
                others=others,
                instance=FieldName("instance"),
            )
            if _OF_HOSTS.intersection(map(str, others))
            else Message("leave out {others}", others=others),
        )


class Predict(RunQuestion):
    """What `advisor predict` is asked: of one instance, or of a GPU by itself."""

    instance: str | None = ask(
        "Instance type, as g4dn.xlarge.", Text("TYPE"), section=HARDWARE, default=None, required=True
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
        "Instance types, two or more: a,b, or the option again.", Names("TYPE"), section=HARDWARE, default=()
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
                hint=Message("compare instances: {instance}, two or more", instance=FieldName("instance")),
            )


class MemoryQuestion(Question):
    """What `advisor memory` is asked."""

    model: str = ask("The network: a name from `advisor networks`, or your own file.py:build.", Network())
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
