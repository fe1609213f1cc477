"""A parcel to its targets: each by itself, again where another try may help."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from advisor.errors import DeliveryError, UsageError
from advisor.runs.delivery.parcel import Parcel, PassingTroubleError, Target
from advisor.runs.delivery.targets import parse_target, target_label

ATTEMPTS = 4
FIRST_PAUSE_SECONDS = 1.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What became of a parcel at one target, as `label` names it; `error` is empty where it
    arrived, `passing` says whether a later try may help."""

    label: str
    attempts: int
    error: str = ""
    passing: bool = False

    @property
    def arrived(self) -> bool:
        """Whether the target has taken it."""
        return not self.error


def checked_targets(texts: Sequence[str]) -> tuple[Target, ...]:
    """The targets behind `--send`, each as ready as can be known; `UsageError` before any work."""
    targets = tuple(parse_target(text) for text in texts)
    for one in targets:
        one.check()
    return targets


def delivered(
    parcel: Parcel,
    targets: Sequence[Target],
    *,
    attempts: int = ATTEMPTS,
    sleep: Callable[[float], object] | None = None,
    say: Say = lambda _line: None,
) -> list[Delivery]:
    """Sent to each target, up to `attempts` times with pauses of 1, 2, 4, .. s (each longer by up
    to a quarter, so that many do not come at once). One that fails keeps none of the others back.
    """
    return [_delivered(parcel, one, attempts, sleep or time.sleep, say) for one in targets]


def delivered_to_words(
    parcel: Parcel, words: Sequence[str], *, say: Say, attempts: int = ATTEMPTS
) -> list[Delivery]:
    """As `delivered`, for targets that somebody else wrote down; one that cannot be read here has
    failed, and raises nothing."""
    found = []
    for text in words:
        try:
            found += delivered(parcel, checked_targets([text]), say=say, attempts=attempts)
        except UsageError as error:
            found.append(Delivery(label=target_label(text), attempts=0, error=str(error)))
    return found


def _delivered(
    parcel: Parcel, target: Target, attempts: int, sleep: Callable[[float], object], say: Say
) -> Delivery:
    error, attempt = "", 0
    for attempt in range(1, attempts + 1):
        try:
            target.send(parcel)
            return Delivery(label=target.label, attempts=attempt)
        except PassingTroubleError as trouble:
            error = str(trouble)
            if attempt < attempts:
                say(f"{error}; trying again")
                sleep(_pause(attempt, trouble.wait_seconds))
        except (DeliveryError, UsageError) as lasting:
            return Delivery(label=target.label, attempts=attempt, error=str(lasting))
    return Delivery(label=target.label, attempts=attempt, error=error, passing=True)


def _pause(attempt: int, asked: float | None) -> float:
    own = FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1)
    return max(own * random.uniform(1.0, 1.25), asked or 0.0)
