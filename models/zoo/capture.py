"""Lists the operations that a network runs on a GPU, on the meta device, without computing.

A step is recorded once (`kernels`) and summed up in classes, for reports of what was measured; `step_facts`
makes the rows of the table of networks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from advisor.domain import Precision
from advisor.errors import CANNOT_FOLLOW, AdvisorError, UsageError
from advisor.models.zoo.kernels import PRIME_BATCH, KernelLog, recording

if TYPE_CHECKING:
    import torch


_IMAGE_DIMENSIONS = 4  # batch, channels, height, width


def autocast(device_type: str, precision: Precision) -> AbstractContextManager[Any]:
    """The forward pass in fp16 (amp) or bf16 where that is safe; nothing for fp32."""
    import torch

    if precision is Precision.FP32:
        return nullcontext()
    dtype = torch.float16 if precision is Precision.AMP else torch.bfloat16
    context: AbstractContextManager[Any] = torch.autocast(device_type, dtype=dtype)
    return context


def to_device(batch: Any, device: str | torch.device, image_format: torch.memory_format | None = None) -> Any:
    """Tensors, in tuples, lists and dictionaries, copied to the device without waiting; images
    (4 dimensions) are laid out there in `image_format`. What else a batch has stays as it is."""
    import torch
    from torch.utils._pytree import tree_map

    def sent(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        there = leaf.to(device, non_blocking=True)
        if image_format is None or there.dim() != _IMAGE_DIMENSIONS:
            return there
        return there.contiguous(memory_format=image_format)

    return tree_map(sent, batch)


OPERATION_CLASSES = (
    "conv_depthwise",
    "conv_grouped",
    "conv_1x1",
    "conv_3x3",
    "conv_kxk",
    "linear",
    "norm",
    "pool",
    "elementwise",
)
# Other kinds count as one of these.
_ATTENTION, _RESAMPLED = ("attention", "attention_math", "attention_masked"), ("upsample", "fold")
_CLASS_OF_KIND = (
    {kind: kind for kind in OPERATION_CLASSES}
    | dict.fromkeys(_ATTENTION, "linear")
    | dict.fromkeys(_RESAMPLED, "pool")
)


class Operation(Struct, frozen=True):
    """One kernel: FLOPs and bytes per sample in fp32, and bytes that any batch moves."""

    kind: str
    flops: float
    sample_bytes: float
    fixed_bytes: float


def capture_operations(network: torch.nn.Module, side: int, *, training: bool) -> tuple[Operation, ...]:
    """Operations of one forward pass, or of forward and backward, in launch order.

    `network` lives on the meta device and takes (batch, 3, side, side) in fp32."""
    import torch

    log = KernelLog()
    with recording(log):
        _step(network, torch.empty(PRIME_BATCH, 3, side, side, device="meta"), log, training)
    return tuple(
        Operation(
            _CLASS_OF_KIND.get(kernel.kind, "elementwise"),
            kernel.flops,
            kernel.sample_bytes,
            kernel.fixed_bytes,
        )
        for kernel in log.kernels
    )


@contextmanager
def as_usage_errors(name: str) -> Iterator[None]:
    """Turns errors of tracing `name` without data into a `UsageError` of one line."""
    try:
        yield
    except AdvisorError:
        raise
    except (Exception, SystemExit) as error:
        text = (str(error).strip().splitlines() or [""])[0]
        raise UsageError(
            f"torch cannot follow {name} without computing ({type(error).__name__}: {text})",
            hint=(
                "say in the file what it takes (INPUT_SHAPE, example_batch), or measure it: "
                f"advisor measure --model {name}"
            ),
            code=CANNOT_FOLLOW,
        ) from error


def _step(network: torch.nn.Module, images: torch.Tensor, log: KernelLog, training: bool) -> None:
    import torch

    network.train(training)
    network.zero_grad(set_to_none=True)
    with torch.set_grad_enabled(training):
        outputs = network(images)
        if not training:
            return
        logits = outputs[0] if isinstance(outputs, tuple | list) else outputs
        labels = torch.empty(PRIME_BATCH, dtype=torch.int64, device="meta")
        loss = torch.nn.functional.cross_entropy(logits, labels)
        log.backward = True
        torch.autograd.backward(loss)
