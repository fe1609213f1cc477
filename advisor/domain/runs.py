"""A run: a known number of samples, and the hours it takes."""

from __future__ import annotations

from msgspec import Struct


class Span(Struct, frozen=True, kw_only=True):
    """A quantity with its interval: lower <= median <= upper.

    `upper` of a time or a cost is what is surely kept; infinite where nothing is sure.
    """

    lower: float
    median: float
    upper: float

    def __add__(self, other: Span) -> Span:
        """Two spans one after the other, on one machine: what slows one slows the other too."""
        return Span(
            lower=self.lower + other.lower, median=self.median + other.median, upper=self.upper + other.upper
        )

    @property
    def sure_share(self) -> float:
        """The lower bound over the median; 0 where the median is."""
        return self.lower / self.median if self.median > 0 else 0.0

    def times(self, factor: float) -> Span:
        """Each bound times a factor above 0."""
        return Span(lower=self.lower * factor, median=self.median * factor, upper=self.upper * factor)


class RunTime(Struct, frozen=True, kw_only=True):
    """Hours for `samples`. `first_epoch` is the part of them in which training reads its data
    from the disk; None where all samples are read alike.
    """

    samples: float
    hours: Span
    first_epoch: Span | None = None

    def shared_by(self, count: float) -> RunTime:
        """The run split evenly over so many instances, each of which reads its part."""
        if count == 1:
            return self
        share = 1 / count
        first = self.first_epoch.times(share) if self.first_epoch else None
        return RunTime(samples=self.samples, hours=self.hours.times(share), first_epoch=first)
