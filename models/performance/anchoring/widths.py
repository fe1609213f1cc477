"""How wide an anchored rate's interval is: calibrated on held-out ratios of published rows.

Groups, nearest first: `cell` (the anchor's own card), `anchored/network` (both GPUs were measured
with PyTorch, the network was not), `anchored/gpu` (nor the one of the GPUs), `anchored/unknown`
(nothing is known of what the network computes). `calibration.py` makes the last three.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models.performance.anchoring.combining import usual_sigma
from models.performance.intervals import HalfWidths, gaussian_multiplier, half_widths

NETWORK, GPU, UNKNOWN = "anchored/network", "anchored/gpu", "anchored/unknown"
ANCHORED = (NETWORK, GPU, UNKNOWN)
# Models fitted before anchors were calibrated have only the wider pools of whole predictions.
_OLDER = ("gpu/new", "network")
# Hosts launch kernels at paces that differ so much (the prior of `fit_accelerator`), and neither
# the anchor's nor an instance's is known: a log standard deviation.
_HOST_SIGMA = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """What makes one anchored rate unsure.

    `sigma` is what the anchors leave (`combining`), `strange_gpus` counts target and anchor
    where PyTorch did not measure them, `spread` is the log standard deviation over what an
    unknown network may be like (None: it is known), `fixed` the shares of a step that no batch
    makes longer, at the target and in the anchors, and `surprise` what contradicting anchors
    move the rate by, in log.
    """

    sigma: float
    same_card: bool
    strange_gpus: int
    spread: float | None
    fixed: tuple[float, float]
    surprise: float


def anchored_widths(
    residuals: Mapping[str, Sequence[float]], doubt: Doubt, confidence: float
) -> HalfWidths:
    """Half widths in log rate: the group's quantile for what the anchors leave, and the doubts
    that no held-out ratio holds added in squares."""
    z = gaussian_multiplier(confidence)
    group = _group_widths(residuals, doubt, confidence)
    scale = scale_of(doubt.sigma, same_card=doubt.same_card)
    more = [z * _HOST_SIGMA * fixed for fixed in doubt.fixed]
    more += [doubt.surprise, z * (doubt.spread or 0.0)]
    lower, upper = (float(np.hypot.reduce([scale * one, *more])) for one in group[:2])
    return HalfWidths(lower, upper, group.calibrated)


def scale_of(sigma: float, *, same_card: bool) -> float:
    """An interval's width to that of a single usual anchor, which is what the pools hold.

    More anchors on other cards say more of the network and nothing of the target: the narrowing
    counts by its root, as held-out rows with several anchors ask for (docs/anchors.md).
    """
    scale = sigma / usual_sigma(same_card=same_card)
    return scale if same_card or scale > 1 else math.sqrt(scale)


def _group_widths(
    residuals: Mapping[str, Sequence[float]], doubt: Doubt, confidence: float
) -> HalfWidths:
    if doubt.same_card:
        return half_widths(residuals, ("cell", *_OLDER), confidence)
    names = [NETWORK, *[GPU] * bool(doubt.strange_gpus), *[UNKNOWN] * (doubt.spread is not None)]
    found = [half_widths(residuals, (name, *_OLDER), confidence) for name in names]
    # Being farther away never makes a rate surer, whatever chance did to a small pool.
    widest = HalfWidths(
        max(one.lower for one in found),
        max(one.upper for one in found),
        all(one.calibrated for one in found),
    )
    if doubt.strange_gpus < 2:
        return widest
    # The pools held out one GPU; the other one's own doubt comes on top.
    lower, upper = (_twice(both, one) for both, one in zip(widest[:2], found[0][:2], strict=True))
    return HalfWidths(lower, upper, widest.calibrated)


def _twice(both: float, network: float) -> float:
    return float(np.sqrt(2 * both**2 - min(both, network) ** 2))
