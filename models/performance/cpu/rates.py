"""What a network reaches on the cores of a CPU, and how far to trust that: evaluated with NumPy.

The measured CPU's rates are carried to another one by the ratio of single-thread marks and by the
width of its arithmetic units; whole cores count, as one thread keeps a core's multipliers busy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.domain import Task
from advisor.errors import DataError
from advisor.records import dataclass
from models.performance.bundled import read_bundled
from models.performance.cpu.form import FORMS, Form, cpu_work, step_seconds
from models.performance.cpu.records import CpuRow
from models.performance.intervals import HalfWidths, half_widths
from models.performance.machines import useful_cores
from models.performance.networks import Floats, NetworkFacts, NetworkTable

if TYPE_CHECKING:
    from models.performance.pipeline import ReferenceCpu

SCHEMA = "advisor.cpu-rates/1"
BUNDLED = "cpu_rates.json"
# By form, the best first: `python -m advisor.operations.cpu_fitting --held-out` (docs/cpu_only.md).
CHOSEN_FORM = "roofline"
CELL, NETWORK = "cell", "network"


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuRates:
    """Fitted parameters and sorted held-out residuals: `cell` with a batch size left out, `network`
    with a family of networks left out.

    `networks` ("resnet50/training") were measured, on up to `largest_cores` of the CPU whose
    single-thread mark is `reference_score`.
    """

    form: Form
    parameters: Mapping[str, float]
    residuals: Mapping[str, Sequence[float]]
    networks: frozenset[str]
    largest_cores: float
    reference_score: float
    architecture: str

    def rates(
        self, facts: NetworkFacts, task: Task, batch_sizes: Floats, cores: Floats, vector: Floats
    ) -> Floats:
        """Samples per second (n,) in batches of `batch_sizes` (n,), on `cores` (n,) as fast as the
        measured CPU's, whose arithmetic units are `vector` (n,) times as wide as its."""
        # Types come in few sizes: thousands of machines are dozens of distinct ones.
        machines, machine = np.unique(cores + 1j * vector, return_inverse=True)
        batches, batch = np.unique(batch_sizes, return_inverse=True)
        size, on = np.repeat(batches, len(machines)), np.tile(machines, len(batches))
        seconds = step_seconds(
            cpu_work(facts, task), size, self.parameters, self.form,
            compute_cores=on.imag * self._useful(on.real, "compute"),
            memory_cores=self._useful(on.real, "memory"),
        )  # fmt: skip
        place = batch.reshape(-1) * len(machines) + machine.reshape(-1)
        rates: Floats = (size / seconds)[place]
        return rates

    def widths(
        self, network: str, task: Task, confidence: float, *, measured: bool = False
    ) -> HalfWidths:
        """How far the rate on the measured CPU may lie from the predicted one; `measured`: somebody
        else measured the network."""
        measured = measured or f"{network}/{task}" in self.networks
        return half_widths(self.residuals, (CELL, NETWORK) if measured else (NETWORK,), confidence)

    def _useful(self, cores: Floats, part: str) -> Floats:
        return useful_cores(cores, float(np.exp(self.parameters[f"scaling/{part}"])), 0.0)


def fit_cpu_rates(rows: Sequence[CpuRow], table: NetworkTable, reference: ReferenceCpu) -> CpuRates:
    """Fit the chosen form and calibrate it on rows that it was not fitted on."""
    from models.performance.cpu.fitting import fit_parameters, held_out_batches, held_out_families

    form = FORMS[CHOSEN_FORM]
    held = {
        CELL: held_out_batches(rows, table, form),
        NETWORK: held_out_families(rows, table, form),
    }
    return CpuRates(
        form=form,
        parameters=fit_parameters(rows, table, form),
        residuals={name: np.sort(np.round(found, 4)).tolist() for name, found in held.items()},
        networks=frozenset(f"{row.network}/{row.task}" for row in rows),
        largest_cores=max(row.cores for row in rows),
        reference_score=reference.score,
        architecture=reference.architecture,
    )


def to_document(rates: CpuRates) -> dict[str, Any]:
    """The JSON document that ships."""
    return {
        "schema": SCHEMA,
        "form": rates.form.name,
        "reference_score": rates.reference_score,
        "architecture": rates.architecture,
        "largest_cores": rates.largest_cores,
        "networks": sorted(rates.networks),
        "parameters": dict(sorted(rates.parameters.items())),
        "residuals": dict(rates.residuals),
    }


def from_document(document: Mapping[str, Any]) -> CpuRates:
    """The rates a document describes; KeyError, TypeError or ValueError when it is none."""
    if document["schema"] != SCHEMA:
        raise ValueError(f"its format is {document['schema']}, not {SCHEMA}")
    return CpuRates(
        form=FORMS[document["form"]],
        parameters=document["parameters"],
        residuals=document["residuals"],
        networks=frozenset(document["networks"]),
        largest_cores=float(document["largest_cores"]),
        reference_score=float(document["reference_score"]),
        architecture=str(document["architecture"]),
    )


@cache
def bundled_cpu_rates() -> CpuRates:
    """The rates that ship; `DataError` when the file is missing or damaged."""
    text = read_bundled(BUNDLED)
    try:
        return from_document(json.loads(text))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{BUNDLED} cannot be used ({error}); install the package again") from error
