"""A message to its targets: each by itself, again where another try may help."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from msgspec import Struct
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt

from advisor.errors import DeliveryError, UsageError
from advisor.runs.delivery.letter import Letter, Target, TransientDeliveryError
from advisor.runs.delivery.targets import parse_target, target_label

ATTEMPTS = 4
FIRST_PAUSE_SECONDS = 1.0

Say = Callable[[str], None]


class Delivery(Struct, frozen=True, kw_only=True):
    """The outcome of a message at one target, as `label` names it; `error` is empty where it arrived,
    `transient` says whether a later try may help."""

    label: str
    attempts: int
    error: str = ""
    transient: bool = False

    @property
    def arrived(self) -> bool:
        """Whether the target has taken it."""
        return not self.error


def checked_targets(texts: Sequence[str]) -> tuple[Target, ...]:
    """The targets behind `--send`, each as ready as can be known; `UsageError` before any work."""
    targets = tuple(parse_target(text) for text in texts)
    for target in targets:
        target.check()
    return targets


def deliver(
    message: Letter,
    targets: Sequence[Target],
    *,
    attempts: int = ATTEMPTS,
    sleep: Callable[[float], None] | None = None,
    say: Say = lambda _line: None,
) -> list[Delivery]:
    """Send it to each target, up to `attempts` times with pauses of 1, 2, 4, .. s (each longer by up to a
    quarter, so that many do not come at once). One that fails keeps none of the others back."""
    return [_delivered(message, target, attempts, sleep or time.sleep, say) for target in targets]


def deliver_to(
    message: Letter, text: str, *, say: Say = lambda _line: None, attempts: int = ATTEMPTS
) -> Delivery:
    """As `deliver`, for a target that somebody else wrote down; one that cannot be read here has
    failed, and raises nothing."""
    try:
        (delivery,) = deliver(message, checked_targets([text]), say=say, attempts=attempts)
    except UsageError as error:
        return Delivery(label=target_label(text), attempts=0, error=str(error))
    return delivery


def _delivered(
    message: Letter, target: Target, attempts: int, sleep: Callable[[float], None], say: Say
) -> Delivery:
    tries = Retrying(
        stop=stop_after_attempt(attempts),
        retry=retry_if_exception_type(TransientDeliveryError),
        wait=_pause,
        sleep=sleep,
        reraise=True,
        before_sleep=lambda state: say(f"{_error_of(state)}; trying again"),
    )
    error: DeliveryError | UsageError | None = None
    try:
        tries(target.send, message)
    except (DeliveryError, UsageError) as failed:
        error = failed
    return Delivery(
        label=target.label,
        attempts=tries.statistics["attempt_number"],
        error=str(error or ""),
        transient=isinstance(error, TransientDeliveryError),
    )


def _pause(state: RetryCallState) -> float:
    own = FIRST_PAUSE_SECONDS * 2.0 ** (state.attempt_number - 1)
    error = _error_of(state)
    wanted = error.wait_seconds if isinstance(error, TransientDeliveryError) else None
    return max(own * random.uniform(1.0, 1.25), wanted or 0.0)


def _error_of(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None
