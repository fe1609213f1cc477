"""Trials that an executor may measure, each once it has claimed it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from advisor.domain import Trial


class ClaimableTrials(Struct, frozen=True):
    """Trials in their order. `claimed` has those of some trials that are one's own to measure now;
    the others are somebody else's, or done.

    To iterate is to claim one after the other; who has several in flight claims what he has room
    for, all at once.
    """

    trials: Sequence[Trial]
    claimed: Callable[[Sequence[Trial]], list[Trial]] = list

    def __iter__(self) -> Iterator[Trial]:
        for trial in self.trials:
            yield from self.claimed([trial])


def claimable(trials: Iterable[Trial]) -> ClaimableTrials:
    """The offer, or one of trials that are one's own already."""
    return trials if isinstance(trials, ClaimableTrials) else ClaimableTrials(list(trials))
