"""What a section of a report is about: a spec, with the context that it was found in."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

from advisor.answers.context import Context
from advisor.catalog import Catalog
from advisor.domain import Candidate, InstanceType, Recommendation, Request
from advisor.engine import PerformanceModel, Preparations, recommend
from advisor.engine.prepared import Prepared


class DatedSolver:
    """Answers as of one day; what questions of one workload share is prepared once."""

    def __init__(self, as_of: date) -> None:
        self.as_of = as_of
        self._known: Preparations | None = None

    def preparations(self, catalog: Catalog, model: PerformanceModel) -> Preparations:
        """What was prepared of them."""
        known = self._known
        if known is None or known.catalog is not catalog or known.model is not model:
            known = self._known = Preparations(catalog, model)
        return known

    def prepared(self, request: Request, catalog: Catalog, model: PerformanceModel) -> Prepared:
        """All that the target of the request does not change."""
        return self.preparations(catalog, model).of(request)

    def __call__(
        self, request: Request, catalog: Catalog, model: PerformanceModel
    ) -> tuple[Recommendation, Catalog]:
        """As `recommending.solve`, on the report's day."""
        return recommend(request, self.preparations(catalog, model), today=self.as_of), catalog


class Subject(NamedTuple):
    """A question, the spec that is told of (the chosen one, else the nearest), and its context."""

    context: Context
    request: Request
    one: Candidate
    as_of: date

    @property
    def instance(self) -> InstanceType:
        """The type of the spec."""
        return self.one.spec.offer.instance

    @property
    def machines(self) -> int:
        """How many of it work side by side."""
        return self.one.spec.count
