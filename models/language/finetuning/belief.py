"""What is known of the seconds a token takes in tuning: one Gaussian over parameters and effects.

    seconds = ((arithmetic + memory)^4 + gathers^4 + launches^4)^(1/4) + all-reduces and experts

A step computes while it gathers weights and launches the next layers, so that the slowest of the
three holds it up; all-reduces and the way to experts come on top.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from advisor.models.bayes import Floats, Gaussian, Prior, variances
from advisor.models.language.finetuning.tuning import Run, Work, work_of
from advisor.models.language.language_model import LanguageModel

# Beliefs before any row; a share of a peak is exp(-value). Products: large ones reach 0.73 to 0.91
# of a 16-bit peak on A100, H100 and B200, 0.31 to 0.65 of an FP8 one (aiconfigurator's tables);
# `link` and `spread`: NCCL's bus bandwidth, over PCIe 0.8 of a lane's rate at 2 GPUs and, with each
# doubling, 0.3 (L40S, through the processors) to 0.8 of it (RTX PRO 6000). `launch`: seconds of a
# layer. `watts`: cards with fewer watts for each TFLOP/s reach less of it. Attention is faster with
# wider heads and longer sequences, and on Hopper 1.5 to 2 times with kernels made for it
# (FlashAttention-3, arXiv 2407.08608, against FlashAttention-2).
# `script`: how much longer scripts of images and encoders take than bare steps (`script/16` of step times).
PRIORS: Mapping[str, Prior] = {
    "matrices": Prior(math.log(1 / 0.72), 0.3),
    "fp8": Prior(0.3, 0.3),
    "attention": Prior(math.log(1 / 0.45), 0.4),
    "head": Prior(-0.2, 0.15),
    "sequence": Prior(-0.05, 0.05),
    "hopper_kernels": Prior(-0.5, 0.2),
    "elements": Prior(0.0, 0.5),
    "weights": Prior(0.0, 0.3),
    "link": Prior(math.log(2.0), 0.4),
    "spread": Prior(0.75, 0.5),
    "pcie": Prior(-0.45, 0.3),
    "all_reduces": Prior(math.log(2.0), 0.4),
    "experts": Prior(0.0, 0.7),
    "launch": Prior(math.log(1.5e-4), 0.7),
    "watts": Prior(-0.5, 0.1),
    "watts_fp8": Prior(0.0, 0.1),
    "power": Prior(-1.0, 0.2),
    "hidden": Prior(-0.05, 0.1),
    "mixture": Prior(0.3, 0.4),
    "expert_tokens": Prior(-0.1, 0.15),
    "adapters": Prior(0.0, 0.1),
    "quantised": Prior(0.05, 0.1),
    "hosts": Prior(0.02, 0.03),
    "eager": Prior(0.12, 0.1),
    "script": Prior(0.25, 0.2),
}
NAMES = tuple(PRIORS)
_DIFFERENCE = 1e-4
# No products reach more of their peak than this; the largest ones measured did 0.91.
_MOST_SHARE = 0.9
# How sharply what goes on side by side limits each other.
_JOIN = 4.0


class Parts(NamedTuple):
    """Seconds of one token on one GPU, each (n,), before the factors of the whole."""

    arithmetic: Floats
    memory: Floats
    gathers: Floats
    launches: Floats
    all_reduces: Floats


def parts_of(work: Work, theta: Floats) -> Parts:
    """Seconds of a token by part for `theta` (p,), whose first values are those of `NAMES`."""
    of = dict(zip(NAMES, theta.tolist(), strict=False))
    short = of["watts"] * work.watts + of["power"] * work.power
    products = of["matrices"] + short + of["hidden"] * work.hidden
    products += work.fp8 * (of["fp8"] + of["watts_fp8"] * work.watts)
    products += of["mixture"] * work.mixture + of["expert_tokens"] * work.expert_tokens
    attention = of["attention"] + short + of["head"] * work.head
    attention += of["sequence"] * work.sequence + of["hopper_kernels"] * work.hopper_kernels
    over_pcie = np.where(work.pcie > 0, of["pcie"] + of["spread"] * (work.pcie - 1), 0.0)
    link = np.exp(of["link"] + over_pcie)
    return Parts(
        arithmetic=work.matrices * _held(products) + work.attention * _held(attention),
        memory=work.elements * math.exp(of["elements"])
        + work.weights * math.exp(of["weights"])
        + work.optimiser,
        gathers=work.gathers * link,
        launches=work.launches * math.exp(of["launch"]),
        all_reduces=work.all_reduces * np.exp(of["all_reduces"] + over_pcie)
        + work.experts * math.exp(of["experts"]),
    )


def _held(logs: Floats) -> Floats:
    """The time of a product over that at its peak, limited by `_MOST_SHARE`."""
    return np.asarray((np.exp(_JOIN * logs) + _MOST_SHARE**-_JOIN) ** (1 / _JOIN))


def log_seconds(work: Work, theta: Floats) -> Floats:
    """Log seconds of a token on each GPU (n,), for parameters (p,)."""
    of = dict(zip(NAMES, theta.tolist(), strict=False))
    parts = parts_of(work, theta)
    beside = ((parts.arithmetic + parts.memory) ** _JOIN + parts.gathers**_JOIN + parts.launches**_JOIN) ** (
        1 / _JOIN
    )
    factors = of["adapters"] * work.adapters + of["quantised"] * work.quantised
    factors += of["hosts"] * work.hosts + of["eager"] * work.eager
    factors += of["script"] * work.script
    return np.asarray(np.log(beside + parts.all_reduces) + factors)


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
    "loop": 0.15,
    "source": 0.03,
    "place": 0.03,
    "cell": 0.06,
}
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
    if run.script:
        groups.append(f"loop/{run.source}")
    if run.source:
        groups += [f"source/{run.source}", f"place/{gpu.name}/{run.source}"]
    return tuple(groups)


def size_of(model: LanguageModel) -> str:
    """A key that is equal for models of equal sizes, whatever their names."""
    return f"{model.layers}x{model.hidden}x{model.ffn}x{model.experts}"


class Estimates(NamedTuple):
    """Log seconds of a token on each GPU of n runs: means, variances, and what none goes below, each (n,)."""

    mean: Floats
    variance: Floats
    least: Floats


class Belief(Gaussian, frozen=True):
    """The belief about the parameters `NAMES`, then about effects.

    Effects that no row taught have their priors and are not among them."""

    def estimates(self, runs: Sequence[Run]) -> Estimates:
        """Log seconds of each run."""
        columns = Columns(runs, self.names)
        mean, slopes = columns.linearised(self.mean)
        variance = variances(slopes, self.covariance)
        doubt = variance + columns.unknown + _OF_ANY_SOURCE
        return Estimates(mean, doubt, np.log(columns.work.least))

    def has_gpu(self, run: Run) -> bool:
        """True if the effect of the run's GPU was learned from rows."""
        return f"gpu/{run.tuning.gpu.name}" in self.names

    def has_model(self, run: Run) -> bool:
        """True if the effect of models of the run's size was learned from rows."""
        return f"model/{size_of(run.tuning.model)}" in self.names


class Columns:
    """Runs as columns: their work, and which of the parameters `names` each has."""

    def __init__(self, runs: Sequence[Run], names: Sequence[str]) -> None:
        self.work: Work = work_of(runs)
        columns = {name: column for column, name in enumerate(names)}
        self._member = np.zeros((len(runs), len(names)))
        # Variance (n,) of effects that are not among the names.
        self.unknown: Floats = np.zeros(len(runs))
        for row, run in enumerate(runs):
            for name in groups_of(run):
                if name in columns:
                    self._member[row, columns[name]] = 1.0
                else:
                    self.unknown[row] += EFFECTS[name.partition("/")[0]] ** 2

    def linearised(self, theta: Floats) -> tuple[Floats, Floats]:
        """Log seconds (n,) for parameters (p,), and their slopes (n, p)."""
        mean = log_seconds(self.work, theta)
        slopes = self._member.copy()
        for column in range(len(NAMES)):
            moved = theta.copy()
            moved[column] += _DIFFERENCE
            slopes[:, column] += (log_seconds(self.work, moved) - mean) / _DIFFERENCE
        return mean + self._member @ theta, slopes
