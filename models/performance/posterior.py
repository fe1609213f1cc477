"""One Gaussian posterior over all unknowns of step times.

Its state holds the parameters of `step_time` and, for each network, effects learned from rows of that
network: of the network, its task, number format, layout, stack, and of a GPU's cell. It was fitted to
published rows; a user's rows condition it further by the same algebra."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from advisor.models.bayes import Floats, Gaussian, Linearised, Parameters, Prior, believed, joined, variances
from advisor.models.performance import cpu_step_time, step_time
from advisor.models.performance.cpu_step_time import CpuConditions, CpuSteps
from advisor.models.performance.step_parameters import HOST, Conditions, Step
from advisor.models.performance.step_time import Steps

# Prior standard deviations of a network's effects on log seconds, by kind of effect.
EFFECTS: Mapping[str, float] = {
    "network": 0.18,
    "task": 0.1,
    "bits": 0.12,
    "format": 0.08,
    "stack": 0.12,
    "gpu": 0.1,
    "cell": 0.08,
    "own": 0.1,
}
_NO_REACH = 1e-3


class Cell(NamedTuple):
    """A step of a named network, to be predicted or measured."""

    network: str
    step: Step


class Estimates(Struct, frozen=True):
    """Log seconds of n steps: means, variances, and the share of the step that kernel launches bound."""

    mean: Floats
    variance: Floats
    launching: Floats


def effect_groups(conditions: Conditions | CpuConditions) -> dict[str, str]:
    """The group that a step belongs to within its network, for each kind of `EFFECTS` but "own"."""
    if isinstance(conditions, CpuConditions):
        task, cpu = f"task/{conditions.task}", conditions.cpu
        return {"network": "network", "task": task, "cell": f"cell/{cpu}/{conditions.task}"}
    bits = "32" if conditions.precision == "fp32" else "16"
    stack = "compile" if conditions.stack == "compile" else "eager"
    gpu = conditions.gpu.name
    return {
        "network": "network",
        "task": f"task/{conditions.task}",
        "bits": f"bits/{bits}",
        "format": f"format/{conditions.memory_format}",
        "stack": f"stack/{stack}",
        "gpu": f"gpu/{gpu}",
        "cell": f"cell/{gpu}/{conditions.task}/{bits}",
    }


def own_group(conditions: Conditions | CpuConditions) -> str | None:
    """The group of effects for a user's rows of a cell, which differ from others'; None for others' rows."""
    if isinstance(conditions, CpuConditions) or conditions.source:
        return None
    return f"own/{effect_groups(conditions)['cell']}"


