"""What a suite of the accuracy benchmark returns, and errors in percent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import ArrayLike

SCHEMA = "advisor.accuracy/1"


class Figures(Struct, frozen=True, kw_only=True):
    """Absolute percentage errors of one variant or baseline over `n` scored rows.

    `groups` are mean errors by group (a network, a pair of instances, a GPU), percent.
    """

    name: str
    n: int
    mape_percent: float
    median_percent: float
    p90_percent: float
    groups: Mapping[str, float] = field(default_factory=dict)

    @property
    def worst_group(self) -> dict[str, Any] | None:
        """The group with the largest mean error."""
        if not self.groups:
            return None
        name = max(self.groups, key=lambda group: self.groups[group])
        return {"group": name, "mape_percent": round(self.groups[name], 2)}

    def as_document(self) -> dict[str, Any]:
        """The figures as JSON has them."""
        return {
            "name": self.name,
            "n": self.n,
            "mape_percent": round(self.mape_percent, 2),
            "median_percent": round(self.median_percent, 2),
            "p90_percent": round(self.p90_percent, 2),
        }


class SuiteResult(Struct, frozen=True, kw_only=True):
    """`main` is the hard variant. `extra` holds what only this suite has (coverage by network,
    share of exact choices ..), `skipped` says in words what was not scored and why."""

    suite: str
    main: Figures
    variants: Sequence[Figures] = ()
    baselines: Sequence[Figures] = ()
    coverage: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    skipped: Sequence[str] = ()

    def as_document(self) -> dict[str, Any]:
        """One entry of the benchmark's `suites`."""
        figures = self.main.as_document()
        figures.pop("name")
        return {
            "suite": self.suite,
            **figures,
            "worst_group": self.main.worst_group,
            "coverage": self.coverage,
            "baselines": [one.as_document() for one in self.baselines],
            "variants": [one.as_document() for one in self.variants],
            **self.extra,
            "skipped": list(self.skipped),
        }


class NothingToScore(Exception):
    """The suite's files are missing, or hold no row that can be scored; says which."""


def figures(name: str, predicted: ArrayLike, true: ArrayLike, groups: Sequence[str] = ()) -> Figures:
    """Errors |predicted / true - 1|; `groups` names the group of every row, where given."""
    errors = 100 * np.abs(np.asarray(predicted, float) / np.asarray(true, float) - 1)
    labels = np.asarray(groups)
    return Figures(
        name=name,
        n=len(errors),
        mape_percent=float(np.mean(errors)),
        median_percent=float(np.median(errors)),
        p90_percent=float(np.quantile(errors, 0.9)),
        groups={str(group): float(np.mean(errors[labels == group])) for group in np.unique(labels)},
    )
