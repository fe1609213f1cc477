"""What to relax where nothing meets a request about serving."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from advisor.domain import Relaxation
from advisor.domain.language import GenerationRecommendation, GenerationRequest
from advisor.engine.constraints import Amount, Answers, Constraint
from advisor.engine.language.decision import recommend_serving
from advisor.engine.language.prepared import ServingPreparations
from advisor.engine.language.rates import Level
from advisor.engine.language.table import ServingTable
from advisor.engine.limits import MOST_INSTANCES
from advisor.engine.place_constraints import Choice, of_place
from advisor.engine.relaxed import Effort, cheapest_relaxations

if TYPE_CHECKING:
    from advisor.engine.model import Floats


def serving_relaxations(
    answer: GenerationRecommendation,
    preparations: ServingPreparations,
    *,
    today: date,
    effort: Effort | None = None,
) -> tuple[Relaxation, ...]:
    """What would make something answer, cheapest first; empty where something does already."""
    if answer.chosen is not None:
        return ()
    request = answer.request
    return cheapest_relaxations(
        request,
        list(_constraints(request)),
        _Asking(preparations, effort or Effort()),
        lambda relaxed: recommend_serving(relaxed, preparations, today=today).chosen,
    )


class _Asking(NamedTuple):
    """The decision, asked about changed requests."""

    preparations: ServingPreparations
    effort: Effort

    def answers(self, request: GenerationRequest) -> ServingTable | None:
        """Every way that answers a request; None where none does."""
        self.effort.require()
        table = self.preparations.of(request).table(request)
        self.effort.spend(0 if table is None else len(table))
        if table is None or not (good := table.answering()).any():
            return None
        return table.take(good)

    def capability_of(self, gpu_name: str | None) -> float | None:
        """CUDA compute capability of a GPU."""
        return self.preparations.catalog.capability_of(gpu_name)


class _Amount(Amount):
    """Tokens, requests, dollars or time of a serving request."""

    def needs(self, found: Answers) -> Floats:
        """The limit with which each row just answers."""
        table: ServingTable = found.table
        rates, request = table.solved.rates, table.request
        values = {
            "target_output_tokens_per_second": table.most_output,
            "target_requests_per_second": table.most_output / request.output_tokens,
            "max_usd_per_hour": table.usd,
            "max_ttft_ms": 1000 * rates.ttft[Level.SURE],
            "max_tpot_ms": 1000 * rates.tpot[Level.SURE],
            "max_e2e_seconds": rates.e2e(request.output_tokens)[Level.SURE],
            "max_ready_seconds": np.array([way.ready.upper_seconds for way in table.ways]),
        }
        return np.asarray(values[self.name])


class _Whole(_Amount):
    """Users, tokens of a sequence, or instances: counted, not measured."""

    def rounded(self, value: float) -> float:
        """A whole number that keeps the limit."""
        return float(math.ceil(value) if self.most else max(1, math.floor(value)))

    def put(self, request: Any, value: Any) -> Any:
        """The request with another value."""
        whole = math.ceil(min(value, MOST_INSTANCES) if self.most else max(value, 1))
        return super().put(request, whole)

    def needs(self, found: Answers) -> Floats:
        """The limit with which each row just answers."""
        table: ServingTable = found.table
        if self.name == "max_count":
            return table.count.astype(float)
        if self.name == "users":
            return table.at_once * table.solved.most.concurrency
        return np.array([float(way.memory.longest_context) for way in table.ways])


def _constraints(request: GenerationRequest) -> Iterator[Constraint]:
    """Every constraint that is set, and the place, market and confidence, which always are."""
    amounts = (
        _Amount("target_output_tokens_per_second", "--target-throughput", most=False),
        _Amount("target_requests_per_second", "--target-requests-per-s", most=False),
        _Whole("users", "--users", most=False),
        _Amount("max_usd_per_hour", "--max-price"),
        _Amount("max_ttft_ms", "--max-ttft-ms"),
        _Amount("max_tpot_ms", "--max-tpot-ms"),
        _Amount("max_e2e_seconds", "--max-e2e-s"),
        _Whole("context_tokens", "--max-context", most=False),
        _Amount("max_ready_seconds", "--max-ready-s"),
    )
    yield from (one for one in amounts if getattr(request, one.name) is not None)
    if request.targets:
        yield _Whole("max_count", "--max-count")
    yield from of_place(request, Choice("tensor_parallel", "--tensor-parallel", None))
