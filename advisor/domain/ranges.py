"""What may be from one number to another."""

from __future__ import annotations

from advisor.domain.checks import require_positive
from advisor.records import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `least` to `most`, both included; None leaves that end open."""

    least: float | None = None
    most: float | None = None

    def __post_init__(self) -> None:
        require_positive(least=self.least, most=self.most)
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError(f"nothing lies between {self.least:g} and {self.most:g}")

    @property
    def limits(self) -> bool:
        """Whether it leaves out anything at all."""
        return (self.least, self.most) != (None, None)

    def __contains__(self, value: float | None) -> bool:
        """What is not known lies in a range that leaves out nothing, and in no other."""
        if value is None:
            return not self.limits
        return (self.least is None or value >= self.least) and (
            self.most is None or value <= self.most
        )


ANY = Range()
