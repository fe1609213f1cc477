"""Rates of GPUs: two fitted forms, anchored where somebody measured the very cell.

The roofline knows a network by its operations, the data-sheet form by its rates on other GPUs.
They are wrong in different ways, so where both can tell, their geometric mean is the prediction.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from advisor.domain import Gpu, Precision, Provenance, Task, Workload
from advisor.records import dataclass, replace
from models.performance.accelerator import step_seconds
from models.performance.datasheet.known_networks import KnownNetworks, asked_rate
from models.performance.intervals import HalfWidths, half_widths
from models.performance.networks import Floats, NetworkTable
from models.performance.step_work import capability, chip, step_work

# A card whose bandwidth differs more from the measured one's is another card.
_SAME_CARD = 0.02
# Distances of a GPU without PyTorch measurements, nearest first.
GPU_GROUPS = ("gpu/other-stack", "gpu/architecture", "gpu/new")


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """A measured cell: log of measured over modelled step seconds, and on which card."""

    log_ratio: float
    memory_gb_per_second: float
    provenance: Provenance
    source: str


@dataclass(frozen=True, slots=True)
class GpuRate:
    """What is known of one cell at one batch size."""

    samples_per_second: float
    widths: HalfWidths
    provenance: Provenance
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRates:
    """The accelerator part of a performance model, as numbers.

    `chips` and `networks` ("resnet50/training") were measured with PyTorch, `other_chips` with
    other software, `capabilities` are their architectures. `residuals` are sorted lists by
    group: `cell`, `network`, `gpu/other-stack`, `gpu/architecture`, `gpu/new`.
    `ratio_parameters` are a roofline's, too: without effects of single networks, for the ratio of
    two GPUs.
    """

    parameters: Mapping[str, float]
    ratio_parameters: Mapping[str, float]
    known_networks: KnownNetworks
    anchors: Mapping[str, Anchor]
    residuals: Mapping[str, Sequence[float]]
    chips: frozenset[str]
    other_chips: frozenset[str]
    capabilities: frozenset[str]
    networks: frozenset[str]

    def step_seconds(
        self, workload: Workload, gpu: Gpu, batch_sizes: Floats, table: NetworkTable
    ) -> Floats:
        """Seconds of a step for each batch size, anchored where the cell was measured.

        Elsewhere the geometric mean of both forms, or the roofline alone for a workload that no
        GPU was measured with.

        Another card with the same chip (A100 of 40 and of 80 GB) is as much off the form as the
        measured one, and is modelled all the same.
        """
        work = _work(table[workload.network], workload.task, workload.precision, gpu)
        seconds = step_seconds(work, batch_sizes, self.parameters)
        anchor = self.anchors.get(cell_name(workload, gpu))
        if anchor:
            return seconds * float(np.exp(anchor.log_ratio))
        told = self.known_networks.step_seconds(asked_rate(workload, gpu), batch_sizes)
        return seconds if told is None else np.asarray(np.sqrt(seconds * told))

    def for_ratios(self) -> GpuRates:
        """How GPUs compare for a network that nobody measured: one form, no measured cells."""
        return replace(
            self,
            parameters=self.ratio_parameters,
            known_networks=self.known_networks.only(()),
            anchors={},
        )

    def rates(
        self,
        workload: Workload,
        gpu: Gpu,
        batch_sizes: Sequence[int],
        table: NetworkTable,
        confidence: float,
    ) -> list[GpuRate]:
        """Samples per second with interval and origin for each batch size of one cell."""
        batches = np.array(batch_sizes, dtype=float)
        rates = batches / self.step_seconds(workload, gpu, batches, table)
        anchor = self.anchor(workload, gpu)
        widths = self.widths(workload, gpu, confidence)
        notes = self.notes(workload, gpu)
        provenance = anchor.provenance if anchor else Provenance.MODELLED
        return [GpuRate(float(rate), widths, provenance, notes) for rate in rates]

    def anchor(self, workload: Workload, gpu: Gpu) -> Anchor | None:
        """The measurement of this cell on this card, at whatever batch size."""
        anchor = self.anchors.get(cell_name(workload, gpu))
        if anchor is None:
            return None
        ratio = gpu.memory_gb_per_second / anchor.memory_gb_per_second
        return anchor if abs(ratio - 1) <= _SAME_CARD else None

    def widths(self, workload: Workload, gpu: Gpu, confidence: float) -> HalfWidths:
        """Half widths in log rate; doubts of GPU and network add as independent ones do."""
        if self.anchor(workload, gpu):
            return half_widths(self.residuals, ("cell", "network"), confidence)
        parts = [half_widths(self.residuals, ("network",), confidence)]
        groups = self._gpu_groups(gpu)
        if groups:
            parts.append(self._gpu_widths(groups, confidence))
            if f"{workload.network}/{workload.task}" in self.networks:
                parts = parts[1:]
        return HalfWidths(
            float(np.hypot.reduce([part.lower for part in parts])),
            float(np.hypot.reduce([part.upper for part in parts])),
            all(part.calibrated for part in parts),
        )

    def _gpu_widths(self, groups: Sequence[str], confidence: float) -> HalfWidths:
        """The widest of the GPU's own distance and all nearer ones.

        With few GPUs in a pool chance may make a farther pool the narrower one; being farther
        away never makes a rate surer.
        """
        widths = [
            half_widths(self.residuals, (group, *GPU_GROUPS[i + 1 :]), confidence)
            for i, group in enumerate(groups)
        ]
        return HalfWidths(
            max(width.lower for width in widths),
            max(width.upper for width in widths),
            widths[-1].calibrated,
        )

    def _gpu_groups(self, gpu: Gpu) -> tuple[str, ...]:
        """Groups up to the one as far away as this GPU, nearest first; none if measured."""
        if chip(gpu.name) in self.chips:
            return ()
        if chip(gpu.name) in self.other_chips:
            return GPU_GROUPS[:1]
        return GPU_GROUPS[:2] if gpu.compute_capability in self.capabilities else GPU_GROUPS

    def notes(self, workload: Workload, gpu: Gpu) -> tuple[str, ...]:
        """What lies outside the published measurements, in words."""
        notes = []
        if chip(gpu.name) not in self.chips | self.other_chips:
            like = gpu.compute_capability in self.capabilities
            far = "" if like else f", nor any GPU of its architecture ({gpu.architecture})"
            notes.append(f"{gpu.name} was not measured{far}: its rate follows from its data sheet")
        if workload.precision is Precision.BF16 and capability(gpu) < 8:
            notes.append(f"{gpu.name} has no bf16 units: its fp32 rate is assumed")
        return tuple(notes)


# One answer asks for the rates of a cell several times: with other disks, at other confidences.
_work = lru_cache(maxsize=256)(step_work)


def cell_name(workload: Workload, gpu: Gpu) -> str:
    """'resnet50/training/fp32/A100': what an anchor is filed under."""
    return f"{workload.network}/{workload.task}/{workload.precision}/{chip(gpu.name)}"


def family(network: str) -> str:
    """'wide_resnet50_2' -> 'resnet': networks that are too alike to test one with another."""
    name = network.removeprefix("wide_").replace("resnext", "resnet")
    found = re.match(r"[a-z]+", name)
    return found.group() if found else name


def network_key(network: str, task: Task) -> str:
    """How a network's PyTorch measurements are filed in `GpuRates.networks`."""
    return f"{network}/{task}"
