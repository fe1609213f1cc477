"""Options as rows of columns: what each does, on how many instances, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from advisor.domain import Spec
from advisor.domain.generation import KvPrecision, LlmEngine, LlmPrecision, ServingBind
from advisor.domain.language import MOST_SEQUENCES, GenerationCandidate, ServingRates
from advisor.engine.columns import OptionTable, option_columns
from advisor.engine.limits import Limit
from advisor.engine.tasks.serving.loads import ServingLoad
from advisor.engine.tasks.serving.options import ServingOption
from advisor.engine.tasks.serving.rates import Level, Rates, rate_span, time_span
from advisor.questions.language import ServingQuestion

if TYPE_CHECKING:
    from advisor.engine.model import Booleans, Floats, Integers
    from advisor.engine.tasks.serving.model import ServingModel

# Requests that arrive at more than this part of what is answered wait for each other: mean time to
# the first token is 1.5 of an idle server's below 60 % of its capacity and 1.9 above 80 %
# (TensorRT-LLM's open-loop tables).
_BUSY = 0.8


class ServingTable(OptionTable[ServingOption], frozen=True, kw_only=True):
    """Options as columns (n,), solved for a request; rates of `load` are one replica's."""

    load: ServingLoad

    @classmethod
    def of(cls, options: Sequence[ServingOption], load: ServingLoad) -> ServingTable:
        """The table of some options, one at least."""
        return cls(load=load, **option_columns(options))

    @property
    def count(self) -> Integers:
        """Instances."""
        return self.load.count

    @property
    def usd(self) -> Floats:
        """All instances and disks, an hour."""
        return np.asarray(self.count * self.usd_each)

    @property
    def at_once(self) -> Floats:
        """Replicas of all instances."""
        return np.asarray(self.count * [option.placement.replicas for option in self.options], dtype=float)

    @property
    def most_output(self) -> Floats:
        """Output tokens a second of all instances at the largest load that keeps the limits, by
        the bound that counts."""
        return np.asarray(self.at_once * self.load.most.output[Level.SURE])

    def limits(self, request: ServingQuestion) -> list[Limit]:
        """The limits that are set, in the order in which a type is judged."""
        found = list(self.load.limits)
        most = request.max_usd_per_hour
        if most is not None:
            found.append(Limit("over_max_price", self.usd <= most, -self.usd))
        return found

    def take(self, rows: Integers | Booleans) -> ServingTable:
        """Some of the rows."""
        some, load = np.arange(len(self))[rows], self.load
        return replace(
            self,
            **self.columns_of(some),
            load=ServingLoad(
                load.count[some],
                load.rates.take((some,)),
                load.most.take((some,)),
                tuple(Limit(one.reason, one.keeps[some], one.nearness[some]) for one in load.limits),
            ),
        )

    def candidate(self, request: ServingQuestion, row: int, predictor: ServingModel) -> GenerationCandidate:
        """A row as a record."""
        option, load = self.options[row], self.load
        deployment, count = option.deployment, int(self.count[row])
        place = (np.array(row),)
        rates, most = load.rates.take(place), load.most.take(place)
        replicas = busy = float(self.at_once[row])
        if request.users is not None:  # not all replicas have one user more
            busy = min(replicas, request.users / float(rates.concurrency))
        return GenerationCandidate(
            spec=Spec(offer=option.offer, disk=option.disk, count=count),
            placement=option.placement,
            model=request.model,
            precision=LlmPrecision(deployment.precision),
            kv_precision=KvPrecision(deployment.kv_precision),
            engine=LlmEngine(deployment.engine),
            engine_version=predictor.engine_version(deployment.engine),
            input_tokens=request.input_tokens,
            output_tokens=request.output_tokens,
            memory=option.memory,
            rates=rates_record(request, rates, busy),
            most=rates_record(request, most, replicas),
            ready=option.ready,
            binds=self._binds(request, row, rates),
            offered_requests_per_second=request.target_requests_per_second,
            calibrated=bool(rates.calibrated),
            extrapolation=predictor.unmeasured(deployment),
            notes=option.notes,
        )

    def _binds(self, request: ServingQuestion, row: int, rates: Rates) -> ServingBind:
        """What holds the row back: the load where requests arrive almost as fast as they are
        answered, memory where it holds no more sequences though the engine would, else what its
        step is bound by."""
        option = self.options[row]
        share = float(rates.output[Level.MEDIAN] / self.load.most.output[Level.MEDIAN, row])
        if request.target_requests_per_second is not None and share > _BUSY:
            return ServingBind.LOAD
        held = min(option.memory.largest_concurrency, MOST_SEQUENCES)
        if held < MOST_SEQUENCES and float(rates.concurrency) >= held:
            return ServingBind.MEMORY
        return ServingBind(str(rates.binds))


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
