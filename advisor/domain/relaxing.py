"""What to ask for instead, where nothing is what was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.records import dataclass

if TYPE_CHECKING:
    from advisor.domain.decision import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One constraint of a request, changed as little as it takes.

    `constraint` is its name in a request; `before` and `after` are what `option` takes, None
    where it is left out.
    """

    constraint: str
    option: str
    before: str
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation:
    """Changes that together make something answer, and what is recommended then."""

    changes: tuple[Change, ...]
    gives: Candidate
