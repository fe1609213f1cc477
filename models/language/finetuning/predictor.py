"""Predicts tokens per second of fine-tuning, with bounds, and chooses settings that a question leaves open.

A question is answered for PyTorch's FSDP or data-parallel training in 16 bits with fused attention and AdamW
in 32 bits: by a typical script that compiles nothing, or as a benchmark with compiled kernels."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from advisor.domain import Withheld
from advisor.domain.results import UNMEASURED_METHOD
from advisor.domain.words import LlmMethod
from advisor.errors import DataError
from advisor.messages import Message
from advisor.models.bayes import Bounds, HalfWidths, gaussian_multiplier, multipliers
from advisor.models.bundled import withheld_tests
from advisor.models.language.deployments import unmeasured_parts
from advisor.models.language.finetuning.belief import NOISE, Belief, parts_of
from advisor.models.language.finetuning.memory import TuningMemory, finetuning_memory
from advisor.models.language.finetuning.tuning import Checkpointing, FineTuning, Run, Sharding, work_of
from advisor.models.language.memory import card_gib

# Micro-batches that are tried, and the most tokens of one: with more, a GPU gets no faster.
_MICRO_BATCHES = tuple(1 << exponent for exponent in range(7))
_MOST_TOKENS = 65536


# Which held-out rows bounds come from: those of models that were left out, or of GPUs.
MODEL, GPU = "model", "gpu"


class Settled(NamedTuple):
    """A tuning with all choices made, and its memory."""

    tuning: FineTuning
    memory: TuningMemory


class TuningRates(NamedTuple):
    """Rates of n tunings: tokens a second of all their GPUs together, each of `rates` (n,).

    `calibrated` is False if too few held-out rows back the confidence."""

    tokens_per_second: Bounds
    calibrated: bool


class FineTuningPredictor(Struct, frozen=True):
    """A posterior, and its sorted standardised residuals (of log seconds) on held-out rows: of models that
    were left out (`MODEL`, used for GPUs with rows in the fit) and of GPUs that were (`GPU`, used for all
    others). `id` is the file's digest, `trained_on` names the rows in one line."""

    belief: Belief
    standardised: Mapping[str, tuple[float, ...]]
    id: str = ""
    trained_on: str = ""

    def tokens_per_second(self, tunings: Sequence[FineTuning], confidence: float = 0.9) -> TuningRates:
        """Rates of settled tunings, one-sided bounds at `confidence`."""
        runs = [Run.of_question(tuning) for tuning in tunings]
        estimates = self.belief.estimates(runs)
        known = {kind: self.widths(kind, confidence) for kind in self.standardised}
        widths = [known[MODEL if self.belief.has_gpu(run) else GPU] for run in runs]
        deviation = np.sqrt(estimates.variance + NOISE**2)
        used = np.array([tuning.gpus for tuning in tunings], dtype=float)
        logs = (
            estimates.mean + deviation * np.array([each.lower for each in widths]),
            estimates.mean,
            estimates.mean - deviation * np.array([each.upper for each in widths]),
        )
        bounds = Bounds(*(used * np.exp(-np.maximum(log, estimates.least)) for log in logs))
        return TuningRates(bounds, all(each.calibrated for each in widths))

    def is_link_bound(self, tuning: FineTuning) -> bool:
        """True where the links between the GPUs take longer than the GPUs themselves."""
        parts = parts_of(work_of([Run.of_question(tuning)]), self.belief.mean)
        return bool(parts.gathers + parts.all_reduces > parts.arithmetic + parts.memory)

    def withheld(self, tuning: FineTuning) -> Withheld:
        """The withheld test that is most similar to a tuning."""
        known = self.belief.has_gpu(Run(tuning))
        return withheld_tests()["tuning", "the model size" if known else "the GPU"]

    def unmeasured(self, tuning: FineTuning) -> tuple[Message, ...]:
        """The features of a tuning that no measured row has, in words. QLoRA is one: no row with a rate is
        of it (`tests/models/language/test_finetuning.py` counts them)."""
        run = Run(tuning)
        calculated = Message(
            "{method} was never measured: its rate is calculated from its arithmetic",
            code=UNMEASURED_METHOD,
            method=tuning.method,
        )
        return (
            *([calculated] if tuning.method == LlmMethod.QLORA else []),
            *unmeasured_parts(
                tuning.gpu.name,
                tuning.model.name,
                Message("finetuning"),
                gpu_known=self.belief.has_gpu(run),
                model_known=self.belief.has_model(run),
            ),
        )

    def settled(self, tunings: Sequence[FineTuning]) -> list[Settled | None]:
        """Each tuning with its fastest settings that fit in memory; None if none fit."""
        options = [list(_fitting(tuning)) for tuning in tunings]
        flat = [option for each in options for option in each]
        if not flat:
            return [None] * len(tunings)
        medians = self.tokens_per_second([option.tuning for option in flat]).tokens_per_second.median
        rate_of = dict(zip(map(id, flat), medians.tolist(), strict=True))
        # Of equally fast options the first, which leaves most memory free.
        return [max(each, key=lambda option: rate_of[id(option)], default=None) for each in options]

    def widths(self, kind: str, confidence: float) -> HalfWidths:
        """How many predicted deviations the bounds lie away. A GPU is one draw, however many rows it has: so
        the lower bound of a GPU without rows is at least Student's for as many draws as there are GPUs
        (`t = z + (z^3 + z) / 4f`, the first term of Fisher's expansion)."""
        widths = multipliers(self.standardised[kind], confidence)
        if kind == MODEL:
            return widths
        gpus = sum(name.startswith("gpu/") for name in self.belief.names)
        z, freedom = gaussian_multiplier(confidence), max(1, gpus - 1)
        least = (z + (z**3 + z) / (4 * freedom)) * math.sqrt(1 + 1 / max(1, gpus))
        return widths._replace(lower=max(widths.lower, least))


