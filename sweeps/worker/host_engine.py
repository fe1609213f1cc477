"""Engines whose steps end by the host's clock: preprocessing, an emulated GPU; and what every engine does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol


class Completion(Protocol):
    """The end of one step."""

    def wait(self) -> None:
        """Block until it has come, without spinning."""

    def seconds_since(self, earlier: Any) -> float:
        """Seconds from the end of an earlier step to the end of this one; both have ended."""


class Engine(Protocol):
    """Computes steps in the order in which it gets them."""

    @property
    def environment(self) -> Mapping[str, Any]:
        """Facts of the kernels that computed a measurement."""

    def mark(self) -> Completion:
        """The end of all that it was given so far."""

    def launch(self, inputs: Any, targets: Any) -> Completion:
        """Begin one step on a batch of the host; returns before the step has ended."""

    @property
    def skipped_steps(self) -> int:
        """Steps so far that did not do the whole work of a step."""

    def require_finite_loss(self) -> None:
        """`MeasuringError` where a training has diverged."""


class Moment:
    """A completion that the host's clock knows beforehand, or has seen."""

    def __init__(self, due: float, clock: Callable[[], float], sleep: Callable[[float], None]):
        self.at = due
        self._clock = clock
        self._sleep = sleep

    def wait(self) -> None:
        """Sleep until then."""
        remaining = self.at - self._clock()
        if remaining > 0:
            self._sleep(remaining)

    def seconds_since(self, earlier: Moment) -> float:
        """Seconds between the two."""
        return self.at - earlier.at


class HostEngine:
    """An engine whose steps end by the host's clock. By itself it computes nothing: for preprocessing the
    batch is the product. Subclasses compute in the foreground, or say when a step will have ended."""

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.clock = clock
        self._sleep = sleep

    @property
    def environment(self) -> Mapping[str, Any]:
        """Nothing unusual."""
        return MappingProxyType({})

    @property
    def skipped_steps(self) -> int:
        """None."""
        return 0

    def mark(self) -> Moment:
        """Now."""
        return self.moment(self.clock())

    def launch(self, inputs: Any, targets: Any) -> Moment:  # noqa: ARG002
        """The batch is there, which is all."""
        return self.mark()

    def require_finite_loss(self) -> None:
        """There is no loss."""

    def moment(self, due: float) -> Moment:
        """A completion at that time of the clock."""
        return Moment(due, self.clock, self._sleep)


class EmulatedGpu(HostEngine):
    """Takes a known time for each batch, as MLPerf Storage does; the CPU sleeps meanwhile.

    Steps are ended by an ideal clock (a step begins when the one before it ends, or when its batch comes), so
    late wake-ups delay nothing that a GPU would not have delayed, and errors do not add up.
    """

    def __init__(self, step_seconds: float, **host: Any) -> None:
        super().__init__(**host)
        self._step_seconds = step_seconds
        self._last_end = 0.0

    def launch(self, inputs: Any, targets: Any) -> Moment:  # noqa: ARG002
        """Queue one step."""
        self._last_end = max(self.clock(), self._last_end) + self._step_seconds
        return self.moment(self._last_end)
