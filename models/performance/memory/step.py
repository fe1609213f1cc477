"""What lives on the GPU in a step: exact parts, and those that the trace found."""

from __future__ import annotations

from enum import StrEnum

from advisor.domain import Precision, Task
from advisor.errors import UsageError
from advisor.records import dataclass
from models.performance.memory.profile import MemoryProfile


class Optimizer(StrEnum):
    """What is kept for each trained value beside its gradient, all in fp32 (torch.optim)."""

    SGD = "sgd"
    MOMENTUM = "momentum"
    ADAM = "adam"


_COPIES_KEPT = {Optimizer.SGD: 0, Optimizer.MOMENTUM: 1, Optimizer.ADAM: 2}
# torch.optim updates all tensors at once by default; Adam's then makes one temporary copy of them.
_COPIES_IN_UPDATE = {Optimizer.SGD: 0, Optimizer.MOMENTUM: 0, Optimizer.ADAM: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """How a step is run. `keeps_graph` is inference without torch.no_grad()."""

    task: Task
    batch_size: int
    precision: Precision = Precision.FP32
    optimizer: Optimizer = Optimizer.MOMENTUM
    checkpointing: bool = False
    keeps_graph: bool = False

    def __post_init__(self) -> None:
        if self.task is Task.PREPROCESSING:
            raise UsageError("preprocessing takes no GPU memory; ask for training or inference")
        if self.checkpointing and self.task is not Task.TRAINING:
            raise UsageError("--checkpointing saves memory in training only; leave it out")

    @property
    def step(self) -> str:
        """The name of the traced step; 16-bit formats are alike in width."""
        width = "fp32" if self.precision is Precision.FP32 else "16bit"
        ending = (
            "/checkpointing" if self.checkpointing else "/gradients" if self.keeps_graph else ""
        )
        return f"{self.task.value}/{width}{ending}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMemory:
    """MiB at the peak of a step. Weights, gradients and optimiser state are exact; `saved_mib` is
    what the forward pass leaves for the backward pass, and `temporary_mib` the rest of the
    peak."""

    weights_mib: float
    gradients_mib: float
    optimizer_mib: float
    saved_mib: float
    temporary_mib: float

    @property
    def total_mib(self) -> float:
        """All parts: what torch calls allocated at its peak."""
        state = self.weights_mib + self.gradients_mib + self.optimizer_mib
        return state + self.saved_mib + self.temporary_mib


def step_memory(profile: MemoryProfile, conditions: Conditions) -> StepMemory:
    """The parts at the larger of two peaks: in the backward pass, and in the optimiser's update.

    Gradients are freed before each forward pass (torch's default), so at the first peak a part
    of `gradients_mib` may not exist yet; then less is left for temporary tensors. Raises
    `UsageError` where the step was not traced, as checkpointing a network that has no blocks.
    """
    try:
        forward, traced = profile.at(conditions.step, conditions.batch_size)
    except KeyError as error:
        raise UsageError(
            f"{profile.name} was not traced as {conditions.step}; ask for another precision, or "
            "without checkpointing"
        ) from error
    if conditions.task is Task.INFERENCE:
        return StepMemory(
            weights_mib=profile.weights_mib,
            gradients_mib=0.0,
            optimizer_mib=0.0,
            saved_mib=forward,
            temporary_mib=traced - forward,
        )
    gradients = profile.trained_mib
    update = gradients * (1 + _COPIES_IN_UPDATE[conditions.optimizer])
    beside_gradients = max(0.0, max(traced, update) - gradients)
    saved = min(forward, beside_gradients)
    return StepMemory(
        weights_mib=profile.weights_mib,
        gradients_mib=gradients,
        optimizer_mib=gradients * _COPIES_KEPT[conditions.optimizer],
        saved_mib=saved,
        temporary_mib=beside_gradients - saved,
    )
