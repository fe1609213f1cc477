"""The budget of the search for relaxations."""

from __future__ import annotations

from advisor.domain.decision import RELAXING_STOPPED
from advisor.messages import Message
from advisor.patience import STILL_WANTED, SpentError

# Most questions take a few thousand; one over all clouds and markets several hundred thousand.
_MOST_CANDIDATES = 100_000
_STOPPED = Message(
    "what to relax was not searched to its end: other or smaller changes may do too; a narrower "
    "cloud, market or region is searched whole",
    code=RELAXING_STOPPED,
)


class Effort:
    """The budget of the search for relaxations: a number of candidates, the same on every machine, and no
    more once nobody waits."""

    def __init__(self, candidates: int = _MOST_CANDIDATES) -> None:
        self._left = candidates
        self.was_stopped = False

    def require(self) -> None:
        """`SpentError` where no more may be looked at."""
        if self._left <= 0 or not STILL_WANTED.get()():
            self.was_stopped = True
            raise SpentError

    def spend(self, candidates: int) -> None:
        """Counts so many candidates."""
        self._left -= candidates

    @property
    def notes(self) -> tuple[Message, ...]:
        """The answer's note on a search that ended early."""
        is_whole = not self.was_stopped and STILL_WANTED.get()()
        return () if is_whole else (_STOPPED,)
