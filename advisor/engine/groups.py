"""Offers that were judged together, and what those do that run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from advisor.domain import Candidate, Offer, Rejected, Request
from advisor.engine.candidates import Runnable
from advisor.engine.field import Field, TypeField

Judged = tuple[Offer, Runnable | Rejected]


class Group:
    """Judged offers, and the types of those that run."""

    def __init__(self, judged: Sequence[Judged], types: Sequence[TypeField]) -> None:
        self.judged = judged
        self._types = types

    @classmethod
    def joined(cls, groups: Sequence[Group]) -> Group:
        """Several as one."""
        return cls(
            [judged for one in groups for judged in one.judged],
            [kind for one in groups for kind in one._types],
        )

    def of(self, name: str) -> Group:
        """What it has of one type."""
        return Group(
            [one for one in self.judged if one[0].instance.name == name],
            [one for one in self._types if one.name == name],
        )

    @cached_property
    def field(self) -> Field:
        """What the types do with the catalogue's coarse disks."""
        return Field(self._types)

    @cached_property
    def not_runnable(self) -> list[Rejected]:
        """One reason for each type that runs in none of its regions: that of its cheapest one."""
        found: dict[tuple[str, str], Runnable | Rejected] = {}
        for offer, verdict in self.judged:
            key = offer.instance.cloud, offer.instance.name
            if isinstance(verdict, Runnable) or key not in found:
                found[key] = verdict
        return [one for one in found.values() if isinstance(one, Rejected)]


def types_of(
    request: Request, options: Sequence[Runnable], candidates: Iterable[Candidate]
) -> list[TypeField]:
    """Options and candidates by type."""
    found: dict[tuple[str, str], tuple[list[Runnable], list[Candidate]]] = {}
    for option in options:
        found.setdefault(_type(option.offer), ([], []))[0].append(option)
    for one in candidates:
        found[_type(one.spec.offer)][1].append(one)
    return [TypeField(request, *one) for one in found.values()]


def options_of(judged: Iterable[Judged]) -> list[Runnable]:
    """Those that can run what is asked."""
    return [one for _, one in judged if isinstance(one, Runnable)]


def _type(offer: Offer) -> tuple[str, str]:
    return offer.instance.cloud, offer.instance.name
