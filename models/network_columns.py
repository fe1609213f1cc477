"""Column names of the network table, shared by its writer and its reader.

`advisor.models.zoo` and `advisor.models.performance` do not know each other; both know this."""

from __future__ import annotations

from msgspec import Struct

# Kinds of kernels in the order of their numbers in the table.
KINDS = (
    "conv_depthwise",
    "conv_grouped",
    "conv_1x1",
    "conv_3x3",
    "conv_kxk",
    "linear",
    "attention",
    "norm",
    "pool",
    "copy",
    "cast",
    "reduce",
    "softmax",
    "elementwise",
    "attention_math",
    "attention_masked",
    "upsample",
    "fold",
)
# A byte tells a mean width of up to 8 bytes in steps of 1/32.
WIDTH_STEPS = 32


class MemoryFacts(Struct, frozen=True, kw_only=True):
    """MiB, per sample unless said otherwise; `amp` is mixed precision.

    `saved` is what autograd keeps for the backward pass beside weights, `saved_fixed` the same for any batch
    (16-bit copies of weights among it). `transient` is what the largest kernel of the forward pass reads and
    writes; peaks are the most that lives at once, input left out, in inference without gradients and in a
    training step. `output` is what the forward pass returns."""

    saved_fp32: float
    saved_fixed_fp32: float
    saved_amp: float
    saved_fixed_amp: float
    transient_fp32: float
    transient_amp: float
    inference_peak_fp32: float
    inference_peak_amp: float
    training_peak_fp32: float
    training_peak_amp: float
    output: float


MEMORY_COLUMNS = tuple(MemoryFacts.__annotations__)
