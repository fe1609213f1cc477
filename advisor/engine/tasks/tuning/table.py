"""Options as rows of columns: tokens a second, hours and dollars of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from advisor.domain import Spec
from advisor.domain.language import FineTuningCandidate, TuningMemoryUse
from advisor.domain.results import Span
from advisor.domain.words import Link
from advisor.engine.columns import OptionTable
from advisor.engine.tasks.tuning.options import TuningOption
from advisor.models.language.finetuning.predictor import Settled
from advisor.models.language.finetuning.tuning import Checkpointing
from advisor.questions.language import TuningQuestion

if TYPE_CHECKING:
    from advisor.engine.model import Floats
    from advisor.models.language.finetuning.predictor import FineTuningPredictor


class TuningTable(OptionTable[TuningOption], frozen=True, kw_only=True):
    """Options as columns (n,)."""

    @property
    def rates(self) -> Floats:
        """Tokens a second (3, n): lower bound, median, upper bound."""
        return np.array([option.rates for option in self.options]).T

    def hours(self, request: TuningQuestion) -> Floats:
        """Hours of the run and of the start (3, n): at worst, at the median, at best."""
        return np.asarray(request.start_hours + request.tokens / self.rates / 3600)

    def run_usd(self, request: TuningQuestion) -> Floats:
        """Dollars of the run (3, n), likewise."""
        return np.asarray(self.hours(request) * self.usd)

    def candidate(
        self, request: TuningQuestion, row: int, predictor: FineTuningPredictor
    ) -> FineTuningCandidate:
        """A row as a record."""
        option = self.options[row]
        tuning = option.settled.tuning
        lower, median, upper = self.rates[:, row].tolist()
        longest, usual, shortest = self.hours(request)[:, row].tolist()
        return FineTuningCandidate(
            spec=Spec(offer=option.offer, disk=option.disk, count=1),
            model=request.model,
            method=request.method,
            gpus_used=tuning.gpus,
            link=Link(tuning.link),
            micro_batch=int(tuning.micro_batch or 1),
            checkpointing=tuning.checkpointing != Checkpointing.NONE,
            memory=memory_use(option.settled),
            tokens_per_second=Span(lower=lower, median=median, upper=upper),
            hours=Span(lower=shortest, median=usual, upper=longest),
            calibrated=option.calibrated,
            extrapolation=predictor.unmeasured(tuning),
            notes=option.notes,
            withheld=predictor.withheld(tuning),
        )


def memory_use(settled: Settled) -> TuningMemoryUse:
    """The parts of each GPU's memory, as documents have them."""
    memory = settled.memory
    return TuningMemoryUse(
        weights_gib=memory.weights_gib,
        gradients_gib=memory.gradients_gib,
        optimizer_gib=memory.optimiser_gib,
        activations_gib=memory.activations_gib,
        overhead_gib=memory.overhead_gib,
        free_gib=settled.tuning.gpu.memory_gib - memory.total_gib,
    )
