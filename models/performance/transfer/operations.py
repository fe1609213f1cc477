"""Classes of operations: what of a profile is expected to speed up alike on another GPU."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# The first pattern that a name matches decides. Names are TensorFlow's; PyTorch's say the same
# words (aten::convolution_backward, aten::native_batch_norm, aten::addmm).
_PATTERNS = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("depthwise_filter_gradient", r"depthwise.*backpropfilter"),
        ("depthwise_input_gradient", r"depthwise.*backpropinput"),
        ("depthwise", r"depthwise"),
        ("convolution_filter_gradient", r"conv.*backpropfilter"),
        ("convolution_input_gradient", r"conv.*backpropinput"),
        ("convolution_input_gradient", r"convolution_backward"),
        ("convolution", r"conv"),
        ("matrix_product", r"matmul|addmm|::mm\b|::bmm\b|gemm|linear"),
        ("normalisation", r"norm"),
        ("pooling_gradient", r"pool.*(grad|backward)|^tile$"),
        ("pooling", r"pool|^mean$|::mean\b"),
        ("activation_gradient", r"relu\d*_?(grad|backward)|threshold_backward"),
        ("activation", r"relu|threshold"),
        ("bias", r"biasadd"),
        ("optimizer", r"apply.*(gradient|momentum|adam)|optimizer"),
        ("transfer", r"^_+(host)?(send|recv)$|memcpy"),
    )
)
TRANSFER = "transfer"
OTHER = "other"
CLASSES: tuple[str, ...] = (*dict.fromkeys(name for name, _ in _PATTERNS), OTHER)
# Bound by arithmetic on every GPU of the last ten years; all others move memory.
COMPUTE_BOUND = frozenset(
    {
        "convolution",
        "convolution_filter_gradient",
        "convolution_input_gradient",
        "matrix_product",
    }
)


def operation_class(name: str) -> str:
    """The class of an operation named as profilers name it; `other` where none fits."""
    for known, pattern in _PATTERNS:
        if pattern.search(name):
            return known
    return OTHER


def class_columns(names: Iterable[str]) -> list[int]:
    """For every operation name the column of its class in a table of `CLASSES`."""
    return [CLASSES.index(operation_class(name)) for name in names]


def transfer_column(classes: Sequence[str] = CLASSES) -> int:
    """The column of copies between host and GPU, which the bus paces and not the GPU."""
    return list(classes).index(TRANSFER)
