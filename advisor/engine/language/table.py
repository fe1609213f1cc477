"""Ways to serve as rows of columns: what each does, on how many instances, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from advisor.domain import Offer, Spec
from advisor.domain.generation import KvPrecision, LlmEngine, LlmPrecision, ServingBind
from advisor.domain.language import MOST_SEQUENCES, GenerationCandidate, GenerationRequest, ServingRates
from advisor.engine.language.loads import Solved
from advisor.engine.language.rates import Level, Rates, rate_span, time_span
from advisor.engine.language.ways import Way
from advisor.engine.limits import Limit

if TYPE_CHECKING:
    from advisor.engine.language.model import ServingModel
    from advisor.engine.model import Booleans, Floats, Integers

# Requests that arrive at more than this part of what is answered wait for each other: mean time to
# the first token is 1.5 of an idle server's below 60 % of its capacity and 1.9 above 80 %
# (TensorRT-LLM's open-loop tables).
_BUSY = 0.8


class ServingTable(Struct, frozen=True, kw_only=True):
    """Ways as columns (n,). `kind` numbers the instance types, `names` are theirs; rates of
    `solved` are one replica's."""

    request: GenerationRequest
    ways: Sequence[Way]
    solved: Solved
    names: Any
    kind: Integers
    option: Integers
    disk: Any
    usd_each: Floats
    replicas: Floats

    @classmethod
    def of(cls, request: GenerationRequest, ways: Sequence[Way], solved: Solved) -> ServingTable:
        """The table of some ways, one at least."""
        numbers: dict[tuple[str, str], int] = {}
        kind = [numbers.setdefault(way.kind, len(numbers)) for way in ways]
        disks = np.empty(len(ways), dtype=object)
        disks[:] = [way.disk for way in ways]
        names = np.array([name for _, name in numbers], dtype=object)
        usd = [way.offer.price.usd_per_hour + way.disk.usd_per_hour for way in ways]
        return cls(
            request=request,
            ways=ways,
            solved=solved,
            names=names,
            kind=np.array(kind),
            option=np.arange(len(ways)),
            disk=disks,
            usd_each=np.array(usd),
            replicas=np.array([way.placement.replicas for way in ways], dtype=float),
        )

    def __len__(self) -> int:
        return len(self.ways)

    @property
    def count(self) -> Integers:
        """Instances."""
        return self.solved.count

    @property
    def usd(self) -> Floats:
        """All instances and disks, an hour."""
        return self.count * self.usd_each

    @property
    def tensor_parallel(self) -> list[int]:
        """GPUs that each replica is split over."""
        return [way.placement.tensor_parallel for way in self.ways]

    @property
    def at_once(self) -> Floats:
        """Replicas of all instances."""
        return self.count * self.replicas

    @property
    def most_output(self) -> Floats:
        """Output tokens a second of all instances at the largest load that keeps the limits, by
        the bound that counts."""
        return np.asarray(self.at_once * self.solved.most.output[Level.SURE])

    @property
    def cost(self) -> Floats:
        """What rows rank by: the price by the hour for a target, else that of a million output
        tokens at the median."""
        if self.request.ranks_by_price:
            return self.usd
        output = self.at_once * self.solved.rates.output[Level.MEDIAN]
        return np.asarray(self.usd / (output * 3600) * 1e6)

    @property
    def limits(self) -> list[Limit]:
        """The limits that are set, in the order in which a type is judged."""
        found = list(self.solved.limits)
        most = self.request.max_usd_per_hour
        if most is not None:
            found.append(Limit("over_max_price", self.usd <= most, -self.usd))
        return found

    def answering(self, *, but_for: Sequence[str] = ()) -> Booleans:
        """Which rows may be recommended, whatever they make of the limits `but_for`."""
        keeps = np.ones(len(self), dtype=bool)
        for limit in self.limits:
            if limit.reason not in but_for:
                keeps &= limit.keeps
        return keeps

    def offers(self) -> list[Offer]:
        """What `option` numbers."""
        return [way.offer for way in self.ways]

    def offer(self, at: int) -> Offer:
        """A row's offer."""
        return self.ways[at].offer

    def take(self, rows: Integers | Booleans) -> ServingTable:
        """Some of the rows."""
        at = np.arange(len(self))[rows]
        solved = self.solved
        return replace(
            self,
            ways=[self.ways[one] for one in at.tolist()],
            solved=Solved(
                solved.count[at],
                solved.rates.take((at,)),
                solved.most.take((at,)),
                tuple(Limit(one.reason, one.keeps[at], one.nearness[at]) for one in solved.limits),
            ),
            kind=self.kind[at],
            option=np.arange(len(at)),
            disk=self.disk[at],
            usd_each=self.usd_each[at],
            replicas=self.replicas[at],
        )

    def candidate(self, at: int, predictor: ServingModel) -> GenerationCandidate:
        """A row as a record."""
        way, solved, request = self.ways[at], self.solved, self.request
        deployment, count = way.deployment, int(self.count[at])
        place = (np.array(at),)
        rates, most = solved.rates.take(place), solved.most.take(place)
        replicas = busy = float(self.at_once[at])
        if request.users is not None:  # not all replicas have one user more
            busy = min(replicas, request.users / float(rates.concurrency))
        return GenerationCandidate(
            spec=Spec(offer=way.offer, disk=way.disk, count=count),
            placement=way.placement,
            model=request.model,
            precision=LlmPrecision(deployment.precision),
            kv_precision=KvPrecision(deployment.kv_precision),
            engine=LlmEngine(deployment.engine),
            engine_version=predictor.engine_version(deployment.engine),
            input_tokens=request.input_tokens,
            output_tokens=request.output_tokens,
            memory=way.memory,
            rates=rates_record(request, rates, busy),
            most=rates_record(request, most, replicas),
            ready=way.ready,
            binds=self._binds(at, rates),
            offered_requests_per_second=request.target_requests_per_second,
            calibrated=bool(rates.calibrated),
            extrapolation=predictor.unmeasured(deployment),
            notes=way.notes,
        )

    def _binds(self, at: int, rates: Rates) -> ServingBind:
        """What holds the row back: the load where requests arrive almost as fast as they are
        answered, memory where it holds no more sequences though the engine would, else what its
        step is bound by."""
        request, way = self.request, self.ways[at]
        share = float(rates.output[Level.MEDIAN] / self.solved.most.output[Level.MEDIAN, at])
        if request.target_requests_per_second is not None and share > _BUSY:
            return ServingBind.LOAD
        held = min(way.memory.largest_concurrency, MOST_SEQUENCES)
        if held < MOST_SEQUENCES and float(rates.concurrency) >= held:
            return ServingBind.MEMORY
        return ServingBind(str(rates.binds))


def rates_record(request: GenerationRequest, rates: Rates, replicas: float) -> ServingRates:
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
