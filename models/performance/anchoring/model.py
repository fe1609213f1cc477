"""What a question with anchors is answered from: a performance model that heard them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from advisor.domain import Gpu, Workload
from models.performance.anchoring.own import OwnTable
from models.performance.anchoring.rates import AnchoredRates
from models.performance.anchoring.records import GpuTrial, is_same_card
from models.performance.gpu_rates import GpuRate, GpuRates
from models.performance.intervals import HalfWidths
from models.performance.model import PerformanceModel
from models.performance.networks import NetworkFacts, NetworkTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchored:
    """The GPU rates of one question: those heard, and those that were published."""

    heard: AnchoredRates
    published: GpuRates

    def rates(
        self,
        workload: Workload,
        gpu: Gpu,
        batch_sizes: Sequence[int],
        table: NetworkTable,
        confidence: float,
    ) -> list[GpuRate]:
        """Rates for each batch size on one GPU; the surer one where the cell was published.

        Raises ValueError for another network, task or precision than was measured.
        """
        asked, own = workload, self.heard.workload
        if (asked.network, asked.task, asked.precision) != (own.network, own.task, own.precision):
            raise ValueError(f"the anchors are of {own}, not of {asked}")
        found = self.heard.rates(gpu, batch_sizes, confidence)
        if self._stands(workload, gpu):
            return found
        shown = self.published.rates(workload, gpu, batch_sizes, table, confidence)
        return [surer(one, other) for one, other in zip(found, shown, strict=True)]

    def _stands(self, workload: Workload, gpu: Gpu) -> bool:
        """Whether nobody else measured this cell, or the user did."""
        own = any(is_same_card(trial.gpu, gpu) for trial in self.heard.trials)
        return own or self.published.anchor(workload, gpu) is None


def surer(anchored: GpuRate, published: GpuRate) -> GpuRate:
    """The one with the narrower interval; where they exclude each other, widened to hold both."""
    first, second = sorted((anchored, published), key=lambda rate: sum(rate.widths[:2]))
    apart = float(np.log(second.samples_per_second / first.samples_per_second))
    reach = first.widths.upper if apart > 0 else first.widths.lower
    across = second.widths.lower if apart > 0 else second.widths.upper
    if abs(apart) <= float(np.hypot(reach, across)):
        return first
    widths = HalfWidths(
        max(first.widths.lower, -apart), max(first.widths.upper, apart), first.widths.calibrated
    )
    note = "the anchor and the published rate of this GPU contradict each other"
    return replace(first, widths=widths, notes=(*first.notes, note))


def anchored_model(
    model: PerformanceModel,
    workload: Workload,
    trials: Sequence[GpuTrial],
    own: NetworkFacts | None = None,
    needed_card_mib: Callable[[Workload], float] | None = None,
) -> tuple[PerformanceModel, AnchoredRates]:
    """`model` for questions on the workload's network, task and precision, and what it heard.

    `own` are the facts of a network that the model does not know, which then needs its memory.
    """
    table = OwnTable(model.table, own) if own else model.table
    heard = AnchoredRates(
        modelled=model.gpu_rates.for_ratios(),
        workload=workload,
        trials=tuple(trials),
        table=table,
    )
    anchored = Anchored(heard=heard, published=model.gpu_rates)
    names = (*model.networks, own.name) if own else model.networks
    changed = replace(
        model, table=table, networks=names, anchored=anchored, card_mib_of=needed_card_mib
    )
    return changed, heard
