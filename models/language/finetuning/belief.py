"""What is known of tuning rates: one Gaussian over the form's parameters and groups' effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from advisor.models.bayes import Floats, Gaussian, Prior, believed, joined, variances
from advisor.models.language.finetuning.seconds import NAMES, PRIORS, linearised
from advisor.models.language.finetuning.tuning import Run
from advisor.models.language.finetuning.work import Work, work_of
from advisor.models.language.language_model import LanguageModel

# Standard deviations of log seconds between runs, by what they have in common.
EFFECTS: Mapping[str, float] = {
    "gpu": 0.05,
    "chip": 0.08,
    "framework": 0.3,
    "release": 0.06,
    "model": 0.06,
    "format": 0.05,
    "experts": 0.2,
    "mixture": 0.15,
    "source": 0.03,
    "place": 0.03,
    "cell": 0.06,
}
# Of who measured with what, which no question names.
OF_SOURCES = ("source", "place")
# Who asks runs software of their own, which only their own rows tell.
_OF_ANY_SOURCE = 0.1**2
# What two runs of one configuration differ by, and what the form itself misses.
NOISE = 0.05


def groups_of(run: Run) -> tuple[str, ...]:
    """Names of the effects that a run has."""
    gpu, model = run.tuning.gpu, run.tuning.model
    size = size_of(model)
    bits = "fp8" if run.fp8 else "16"
    groups = [
        f"gpu/{gpu.name}",
        f"chip/{gpu.compute_capability:g}",
        f"framework/{run.framework}",
        f"model/{size}",
        f"format/{gpu.name}/{bits}",
        f"cell/{size}/{gpu.name}/{bits}",
    ]
    if run.released:
        groups.append(f"release/{run.framework} {run.released[:4]}")
        groups += [f"mixture/{run.released}"] if model.experts else []
    if model.experts:
        groups.append(f"experts/{size}")
    if run.source:
        groups += [f"source/{run.source}", f"place/{gpu.name}/{run.source}"]
    return tuple(groups)


def size_of(model: LanguageModel) -> str:
    """What copies of a model under other names have in common."""
    return f"{model.layers}x{model.hidden}x{model.ffn}x{model.experts}"


class Estimates(NamedTuple):
    """Log seconds of a token on each GPU of n runs: means, variances, and what none goes below,
    each (n,)."""

    mean: Floats
    variance: Floats
    least: Floats


class Belief(Gaussian, frozen=True):
    """Of the parameters `NAMES`, then of effects.

    Effects that no row taught have their priors and are not among them.
    """

    def estimates(self, runs: Sequence[Run]) -> Estimates:
        """Log seconds of each run."""
        columns = Columns(runs, self.names)
        mean, slopes = columns.linearised(self.mean)
        variance = variances(slopes, self.covariance)
        doubt = variance + columns.unknown + _OF_ANY_SOURCE
        return Estimates(mean, doubt, np.log(columns.work.least))

    def has_gpu(self, run: Run) -> bool:
        """Whether rows of the run's GPU taught its effect."""
        return f"gpu/{run.tuning.gpu.name}" in self.names

    def has_model(self, run: Run) -> bool:
        """Whether rows of a model of the run's size taught its effect."""
        return f"model/{size_of(run.tuning.model)}" in self.names

    def conditioned(self, runs: Sequence[Run], log_measured: Floats, sigma: Floats) -> Belief:
        """The belief once the runs are measured: log seconds with standard errors, each (n,)."""
        known = joined([self, effects_of(runs, self.names)])
        columns = Columns(runs, known.names)
        after = known.updated(columns.linearised, log_measured, sigma)
        return Belief(after.names, after.mean, after.covariance)


class Columns:
    """Runs as columns: their work, and which of the parameters `names` each has."""

    def __init__(self, runs: Sequence[Run], names: Sequence[str]) -> None:
        self.work: Work = work_of(runs)
        place = {name: at for at, name in enumerate(names)}
        self._member = np.zeros((len(runs), len(names)))
        # Variance (n,) of effects that are not among the names.
        self.unknown: Floats = np.zeros(len(runs))
        for row, run in enumerate(runs):
            for name in groups_of(run):
                if name in place:
                    self._member[row, place[name]] = 1.0
                else:
                    self.unknown[row] += EFFECTS[name.partition("/")[0]] ** 2

    def linearised(self, theta: Floats) -> tuple[Floats, Floats]:
        """Log seconds (n,) for parameters (p,), and their slopes (n, p)."""
        mean, slopes = linearised(self.work, theta)
        whole = self._member.copy()
        whole[:, : len(NAMES)] += slopes
        return mean + self._member @ theta, whole


def effects_of(runs: Sequence[Run], known: Sequence[str] = ()) -> Gaussian:
    """Effects that the runs have beside the known ones, before any row."""
    names = dict.fromkeys(name for run in runs for name in groups_of(run) if name not in known)
    return believed(tuple(names), [Prior(0.0, EFFECTS[name.partition("/")[0]]) for name in names])


def prior_of(runs: Sequence[Run]) -> Gaussian:
    """What is believed before any row, of all parameters that the runs have."""
    return joined([believed(NAMES, tuple(PRIORS.values())), effects_of(runs)])
