"""What to relax where nothing tunes as it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from advisor.domain import Relaxation
from advisor.domain.tuning import FineTuningRecommendation, FineTuningRequest
from advisor.engine.constraints import Amount, Answers, Constraint
from advisor.engine.language.tuning.decision import Preparations, recommend_tuning
from advisor.engine.language.tuning.table import TuningTable
from advisor.engine.language.tuning.ways import tuning_ways
from advisor.engine.place_constraints import Choice, of_place
from advisor.engine.relaxed import Effort, cheapest_relaxations

if TYPE_CHECKING:
    from advisor.engine.model import Floats


def tuning_relaxations(
    answer: FineTuningRecommendation, preparations: Preparations, *, today: date, effort: Effort | None = None
) -> tuple[Relaxation, ...]:
    """What would make something answer, cheapest first; empty where something does already."""
    if answer.chosen is not None:
        return ()
    request = answer.request
    return cheapest_relaxations(
        request,
        list(_constraints(request)),
        _Asking(preparations, effort or Effort()),
        lambda relaxed: recommend_tuning(relaxed, preparations, today=today).chosen,
    )


class _Asking(NamedTuple):
    """The decision, asked about changed requests."""

    preparations: Preparations
    effort: Effort

    def answers(self, request: FineTuningRequest) -> TuningTable | None:
        """Every way that answers a request; None where none does."""
        self.effort.require()
        ways = tuning_ways(request, *self.preparations).ways
        self.effort.spend(len(ways))
        table = TuningTable.of(request, ways) if ways else None
        if table is None or not (good := table.answering()).any():
            return None
        return table.take(good)

    def capability_of(self, gpu_name: str | None) -> float | None:
        """CUDA compute capability of a GPU."""
        return self.preparations.catalog.capability_of(gpu_name)


class _Amount(Amount):
    """Tokens, hours or dollars of a run."""

    def needs(self, found: Answers) -> Floats:
        """The limit with which each row just answers."""
        table: TuningTable = found.table
        values = {
            "target_tokens_per_second": table.rates[0],
            "max_hours": table.hours[0],
            "max_run_usd": table.run_usd[0],
            "max_usd_per_hour": table.usd,
        }
        return np.asarray(values[self.name])


def _constraints(request: FineTuningRequest) -> Iterator[Constraint]:
    """Every constraint that is set, and the place, market and confidence, which always are."""
    amounts = (
        _Amount("target_tokens_per_second", "--target-throughput", most=False),
        _Amount("max_hours", "--max-hours"),
        _Amount("max_run_usd", "--max-cost"),
        _Amount("max_usd_per_hour", "--max-price"),
    )
    yield from (one for one in amounts if getattr(request, one.name) is not None)
    yield from of_place(request, Choice("micro_batch", "--micro-batch", None))
