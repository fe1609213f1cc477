"""Verdicts of one real trial, or one measured load of an endpoint, about targets and limits."""

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
    """Whether what was measured reaches the target; `undecided` where it cannot tell."""

    PASS = "pass"
    MISSED = "missed"
    UNDECIDED = "undecided"


class Verification(Struct, frozen=True, kw_only=True):
    """A target, one measurement, and what follows from it.

    `instance` is the type that the trial stands for (None: this machine as it is). `settles` says whether it
    was measured on such an instance with the accelerator that it has; else `caveats` say what it stands for.
    The rates are samples per second: the typical one and its 95 % interval (None where too few steps were
    measured). `reason` says what decided, `answer_now` what to take after this."""

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


# The 99th percentile of fewer answers is the longest of them, or nearly.
_FEWEST_OF_P99 = 100


def p99_of(figure: Mapping[str, Any] | None) -> float | None:
    """The 99th percentile of a load's figure; None where too few answers tell it."""
    if figure is None or figure.get("count", 0) < _FEWEST_OF_P99:
        return None
    return float(figure["p99"])


class Criterion(Struct, frozen=True, kw_only=True):
    """One target or limit, and what was measured of it with its 95 % interval.

    `name`: output_tokens_per_second, requests_per_second, ttft_seconds, tpot_seconds, e2e_seconds or
    failed_share; `is_least`: the limit must be reached, not kept below. Bounds are None where nothing was
    measured."""

    name: str
    limit: float
    is_least: bool
    measured: float | None
    lower: float | None
    upper: float | None

    @property
    def verdict(self) -> Verdict:
        """The verdict of the whole interval."""
        if self.lower is None or self.upper is None:
            return Verdict.UNDECIDED
        worst, best = (self.lower, self.upper) if self.is_least else (-self.upper, -self.lower)
        limit = self.limit if self.is_least else -self.limit
        if worst >= limit:
            return Verdict.PASS
        return Verdict.UNDECIDED if best >= limit else Verdict.MISSED


class ServingVerification(Struct, frozen=True, kw_only=True):
    """A question about serving, one load of an endpoint, and what follows from it.

    `predicted` is the spec that the endpoint stands for, as it was predicted; the load and every figure are
    of one of its `count` instances. `settles` says whether the GPU is known to be the spec's; else `caveats`
    say what the trial stands for. `answer_now` is what to take after this."""

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
