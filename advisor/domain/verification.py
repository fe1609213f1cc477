"""What one trial made for real says about a target."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from advisor.domain.decision import AnyQuestion
from advisor.domain.machines import InstanceType
from advisor.domain.results import Measurement, Prediction


class Verdict(StrEnum):
    """Whether what was measured reaches the target; `undecided` where it cannot tell."""

    PASS = "pass"
    MISSED = "missed"
    UNDECIDED = "undecided"


class Verification(Struct, frozen=True, kw_only=True):
    """A target, one measurement, and what follows from it.

    `instance` is the type that the trial stands for (None: this machine as it is). `settles` says
    whether it was measured on such an instance with the accelerator that it has; else `caveats`
    say what it stands for. The rates are samples per second: the typical one and its 95 % interval
    (None where too few steps were measured). `reason` says what decided, `answer_now` what to
    take after this.
    """

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
