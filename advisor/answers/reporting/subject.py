"""What a section of a report is about: a spec, with the context that it was found in."""

from __future__ import annotations

from typing import NamedTuple

from advisor.answers.context import Context
from advisor.domain import Candidate, InstanceType
from advisor.questions.network import NetworkQuestion


class Subject(NamedTuple):
    """A question, the spec that is told of (the chosen one, else the nearest), and its context."""

    context: Context
    request: NetworkQuestion
    candidate: Candidate

    @property
    def instance(self) -> InstanceType:
        """The type of the spec."""
        return self.candidate.spec.offer.instance

    @property
    def machines(self) -> int:
        """How many of it work side by side."""
        return self.candidate.spec.count
