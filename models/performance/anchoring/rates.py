"""Rates of a network on every GPU from what was measured of it on one, or on a few.

    log T(g, b) = log M(g, b) + sum_i w_i (log T_i - log M(g_i, b_i)),   sum_i w_i = 1

T_i are the anchors, M is the model of GPU steps, w as in `combining`. Where it is not known what
the network computes, M is that of all known networks, as likely as the anchors' batch sizes say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from advisor.domain import Gpu, Provenance, Workload
from models.performance.anchoring.combining import Combination, combine, likelihoods, surprises
from models.performance.anchoring.likeness import Likeness, likeness_of, log_steps
from models.performance.anchoring.records import GpuTrial, Places, is_same_card, places
from models.performance.anchoring.widths import Doubt, anchored_widths
from models.performance.gpu_rates import GpuRate, GpuRates
from models.performance.networks import Floats, NetworkTable
from models.performance.step_work import chip

# The growth of a step with its batch is taken over this factor.
_GROWTH = 1.25
# Batches outside of what was measured by more than this factor are said to be.
_BEYOND = 2.0
# An anchor contradicts the others beyond so many calibrated widths at 90 %, and 10 %.
_CONTRADICTS, _LEAST = 2.0, 0.1
# Where a network's operations are known, a step this many times as long or short as modelled is
# not the GPU's alone: shared, throttled, bound by its host. Published rows stay within 2.5.
_ODD = 3.0


@dataclass(frozen=True, kw_only=True)
class AnchoredRates:
    """`GpuRates` for one network, task and precision that `trials` (one or more) measured.

    `workload` has these three; its batch size and data set do not matter. `modelled` is the
    form without published measurements of single cells.
    """

    modelled: GpuRates
    workload: Workload
    trials: tuple[GpuTrial, ...]
    table: NetworkTable

    def rates(self, gpu: Gpu, batch_sizes: Sequence[int], confidence: float) -> list[GpuRate]:
        """Samples per second with interval and origin for each batch size on one GPU."""
        batches = np.array(batch_sizes, dtype=float)
        combination = combine(self._places, places([gpu] * len(batches), batches.tolist()))
        logs, spread = self._log_seconds(gpu, batches, combination)
        fixed = self._fixed_shares(gpu, batches), combination.weights @ self._anchors_fixed
        moved = np.sqrt(((combination.weights * self.surprise) ** 2).sum(axis=1))
        same = any(is_same_card(trial.gpu, gpu) for trial in self.trials)
        return [
            self._rate(
                gpu,
                batch,
                float(np.exp(-logs[i]) * batch),
                Doubt(
                    sigma=float(combination.sigma[i]),
                    same_card=same,
                    strange_gpus=self._strange(gpu),
                    spread=None if self.likeness.is_known else float(spread[i]),
                    fixed=(float(fixed[0][i]), float(fixed[1][i])),
                    surprise=float(np.hypot(moved[i], 0.0 if same else np.log(self.odd))),
                ),
                confidence,
            )
            for i, batch in enumerate(batch_sizes)
        ]

    @cached_property
    def likeness(self) -> Likeness:
        """What the network is like, once the anchors were heard."""
        first = likeness_of(self.workload.network, self.workload.task, self.table)
        if first.is_known or len(self.trials) < 2:
            return first
        shares = first.shares * likelihoods(self._places, self._errors(first))
        return Likeness(dict(zip(first.weights, (shares / shares.sum()).tolist(), strict=True)))

    @cached_property
    def surprise(self) -> Floats:
        """How far each anchor (n,) is in log from what the others say; 0 where that may be."""
        errors = self.likeness.shares @ self._errors(self.likeness)
        far, sigma = surprises(self._places, errors)
        doubts = [
            Doubt(sigma=float(s), same_card=self._repeats(i), strange_gpus=self._strange(t.gpu),
                  spread=None, fixed=(f, f), surprise=0.0)
            for i, (t, s, f) in enumerate(zip(self.trials, sigma, self._anchors_fixed, strict=True))
        ]  # fmt: skip
        widths = [anchored_widths(self.modelled.residuals, doubt, 0.9) for doubt in doubts]
        most = [max(_LEAST, _CONTRADICTS * max(width.lower, width.upper)) for width in widths]
        found: Floats = np.where(np.abs(far) > most, np.abs(far), 0.0)
        return found

    @cached_property
    def odd(self) -> float:
        """How much farther the anchors are from the model than can be, as a factor from 1 on."""
        if not self.likeness.is_known:
            return 1.0
        off = float(np.exp(np.abs(np.median(self._errors(self.likeness)))))
        return max(1.0, off / _ODD)

    @property
    def contradicting(self) -> tuple[GpuTrial, ...]:
        """The anchors that the others do not agree with."""
        return tuple(t for t, far in zip(self.trials, self.surprise, strict=True) if far)

    @cached_property
    def _places(self) -> Places:
        return places([t.gpu for t in self.trials], [t.batch_size for t in self.trials])

    def _errors(self, likeness: Likeness) -> Floats:
        """Log of measured over modelled seconds (m, n)."""
        steps = [(t.gpu, float(t.batch_size)) for t in self.trials]
        measured = np.log([t.step_seconds for t in self.trials])
        found: Floats = measured - log_steps(
            self.modelled, likeness, self.workload, steps, self.table
        )
        return found

    def _log_seconds(
        self, gpu: Gpu, batches: Floats, combination: Combination
    ) -> tuple[Floats, Floats]:
        """Logs of seconds (b,), and their standard deviation (b,) over the likenesses."""
        likeness = self.likeness
        steps = [(gpu, batch) for batch in batches.tolist()]
        logs = log_steps(self.modelled, likeness, self.workload, steps, self.table)
        logs += self._errors(likeness) @ combination.weights.T
        mean: Floats = likeness.shares @ logs
        spread: Floats = np.sqrt(likeness.shares @ (logs - mean) ** 2)
        return mean, spread

    @cached_property
    def _anchors_fixed(self) -> Floats:
        shares = [self._fixed_shares(t.gpu, np.array([float(t.batch_size)])) for t in self.trials]
        return np.concatenate(shares)

    def _fixed_shares(self, gpu: Gpu, batches: Floats) -> Floats:
        """The share of a step (b,) that does not grow with its batch: launches, weights."""
        steps = [(gpu, size) for size in [*batches.tolist(), *(_GROWTH * batches).tolist()]]
        logs = self.likeness.shares @ log_steps(
            self.modelled, self.likeness, self.workload, steps, self.table
        )
        growth = (logs[len(batches) :] - logs[: len(batches)]) / np.log(_GROWTH)
        found: Floats = np.clip(1.0 - growth, 0.0, 1.0)
        return found

    def _strange(self, gpu: Gpu) -> int:
        """How many of target and anchors PyTorch did not measure; several anchors count once."""
        known = {name.casefold() for name in self.modelled.chips}
        here = chip(gpu.name).casefold() not in known
        there = all(chip(trial.gpu.name).casefold() not in known for trial in self.trials)
        return int(here) + int(there)

    def _repeats(self, place: int) -> bool:
        """Whether another anchor is on the same card as that one."""
        own = self.trials[place].gpu
        return any(
            is_same_card(trial.gpu, own) for i, trial in enumerate(self.trials) if i != place
        )

    def _rate(self, gpu: Gpu, batch: int, rate: float, doubt: Doubt, confidence: float) -> GpuRate:
        sizes = [t.batch_size for t in self.trials if is_same_card(t.gpu, gpu) == doubt.same_card]
        inside = min(sizes) <= batch <= max(sizes)
        measured = doubt.same_card and inside
        return GpuRate(
            rate,
            anchored_widths(self.modelled.residuals, doubt, confidence),
            Provenance.MEASURED if measured else Provenance.MODELLED,
            self._notes(gpu, batch, doubt, (min(sizes), max(sizes))),
        )

    def _notes(self, gpu: Gpu, batch: int, doubt: Doubt, sizes: tuple[int, int]) -> tuple[str, ...]:
        name = self.workload.network
        notes = []
        if not doubt.same_card:
            there = " and ".join(sorted({trial.gpu.name for trial in self.trials}))
            unknown = "" if self.likeness.is_known else f"; what {name} computes is not known"
            notes.append(f"{name} on {gpu.name} follows from its anchor on {there}{unknown}")
        if not sizes[0] / _BEYOND <= batch <= sizes[1] * _BEYOND:
            few = "-".join(map(str, sorted(set(sizes))))
            notes.append(f"batch {batch} lies beyond the anchor's batch {few}")
        # Of a card that the user measured, nothing follows from its data sheet.
        modelled = () if doubt.same_card else self.modelled.notes(self.workload, gpu)
        return (*notes, *modelled)
