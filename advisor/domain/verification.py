"""Verdicts on targets and limits, from one real trial or one measured load of an endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from advisor.domain.decision import AnyQuestion
from advisor.domain.language import GenerationCandidate
from advisor.domain.machines import InstanceType
from advisor.domain.results import Measurement, Prediction


class Verdict(StrEnum):
    """The verdict on a measurement: it reaches the target or not; `undecided` where it cannot show that."""

    PASS = "pass"
    MISSED = "missed"
    UNDECIDED = "undecided"


class Verification(Struct, frozen=True, kw_only=True):
    """A target, one measurement, and what follows from it. `instance` is the type that the trial stands for
    (None: this machine as it is). `settles` says whether it was measured on such an instance with its
    accelerator; else `caveats` say how it differs. The rates are samples per second: the typical one and its
    95 % interval (None with too few steps). `reason` says what decided, `answer_now` what to rent after
    this."""

    request: AnyQuestion
    instance: InstanceType | None
    measurement: Measurement
    prediction: Prediction | None
    lower: float | None
    rate: float | None
    upper: float | None
    verdict: Verdict
    settles: bool
    reason: str
    caveats: tuple[str, ...]
    answer_now: str


# With fewer answers the 99th percentile is nearly the longest of them.
_FEWEST_OF_P99 = 100


def p99_of(figure: Mapping[str, Any] | None) -> float | None:
    """The 99th percentile in a load's figure; None with too few answers."""
    if figure is None or figure.get("count", 0) < _FEWEST_OF_P99:
        return None
    return float(figure["p99"])


class Criterion(Struct, frozen=True, kw_only=True):
    """One target or limit, and its measured value with a 95 % interval. `name`: output_tokens_per_second,
    requests_per_second, ttft_seconds, tpot_seconds, e2e_seconds or failed_share. `is_least`: the value must
    reach the limit, not stay below it. Bounds are None without a measurement."""

    name: str
    limit: float
    is_least: bool
    measured: float | None
    lower: float | None
    upper: float | None

    @property
    def verdict(self) -> Verdict:
        """The verdict by both ends of the interval."""
        if self.lower is None or self.upper is None:
            return Verdict.UNDECIDED
        worst, best = (self.lower, self.upper) if self.is_least else (-self.upper, -self.lower)
        limit = self.limit if self.is_least else -self.limit
        if worst >= limit:
            return Verdict.PASS
        return Verdict.UNDECIDED if best >= limit else Verdict.MISSED


class ServingVerification(Struct, frozen=True, kw_only=True):
    """A question about serving, one load of an endpoint, and what follows from it. `predicted` is the spec
    that the endpoint stands for, as predicted; load and figures are for one of its `count` instances.
    `settles` says whether the GPU is known to be the spec's; else `caveats` say how the trial differs.
    `answer_now` is what to rent after this."""

    request: AnyQuestion
    predicted: GenerationCandidate
    load: str
    criteria: tuple[Criterion, ...]
    anchor: Mapping[str, Any]
    settles: bool
    caveats: tuple[str, ...]
    answer_now: str

    @property
    def verdict(self) -> Verdict:
        """Missed where one criterion is, passed where all are."""
        verdicts = [criterion.verdict for criterion in self.criteria]
        if Verdict.MISSED in verdicts:
            return Verdict.MISSED
        return Verdict.UNDECIDED if Verdict.UNDECIDED in verdicts else Verdict.PASS
