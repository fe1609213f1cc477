"""Where specs are rented, and how their prices are known, for tables in which that differs."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.domain import LIST, Candidate


def place_texts(shown: Sequence[Candidate]) -> list[str]:
    """'ap-south-1, estimated' for each; empty where all stand in one region, priced one way.

    A price that its seller lists has no word after it.
    """
    offers = [one.spec.offer for one in shown]
    if len({(one.region, one.price.kind) for one in offers}) < 2:
        return []
    return [
        one.region if one.price.kind == LIST else f"{one.region}, {one.price.kind}"
        for one in offers
    ]