class Posterior(Gaussian, frozen=True):
    """The posterior over step times; `effects` are those of networks, by network name.

    `joint` names networks whose effects are already part of the state, where conditioning puts them."""

    effects: Mapping[str, Gaussian] = {}
    joint: frozenset[str] = frozenset()

    def predict(self, cells: Sequence[Cell], centres: Floats | None = None) -> Estimates:
        """Log seconds of each cell; `centres` (n,) is the mean deviation of networks like its own."""
        existing = self._linear(cells)
        mean = existing.mean if centres is None else existing.mean + centres
        return Estimates(mean, existing.variance, existing.launching)

    def differences(self, cells: Sequence[Cell], others: Sequence[Cell]) -> Estimates:
        """Log seconds of each of `cells` minus those of the same row of `others` (n,).

        Effects that both have in common, such as the network's, cancel in the variance."""
        each = np.eye(len(cells))
        return self._linear([*cells, *others], np.hstack([each, -each]))

    def _linear(self, cells: Sequence[Cell], mixed: Floats | None = None) -> Estimates:
        """Log seconds of each cell, or of each row of `mixed` (m, n), a weighted sum of cells."""
        parameters = self.parameters()
        steps = steps_of([cell.step for cell in cells], parameters)
        inner = len(self.names)
        theta = np.append(self.mean, [prior.mean for prior in parameters.priors[inner:]])
        mean, slopes = steps.linearised(theta)
        host = parameters.place.get(HOST)
        launching = np.zeros(len(cells)) if host is None else slopes[:, host].copy()
        members, state = [], frozenset(self.names) if self.joint else frozenset()
        for network, alike in _rows_by_effects(cells, state).items():
            effects = _known(self, network, list(dict.fromkeys(itertools.chain(*alike))))
            positions = {name: position for position, name in enumerate(effects.names)}
            held = np.zeros((len(cells), len(positions)))
            for groups, rows in alike.items():
                for name in (effect_name(network, group) for group in groups):
                    if name in positions:
                        held[rows, positions[name]] = 1.0
                    else:
                        slopes[rows, parameters.place[name]] += 1.0
                        mean[rows] += theta[parameters.place[name]]
            mean += held @ effects.mean
            members.append((effects.covariance, held))
        if mixed is not None:
            mean, slopes = mixed @ mean, mixed @ slopes
            members = [(covariance, mixed @ held) for covariance, held in members]
        # Parameters that move a step by less than a thousandth are dropped, row by row, so that a cell's
        # result does not depend on the other cells.
        held = slopes[:, :inner]
        held = np.where(np.abs(held) * np.sqrt(self.covariance.diagonal()) > _NO_REACH, held, 0.0)
        used = np.flatnonzero(held.any(axis=0))
        variance = variances(held[:, used], self.covariance[np.ix_(used, used)])
        sigmas = np.array([prior.sigma for prior in parameters.priors[inner:]])
        variance += np.square(slopes[:, inner:]) @ np.square(sigmas)
        for covariance, held in members:
            variance += variances(held, covariance)
        return Estimates(mean, variance, launching)

    def has_effect(self, network: str, group: str) -> bool:
        """Whether the effect of a group, such as `stack/compile`, was learned from rows of the network."""
        taught = self.effects.get(network)
        inside = effect_name(network, group) in self.names
        return inside or (taught is not None and group in taught.names)

    def joint_estimates(self, cells: Sequence[Cell]) -> tuple[Floats, Floats]:
        """Log seconds of the cells: means (n,) and covariance (n, n)."""
        known, linearised = self._with_effects(cells)
        mean, slopes = linearised(known.mean)
        used = np.flatnonzero(slopes.any(axis=0))
        held = slopes[:, used]
        return mean, held @ known.covariance[np.ix_(used, used)] @ held.T

    def condition(
        self, cells: Sequence[Cell], log_measured: Floats, sigma: Floats, centres: Floats | None = None
    ) -> Posterior:
        """The posterior given measured log seconds of the cells, with standard errors `sigma` (n,)."""
        known, linearised = self._with_effects(cells, centres, own=True)
        after = known.updated(linearised, log_measured, sigma)
        joint = self.joint | {cell.network for cell in cells}
        return Posterior(after.names, after.mean, after.covariance, self.effects, joint)

    def _with_effects(
        self, cells: Sequence[Cell], centres: Floats | None = None, *, own: bool = False
    ) -> tuple[Gaussian, Linearised]:
        """The state with the cells' effects (`own`: also those of a user's rows), and their log seconds."""
        parameters = self.parameters()
        # Parameters keep the order of the state, so that steps can index it directly.
        steps = steps_of([cell.step for cell in cells], parameters)
        groups = [list(effect_groups(cell.step.conditions).values()) for cell in cells]
        for cell, names in zip(cells, groups, strict=True) if own else ():
            names += [group] if (group := own_group(cell.step.conditions)) else []
        wanted: dict[str, dict[str, None]] = {}
        for cell, names in zip(cells, groups, strict=True):
            wanted.setdefault(cell.network, {}).update(dict.fromkeys(names))
        effects = [_known(self, network, list(names)) for network, names in wanted.items()]
        known = joined([self.extended(parameters), *effects])
        index = {name: row for row, name in enumerate(known.names)}
        members = np.zeros((len(cells), len(known.names)))
        for row, (cell, names) in enumerate(zip(cells, groups, strict=True)):
            members[row, [index[effect_name(cell.network, name)] for name in names]] = 1.0
        size = len(parameters.priors)

        def linearised(theta: Floats) -> tuple[Floats, Floats]:
            mean, slopes = steps.linearised(theta[:size])
            whole = members.copy()
            whole[:, :size] += slopes
            # Effects of earlier trials are among the parameters, new ones come after them.
            return mean + members @ theta + (0.0 if centres is None else centres), whole

        return known, linearised


def _rows_by_effects(
    cells: Sequence[Cell], state: frozenset[str]
) -> dict[str, dict[tuple[str, ...], list[int]]]:
    """Rows by network and by their groups of effects; of a user's rows, only those in the `state`."""
    result: dict[str, dict[tuple[str, ...], list[int]]] = {}
    for row, cell in enumerate(cells):
        groups = tuple(effect_groups(cell.step.conditions).values())
        own = own_group(cell.step.conditions) if state else None
        if own and effect_name(cell.network, own) in state:
            groups = *groups, own
        result.setdefault(cell.network, {}).setdefault(groups, []).append(row)
    return result


def _known(posterior: Posterior, network: str, wanted: Sequence[str]) -> Gaussian:
    """The network's effects that are not in the state yet; those without rows have their prior."""
    held = set(posterior.names)
    existing = None if network in posterior.joint else posterior.effects.get(network)
    taught = existing.names if existing else ()
    fresh = [group for group in wanted if group not in taught and effect_name(network, group) not in held]
    parts = [believed(fresh, [Prior(0.0, EFFECTS[group.partition("/")[0]]) for group in fresh])]
    known = joined([existing, *parts] if existing else parts)
    return Gaussian(tuple(effect_name(network, group) for group in known.names), known.mean, known.covariance)


def effect_name(network: str, group: str) -> str:
    """The name of an effect in the state."""
    return f"of/{network}/{group}"


def steps_of(steps: Sequence[Step], parameters: Parameters) -> Steps | CpuSteps:
    """The steps as columns; adds the parameters that they need to `parameters`."""
    if steps and isinstance(steps[0].conditions, CpuConditions):
        return cpu_step_time.steps_of(steps, parameters)
    return step_time.steps_of(steps, parameters)
