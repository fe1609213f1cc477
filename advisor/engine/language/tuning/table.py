"""Ways to tune as rows of columns: hours and dollars of the run, and which limits they keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from advisor.domain import Offer, Spec
from advisor.domain.generation import Link
from advisor.domain.runs import Span
from advisor.domain.tuning import FineTuningCandidate, FineTuningRequest, TuningMemoryUse
from advisor.engine.language.tuning.ways import TuningWay
from advisor.engine.limits import Limit
from advisor.models.language.finetuning import Checkpointing, Settled, Sharding

if TYPE_CHECKING:
    from advisor.engine.model import Booleans, Floats, Integers
    from advisor.models.language.finetuning import FineTuningPredictor


class TuningTable(Struct, frozen=True, kw_only=True):
    """Ways as columns (n,). `kind` numbers the instance types, `names` are theirs; `rates` (3, n)
    are tokens a second: lower bound, median, upper bound."""

    request: FineTuningRequest
    ways: Sequence[TuningWay]
    names: Any
    kind: Integers
    option: Integers
    disk: Any
    usd: Floats
    rates: Floats
    calibrated: Booleans

    @classmethod
    def of(cls, request: FineTuningRequest, ways: Sequence[TuningWay]) -> TuningTable:
        """The table of some ways, one at least."""
        numbers: dict[tuple[str, str], int] = {}
        kind = [numbers.setdefault(way.kind, len(numbers)) for way in ways]
        disks = np.empty(len(ways), dtype=object)
        disks[:] = [way.disk for way in ways]
        usd = [way.offer.price.usd_per_hour + way.disk.usd_per_hour for way in ways]
        return cls(
            request=request,
            ways=ways,
            kind=np.array(kind),
            option=np.arange(len(ways)),
            names=np.array([name for _, name in numbers], dtype=object),
            disk=disks,
            usd=np.array(usd),
            rates=np.array([way.rates for way in ways]).T,
            calibrated=np.array([way.calibrated for way in ways]),
        )

    def __len__(self) -> int:
        return len(self.ways)

    @property
    def count(self) -> Integers:
        """Instances: a run has one."""
        return np.ones(len(self), dtype=np.intp)

    @property
    def hours(self) -> Floats:
        """Hours of the run (3, n): at worst, at the median, at best."""
        return np.asarray(self.request.tokens / self.rates / 3600)

    @property
    def run_usd(self) -> Floats:
        """Dollars of the run (3, n), likewise."""
        return np.asarray(self.hours * self.usd)

    @property
    def cost(self) -> Floats:
        """What rows rank by: the price by the hour for a target, else that of the run."""
        if self.request.ranks_by_price:
            return self.usd
        return np.asarray(self.run_usd[1])

    @property
    def limits(self) -> list[Limit]:
        """The limits that are set, in the order in which a type is judged."""
        request, found = self.request, list[Limit]()
        if not request.allow_extrapolation:
            found.append(Limit("uncalibrated", self.calibrated, self.rates[0]))
        target = request.target_tokens_per_second
        if target is not None:
            found.append(Limit("too_slow", self.rates[0] >= target, self.rates[0]))
        for reason, most, values in (
            ("too_long", request.max_hours, self.hours[0]),
            ("over_max_cost", request.max_run_usd, self.run_usd[0]),
            ("over_max_price", request.max_usd_per_hour, self.usd),
        ):
            if most is not None:
                found.append(Limit(reason, values <= most, -values))
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

    def take(self, rows: Integers | Booleans) -> TuningTable:
        """Some of the rows."""
        at = np.arange(len(self))[rows]
        return replace(
            self,
            ways=[self.ways[one] for one in at.tolist()],
            kind=self.kind[at],
            option=np.arange(len(at)),
            disk=self.disk[at],
            usd=self.usd[at],
            rates=self.rates[:, at],
            calibrated=self.calibrated[at],
        )

    def candidate(self, at: int, predictor: FineTuningPredictor) -> FineTuningCandidate:
        """A row as a record."""
        way, request = self.ways[at], self.request
        tuning = way.settled.tuning
        lower, median, upper = self.rates[:, at].tolist()
        longest, usual, shortest = self.hours[:, at].tolist()
        return FineTuningCandidate(
            spec=Spec(offer=way.offer, disk=way.disk, count=1),
            model=request.model,
            method=request.method,
            gpus_used=tuning.gpus,
            link=Link(tuning.link),
            micro_batch=int(tuning.micro_batch or 1),
            checkpointing=tuning.checkpointing != Checkpointing.NONE,
            sharded=tuning.gpus > 1 and tuning.sharding != Sharding.NONE,
            memory=memory_use(way.settled),
            tokens_per_second=Span(lower=lower, median=median, upper=upper),
            hours=Span(lower=shortest, median=usual, upper=longest),
            calibrated=bool(self.calibrated[at]),
            extrapolation=predictor.unmeasured(tuning),
            notes=way.notes,
        )


def memory_use(settled: Settled) -> TuningMemoryUse:
    """What lies in each GPU's memory, as documents have it."""
    memory = settled.memory
    return TuningMemoryUse(
        weights_gib=memory.weights_gib,
        gradients_gib=memory.gradients_gib,
        optimizer_gib=memory.optimiser_gib,
        activations_gib=memory.activations_gib,
        overhead_gib=memory.overhead_gib,
        free_gib=settled.tuning.gpu.memory_gib - memory.total_gib,
    )
