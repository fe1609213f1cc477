"""Rates beside a rate that counts as 1."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from advisor.domain.decision import OtherSetting
from advisor.domain.machines import Gpu
from advisor.domain.results import Prediction
from advisor.domain.workload import Workload


class OnGpu(Struct, frozen=True, kw_only=True):
    """A network on a GPU with its samples on the device; `workload` None: no batch surely fits.

    The batch is the smallest within 5 % of the best that surely fits.
    """

    gpu: Gpu
    network: str
    workload: Workload | None = None
    prediction: Prediction | None = None
    other_settings: tuple[OtherSetting, ...] = ()


def relative(one: Prediction | None, baseline: Prediction | None) -> float | None:
    """Likely rate over the baseline's; None where either cannot run."""
    if one is None or baseline is None:
        return None
    return one.median / baseline.median


def geometric_mean(ratios: Sequence[float | None]) -> float | None:
    """Of all ratios; None where one is missing: a mean over fewer networks compares nothing."""
    known = [ratio for ratio in ratios if ratio is not None]
    if not known or len(known) < len(ratios):
        return None
    return math.exp(sum(map(math.log, known)) / len(known))
