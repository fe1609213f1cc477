"""Options as rows of columns: what each does, on how many instances, and what that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from advisor.domain import Span, Spec
from advisor.domain.language import GenerationCandidate, ServingRates, most_sequences
from advisor.domain.words import PERCENTILES, KvPrecision, LlmEngine, LlmPrecision, ServingBind
from advisor.engine.columns import OptionTable, option_columns
from advisor.engine.limits import Limit
from advisor.engine.tasks.serving.options import ServingOption
from advisor.engine.tasks.serving.rates import Level, Rates, rate_span, time_span
from advisor.questions.language import ServingQuestion

if TYPE_CHECKING:
    from advisor.engine.model import Booleans, Floats, Integers
    from advisor.models.language.serving import ServingPredictor

# Requests that arrive at more than this part of what is answered wait for each other: mean time to
# the first token is 1.5 of an idle server's below 60 % of its capacity and 1.9 above 80 %
# (TensorRT-LLM's open-loop tables).
_BUSY = 0.8


class ServingTable(OptionTable[ServingOption], frozen=True, kw_only=True):
    """Options as columns (n,), solved for a request, with as many instances as each needs (as many
    as may be had, where those are too few). `rates` are of one replica at the load that it then has,
    `most` at the largest load that keeps the limits; `limits` of load and times are in the order in
    which they are judged."""

    count: Integers
    rates: Rates
    most: Rates
    limits: tuple[Limit, ...]

    @property
    def at_once(self) -> Floats:
        """Replicas of all instances."""
        return np.asarray(self.count * [option.placement.replicas for option in self.options], dtype=float)

    def busy(self, request: ServingQuestion) -> Floats:
        """Replicas under the load of `rates`: not all have one user more."""
        if request.users is None:
            return self.at_once
        return np.minimum(self.at_once, request.users / self.rates.concurrency)

    def most_output(self, level: Level) -> Floats:
        """Output tokens a second of all instances at the largest load that keeps the limits."""
        return np.asarray(self.at_once * self.most.output[level])

    def beside(self, other: ServingTable) -> ServingTable:
        """These rows, then those of another table of the same limits."""
        columns = option_columns([*self.options, *other.options])
        return replace(
            self,
            **columns,
            count=np.concatenate([self.count, other.count]),
            rates=self.rates.beside(other.rates),
            most=self.most.beside(other.most),
            limits=tuple(
                Limit(
                    own.reason,
                    np.concatenate([own.keeps, more.keeps]),
                    np.concatenate([own.nearness, more.nearness]),
                )
                for own, more in zip(self.limits, other.limits, strict=True)
            ),
        )

    def take(self, rows: Integers | Booleans) -> ServingTable:
        """Some of the rows."""
        some = np.arange(len(self))[rows]
        return replace(
            super().take(some),
            count=self.count[some],
            rates=self.rates.take((some,)),
            most=self.most.take((some,)),
            limits=tuple(
                Limit(limit.reason, limit.keeps[some], limit.nearness[some]) for limit in self.limits
            ),
        )

    def candidate(
        self, request: ServingQuestion, row: int, predictor: ServingPredictor
    ) -> GenerationCandidate:
        """A row as a record."""
        option, index = self.options[row], (np.array(row),)
        deployment = option.deployment
        rates, most = self.rates.take(index), self.most.take(index)
        replicas, busy = float(self.at_once[row]), float(self.busy(request)[row])
        return GenerationCandidate(
            spec=Spec(offer=option.offer, disk=option.disk, count=int(self.count[row])),
            placement=option.placement,
            model=request.model,
            precision=LlmPrecision(deployment.precision),
            kv_precision=KvPrecision(deployment.kv_precision),
            engine=LlmEngine(deployment.engine),
            engine_version=predictor.engine_version(deployment.engine),
            input_tokens=request.input_tokens,
            output_tokens=request.output_tokens,
            memory=option.memory,
            rates=replace(rates_record(request, rates, busy), tails=tails_record(request, rates)),
            most=rates_record(request, most, replicas),
            ready=option.ready,
            binds=_binding(request, option, rates, float(most.output[Level.MEDIAN])),
            offered_requests_per_second=request.target_requests_per_second,
            calibrated=bool(rates.calibrated),
            extrapolation=predictor.unmeasured(deployment),
            notes=option.notes,
            withheld=predictor.withheld(deployment, float(rates.concurrency)),
            api_usd_per_million_tokens=request.api_usd_per_million_tokens,
        )


def _binding(
    request: ServingQuestion, option: ServingOption, rates: Rates, most_output: float
) -> ServingBind:
    """The cause that holds an option back: the load where requests arrive almost as fast as they are
    answered, memory where it holds no more sequences though the engine would, else the bound of its step.
    """
    if request.target_requests_per_second is not None and rates.output[Level.MEDIAN] / most_output > _BUSY:
        return ServingBind.LOAD
    most = most_sequences(request.engine)
    held = min(option.memory.largest_concurrency, most)
    if held < most and float(rates.concurrency) >= held:
        return ServingBind.MEMORY
    return ServingBind(str(rates.binds))


def tails_record(request: ServingQuestion, rates: Rates) -> tuple[tuple[Span, ...], ...]:
    """Times of one load at each percentile."""
    means = {"ttft": rates.ttft, "tpot": rates.tpot, "e2e": rates.e2e(request.output_tokens)}
    return tuple(
        tuple(time_span(values * rates.tail(time, percentile)) for percentile in PERCENTILES)
        for time, values in means.items()
    )


def rates_record(request: ServingQuestion, rates: Rates, replicas: float) -> ServingRates:
    """One load of one replica as that of all of them: they are alike, so that bounds add."""
    output = rate_span(rates.output)
    return ServingRates(
        concurrency=float(rates.concurrency) * replicas,
        output_tokens_per_second=output.times(replicas),
        requests_per_second=output.times(replicas / request.output_tokens),
        ttft_seconds=time_span(rates.ttft),
        tpot_seconds=time_span(rates.tpot),
        e2e_seconds=time_span(rates.e2e(request.output_tokens)),
    )
