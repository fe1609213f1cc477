"""Networks from a user's file that the bundled table lacks: their operations, sizes and memory peaks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct

from advisor.domain import DataKind, Observation, Task, Workload
from advisor.errors import UsageError
from advisor.models.network_columns import KINDS, WIDTH_STEPS
from advisor.models.performance.memory.peak import bundled_peak_model, card_mib
from advisor.models.performance.networks import OPERATION, NetworkFacts, Rows, bundled_networks

_DEFAULT_SIDE = 224
# A plain network: of ordinary convolutions, measured on most cards.
STAND_IN = "resnet50"
_RGB, _IMAGE_SIZES = 3, 3
_FP32_BYTES, _INT64_BYTES, _HALF = 4, 8, 2
# Assumed shapes of matrices, since a class's sums do not say them.
_USUAL_REDUCTION, _USUAL_WIDTH = 512, 256
_SAMPLES = {DataKind.IMAGE: "image", DataKind.TOKENS: "sequence", DataKind.TENSOR: "sample"}
_COLUMNS = ("flops_per_sample", "bytes_per_sample", "fixed_bytes")

# Sums by task and class of operation, as in advisor.anchor/1.
Captured = Mapping[str, Mapping[str, Mapping[str, float]]]


def facts_of_own(
    name: str,
    kernels: Mapping[Task, Rows],
    *,
    input_shape: Sequence[int] | None = None,
    whole_numbers: bool | None = None,
    sample: str | None = None,
    weight_mib: float = 0.0,
    weight_tensors: int = 0,
) -> NetworkFacts:
    """Facts of a user's network. `kernels` may lack tasks; empty ones are replaced by `STAND_IN`'s on GPUs.

    `input_shape` is that of a sample (None: an image of 224x224). `whole_numbers` says whether its values
    are integers, that is, tokens (None: unknown). Unknown weights are 0."""
    shape = tuple(input_shape or (3, _DEFAULT_SIDE, _DEFAULT_SIDE))
    data = _kind(shape, whole_numbers)
    tokens = data is DataKind.TOKENS
    return NetworkFacts(
        name=name,
        input=f"seq:{shape[-1]}" if tokens else "x".join(map(str, shape)),
        input_bytes=float((_INT64_BYTES if tokens else _FP32_BYTES) * math.prod(shape)),
        data=data,
        sample=sample or _SAMPLES[data],
        parameters=round(weight_mib * 2**20 / 4),
        weight_tensors=weight_tensors,
        weights_mib=weight_mib,
        kernels=kernels,
        stand_in={} if kernels else bundled_networks().find(STAND_IN).kernels,
    )


def _kind(shape: Sequence[int], whole_numbers: bool | None) -> DataKind:
    """Tokens for whole numbers or, if that is unknown, a single size; an image for three sizes from 3 on."""
    if whole_numbers or (whole_numbers is None and len(shape) == 1):
        return DataKind.TOKENS
    is_image = len(shape) == _IMAGE_SIZES and shape[0] == _RGB
    return DataKind.IMAGE if is_image else DataKind.TENSOR


def kernels_from(captured: Captured, origin: str) -> dict[Task, Rows]:
    """The kernels of each task in an anchor's `captured` block, as one mean operation per class.

    Raises `UsageError` for unknown classes, and for numbers that are not finite, negative or without a
    count."""
    try:
        if strange := {name for rows in captured.values() for name in rows} - set(KINDS):
            raise ValueError(f"unknown: {', '.join(sorted(strange))}")
        return {Task(task): _kernels(rows) for task, rows in captured.items() if rows}
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UsageError(
            "{origin}: its captured operations cannot be used ({error})",
            hint="measure it again",
            origin=origin,
            error=error,
        ) from error


def _kernels(rows: Mapping[str, Mapping[str, float]]) -> Rows:
    count = np.array([float(row["count"]) for row in rows.values()])
    sums = np.array([[float(row[name]) for name in _COLUMNS] for row in rows.values()])
    if not (np.isfinite(sums).all() and (sums >= 0).all() and (count >= 1).all()):
        raise ValueError("they are counts of 1 or more, and finite numbers of 0 or more")
    means = sums / count[:, None]
    kernels = np.zeros(len(rows), OPERATION)
    kernels["kind"] = [KINDS.index(name) for name in rows]
    kernels["count"] = np.minimum(count, 65535)
    kernels["flops"] = means[:, 0]
    kernels["sample_elements"], kernels["fixed_elements"] = means[:, 1:].T / _FP32_BYTES
    kernels["amp_sample_width"] = kernels["amp_fixed_width"] = _HALF * WIDTH_STEPS
    multiplies = means[:, 0] > 0
    depthwise = kernels["kind"] == KINDS.index("conv_depthwise")
    kernels["reduction"] = np.select([depthwise, multiplies], [9, _USUAL_REDUCTION], 0)
    kernels["width"] = np.select([depthwise, multiplies], [1, _USUAL_WIDTH], 0)
    return kernels


# Allows for larger workspaces and allocator overhead on another card.
_MARGIN = 1.1


class AnchoredMemory(Struct, frozen=True):
    """The smallest card for a batch, from measured `peaks` (batch size, MiB), sorted and rising."""

    peaks: tuple[tuple[int, float], ...]

    def needed_card_mib(self, workload: Workload) -> float:
        """MiB of the card; 0 if no anchor has a peak.

        Between two peaks, the larger batch's counts. Beyond the last, the steepest slope is continued; a
        single peak is scaled with the batch. So the estimate is never too low."""
        if not self.peaks:
            return 0.0
        peak = next((mib for size, mib in self.peaks if workload.batch_size <= size), None)
        if peak is None:
            last, most = self.peaks[-1]
            slopes = [(high - low) / (b - a) for (a, low), (b, high) in pairwise(self.peaks)]
            peak = most + max(slopes, default=most / last) * (workload.batch_size - last)
        return card_mib(_MARGIN * peak + bundled_peak_model().context_mib)


def peaks_of(observations: Sequence[Observation]) -> AnchoredMemory:
    """The largest peak of each batch size, never falling with the batch."""
    by_batch: dict[int, float] = {}
    for observation in observations:
        if observation.peak_mib is not None:
            batch = observation.workload.batch_size
            by_batch[batch] = max(observation.peak_mib, by_batch.get(batch, observation.peak_mib))
    peaks: list[tuple[int, float]] = []
    for batch in sorted(by_batch):
        peaks.append((batch, max(by_batch[batch], peaks[-1][1] if peaks else 0.0)))
    return AnchoredMemory(tuple(peaks))