def _fitting(tuning: FineTuning) -> Iterator[Settled]:
    """Yield all combinations of the open settings that fit in memory, those that need least first."""
    room = card_gib(tuning.gpu.name, tuning.gpu.memory_gib)
    shardings = (Sharding.NONE,) if tuning.gpus == 1 else (Sharding.ALL, Sharding.NONE)
    most = max(1, _MOST_TOKENS // tuning.sequence)
    micro_batches = [size for size in _MICRO_BATCHES if size <= most]
    for sharding in (tuning.sharding,) if tuning.sharding else shardings:
        for checkpointing in (
            (tuning.checkpointing,) if tuning.checkpointing else (Checkpointing.FULL, Checkpointing.NONE)
        ):
            for micro_batch in micro_batches if tuning.micro_batch is None else [tuning.micro_batch]:
                option = tuning._replace(
                    sharding=sharding, checkpointing=checkpointing, micro_batch=micro_batch
                )
                memory = finetuning_memory(option)
                if not memory.fits(room):
                    break
                yield Settled(option, memory)


def least_memory(tuning: FineTuning) -> TuningMemory:
    """The memory of a tuning under the settings that need least, for the error if even that does not fit."""
    smallest = tuning._replace(
        micro_batch=tuning.micro_batch or 1,
        checkpointing=tuning.checkpointing or Checkpointing.FULL,
        sharding=tuning.sharding or (Sharding.ALL if tuning.gpus > 1 else Sharding.NONE),
    )
    return finetuning_memory(smallest)


def unsupported(tuning: FineTuning) -> str | None:
    """The code of why a GPU cannot run a tuning (vendor, compute capability, no bf16); None if it can."""
    if tuning.gpu.vendor.lower() != "nvidia":
        return "vendor"
    if tuning.gpu.compute_capability < 7.0:
        return "capability"
    if tuning.method == LlmMethod.FULL and not tuning.gpu.has_bf16:
        return "no_bf16"
    return None


SCHEMA = "advisor.finetuning/1"
PATH = Path(__file__).parents[4] / "advisor" / "data" / "language" / "finetuning.json"


@cache
def bundled_finetuning_predictor() -> FineTuningPredictor:
    """The predictor that ships; `DataError` if its file cannot be read."""
    return read_predictor(PATH)


def read_predictor(path: Path) -> FineTuningPredictor:
    """The predictor stored in a file; `DataError` if the file has none."""
    try:
        content = path.read_bytes()
        raw = json.loads(content)
        if raw["schema"] != SCHEMA:
            raise ValueError(raw["schema"])
        mean = np.array(raw["mean"], dtype=float)
        covariance = np.zeros((len(mean), len(mean)))
        covariance[np.tril_indices(len(mean))] = raw["covariance"]
        covariance += np.tril(covariance, -1).T
        belief = Belief(tuple(raw["names"]), mean, covariance)
        digest = hashlib.sha256(content).hexdigest()
        standardised = {kind: tuple(raw["standardised"][kind]) for kind in (MODEL, GPU)}
        return FineTuningPredictor(belief, standardised, digest, raw["trained_on"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            "the tuning rates cannot be read: {path}",
            path=str(path),
            hint="install the package again (in a checkout: python -m advisor.infra.build.language_tuning)",
        ) from error
