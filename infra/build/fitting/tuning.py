"""Fits the parameters of fine-tuning rates on measured rows; intervals come from rows whose model or GPU was
left out. A row is any record with the columns of `TrainingRow`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from advisor.domain.words import LlmMethod
from advisor.infra.build.fitting.likeliest import Rows, held_out, kept
from advisor.models.bayes import Floats, Gaussian, Prior, believed, joined, student_weights
from advisor.models.language.deployments import GpuFacts
from advisor.models.language.finetuning.belief import (
    EFFECTS,
    NAMES,
    NOISE,
    PRIORS,
    Belief,
    Columns,
    groups_of,
    size_of,
)
from advisor.models.language.finetuning.tuning import Checkpointing, FineTuning, Run, Sharding
from advisor.models.language.language_model import LanguageModel

# Number of quantiles that represent each group where all groups weigh alike.
_OF_EACH = 20
_ROUNDS, _CLOSE = 20, 1e-2
# Runs of one script hardly differ in the model's inputs: ten say little more than one.
_SCRIPT_NOISE = 0.25
# Of who measured with what, which no question names.
OF_SOURCES = ("source", "place", "loop")


class Measured(NamedTuple):
    """A run and its measured tokens per second per GPU."""

    run: Run
    tokens_per_second_per_gpu: float

    @property
    def log_seconds(self) -> float:
        """Log seconds per token on each GPU."""
        return -float(np.log(self.tokens_per_second_per_gpu))


def fitted(rows: Sequence[Measured]) -> Belief:
    """The posterior after rows, without the parameters of their sources."""
    runs = [row.run for row in rows]
    prior = prior_of(runs)
    linearised = Columns(runs, prior.names).linearised
    measured = np.array([row.log_seconds for row in rows])
    sigma = np.array([_SCRIPT_NOISE if run.script else NOISE for run in runs])
    after, weights = prior, np.ones(len(rows))
    for _ in range(_ROUNDS):
        before = after.mean
        after = prior.updated(linearised, measured, sigma / np.sqrt(weights), start=before)
        weights = student_weights((measured - linearised(after.mean)[0]) / sigma)
        if float(np.abs(after.mean - before).max()) < _CLOSE:
            break
    after = kept(after, lambda name: name.partition("/")[0] not in OF_SOURCES)
    return Belief(after.names, after.mean, after.covariance)


def prior_of(runs: Sequence[Run]) -> Gaussian:
    """The prior of all parameters that the runs have, and of their effects."""
    effects = tuple(dict.fromkeys(name for run in runs for name in groups_of(run)))
    of_effects = [Prior(0.0, EFFECTS[name.partition("/")[0]]) for name in effects]
    return joined([believed(NAMES, tuple(PRIORS.values())), believed(effects, of_effects)])


class LeftOut(Struct, frozen=True):
    """Rows predicted by fits without their group: log seconds, each (n,)."""

    predicted: Floats
    deviation: Floats
    measured: Floats

    @property
    def errors(self) -> Floats:
        """Absolute relative errors of the rate."""
        return np.asarray(np.abs(np.exp(self.measured - self.predicted) - 1))

    @property
    def standardised(self) -> Floats:
        """Residuals of log seconds in units of predicted deviations."""
        return np.asarray((self.measured - self.predicted) / self.deviation)


def left_out(rows: Sequence[Measured], group_of: Callable[[Run], str]) -> LeftOut:
    """Each row predicted by a fit on the rows of all other groups."""

    def told_without(out: Rows) -> Floats:
        belief = fitted([row for row, gone in zip(rows, out, strict=True) if not gone])
        estimates = belief.estimates([row.run for row, gone in zip(rows, out, strict=True) if gone])
        return np.column_stack([estimates.mean, np.sqrt(estimates.variance + NOISE**2)])

    predicted, deviation = held_out([group_of(row.run) for row in rows], told_without).T
    return LeftOut(predicted, deviation, np.array([row.log_seconds for row in rows]))


def balanced(standardised: Floats, groups: Sequence[str]) -> tuple[float, ...]:
    """Sorted residuals in which every group weighs alike, however many rows it has: `_OF_EACH` evenly spaced
    quantiles of each group."""
    levels = (np.arange(_OF_EACH) + 0.5) / _OF_EACH
    labels = np.array(groups)
    quantiles = [np.quantile(standardised[labels == one], levels) for one in np.unique(labels)]
    return tuple(np.sort(np.concatenate(quantiles)).tolist())


def model_group(run: Run) -> str:
    """The group of a run's model: its size, so that renamed copies of a model are left out together."""
    return size_of(run.tuning.model)


def gpu_group(run: Run) -> str:
    """The group of a run's GPU."""
    return run.tuning.gpu.name


def run_of(row: Any, gpus: Mapping[str, GpuFacts]) -> Run:
    """The run of a row, on the GPU that it names; `KeyError` for an unknown GPU."""
    tuning = FineTuning(
        model=model_of(row),
        method=LlmMethod(row.method),
        sequence=row.sequence,
        micro_batch=row.micro_batch,
        gpu=_gpu(row, gpus[row.gpu]),
        gpus=row.gpus,
        link=row.link if row.gpus > 1 else "none",
        checkpointing=Checkpointing(row.checkpointing),
        sharding=Sharding(row.sharding),
    )
    return Run(
        tuning,
        framework=row.framework,
        source=row.source,
        released=row.released,
        fp8=row.precision == "fp8",
        eager=bool(row.eager),
        script=bool(row.script),
        tensor_parallel=row.tensor_parallel,
        pipeline_parallel=row.pipeline_parallel,
        context_parallel=row.context_parallel,
        expert_parallel=row.expert_parallel,
        accumulation=row.accumulation,
        switched=row.switched,
    )


def model_of(row: Any) -> LanguageModel:
    """The language model with a row's sizes."""
    return LanguageModel(
        name=row.model,
        family="",
        layers=row.layers,
        hidden=row.hidden,
        heads=row.heads,
        kv_heads=row.kv_heads,
        head_dim=row.head_dim,
        ffn=row.ffn,
        gated=bool(row.gated),
        vocab=row.vocab,
        tied=bool(row.tied),
        experts=row.experts,
        experts_per_token=row.experts_per_token,
        expert_ffn=row.expert_ffn,
    )


def measured_rows(rows: Sequence[Any], gpus: Mapping[str, GpuFacts]) -> list[Measured]:
    """The rows that state a rate."""
    return [
        Measured(run_of(row, gpus), row.tokens_per_second_per_gpu)
        for row in rows
        if not math.isnan(row.tokens_per_second_per_gpu)
    ]


def _gpu(row: Any, gpu: GpuFacts) -> GpuFacts:
    """The GPU as measured; a variant gets a different name, so that it has a separate effect."""
    if math.isnan(row.gpu_watts):
        return gpu
    return gpu._replace(
        name=f"{gpu.name} {row.gpu_watts:g}W", watts=row.gpu_watts, bandwidth_gb_s=row.gpu_gb_per_second
    )
