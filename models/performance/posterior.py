"""One Gaussian posterior over all unknowns of step times, and the kinship of networks.

Its state holds the parameters of `step_time` and, for each network, effects learned from rows of that
network: of the network, its task, number format, layout, stack, and of a GPU's cell. It was fitted to
published rows; a user's rows condition it further by the same algebra."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from advisor.models.bayes import Floats, Gaussian, Linearised, Parameters, Prior, believed, joined, variances
from advisor.models.network_columns import KINDS
from advisor.models.performance import cpu_step_time, step_time
from advisor.models.performance.cpu_step_time import CpuConditions, CpuSteps
from advisor.models.performance.step_parameters import HOST, Conditions, Step, script_bits
from advisor.models.performance.step_time import Steps, class_seconds

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
    bits, gpu = script_bits(conditions.precision), conditions.gpu.name
    stack = "compile" if conditions.stack == "compile" else "eager"
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

    def differences(self, cells: Sequence[Cell], others: Sequence[Cell]) -> Estimates:
        """Log seconds of each of `cells` minus those of the same row of `others` (n,).

        Effects that both have in common, such as the network's, cancel in the variance."""
        each = np.eye(len(cells))
        return self.predict([*cells, *others], np.hstack([each, -each]))

    def predict(self, cells: Sequence[Cell], mixed: Floats | None = None) -> Estimates:
        """Log seconds of each cell, or of each row of `mixed` (m, n), a weighted sum of cells."""
        parts, linearised = self._parts_of(cells)
        mean, slopes = linearised(np.concatenate([part.mean for part in parts]))
        names = (*self.names, *parts[1].names)
        launching = slopes[:, names.index(HOST)] if HOST in names else np.zeros(len(cells))
        if mixed is not None:
            mean, slopes = mixed @ mean, mixed @ slopes
        # Parameters of the state that move a step by less than a thousandth are dropped, row by row, so that
        # a cell's result does not depend on the other cells.
        state = slopes[:, : len(self.names)]
        state[np.abs(state) * np.sqrt(self.covariance.diagonal()) <= _NO_REACH] = 0.0
        variance = sum(variances(held, covariance) for held, covariance in _used(parts, slopes))
        return Estimates(mean, np.asarray(variance), launching)

    def has_effect(self, network: str, group: str) -> bool:
        """True if the effect of a group, such as `stack/compile`, was learned from rows of the network."""
        taught = self.effects.get(network)
        inside = effect_name(network, group) in self.names
        return inside or (taught is not None and group in taught.names)

    def joint_estimates(self, cells: Sequence[Cell]) -> tuple[Floats, Floats]:
        """Log seconds of the cells: means (n,) and covariance (n, n)."""
        parts, linearised = self._parts_of(cells)
        mean, slopes = linearised(np.concatenate([part.mean for part in parts]))
        covariance = sum(held @ covariance @ held.T for held, covariance in _used(parts, slopes))
        return mean, np.asarray(covariance)

    def condition(self, cells: Sequence[Cell], log_measured: Floats, sigma: Floats) -> Posterior:
        """The posterior given measured log seconds of the cells, with standard errors `sigma` (n,)."""
        parts, linearised = self._parts_of(cells, own=True)
        after = joined(parts).updated(linearised, log_measured, sigma)
        joint = self.joint | {cell.network for cell in cells}
        return Posterior(after.names, after.mean, after.covariance, self.effects, joint)

    def _parts_of(self, cells: Sequence[Cell], *, own: bool = False) -> tuple[list[Gaussian], Linearised]:
        """Independent parts of what the cells need, and their log seconds: the state, further parameters, and
        the effects of each network that are not in the state. `own`: also those of a user's rows, of which
        otherwise the state's count."""
        parameters, known, state = self.parameters(), len(self.names), set(self.names)
        # Parameters keep the order of the state, so that steps can index it directly.
        steps = steps_of([cell.step for cell in cells], parameters)
        wanted: dict[str, dict[str, None]] = {}
        names_of_rows = []
        for cell in cells:
            groups = list(effect_groups(cell.step.conditions).values())
            group = own_group(cell.step.conditions)
            if group and (own or effect_name(cell.network, group) in state):
                groups.append(group)
            wanted.setdefault(cell.network, {}).update(dict.fromkeys(groups))
            names_of_rows.append([effect_name(cell.network, group) for group in groups])
        further = believed(parameters.names[known:], parameters.priors[known:])
        effects = [_known(self, network, list(groups)) for network, groups in wanted.items()]
        parts: list[Gaussian] = [self, further, *effects]
        index = {name: row for row, name in enumerate(itertools.chain(*(part.names for part in parts)))}
        members = np.zeros((len(cells), len(index)))
        for row, names in enumerate(names_of_rows):
            members[row, [index[name] for name in names]] = 1.0
        size = len(parameters.priors)

        def linearised(theta: Floats) -> tuple[Floats, Floats]:
            mean, slopes = steps.linearised(theta[:size])
            whole = members.copy()
            whole[:, :size] += slopes
            return mean + members @ theta, whole

        return parts, linearised


def _used(parts: Sequence[Gaussian], slopes: Floats) -> Iterator[tuple[Floats, Floats]]:
    """The slopes (n, u) by the parameters of each part that matter, and the covariance of those (u, u)."""
    first = 0
    for part in parts:
        of_part = slopes[:, first : first + len(part.names)]
        used = np.flatnonzero(of_part.any(axis=0))
        yield of_part[:, used], part.covariance[np.ix_(used, used)]
        first += len(part.names)


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


class StoredEffects(Mapping[str, Gaussian]):
    """Effects by network, decoded on access."""

    def __init__(self, networks: list[str], groups: list[str], arrays: Mapping[str, Any]) -> None:
        self._place = {name: position for position, name in enumerate(networks)}
        self._groups = groups
        self._first, self._packed_first = arrays["effect_first"], arrays["covariance_first"]
        self._group, self._mean = arrays["effect_group"], arrays["effect_mean"]
        self._packed = arrays["effect_covariance"]

    def __getitem__(self, network: str) -> Gaussian:
        position = self._place[network]
        first, end = int(self._first[position]), int(self._first[position + 1])
        size = end - first
        packed = self._packed[int(self._packed_first[position]) : int(self._packed_first[position + 1])]
        covariance = np.zeros((size, size))
        covariance[np.tril_indices(size)] = packed
        covariance += np.tril(covariance, -1).T
        names = tuple(self._groups[group] for group in self._group[first:end].tolist())
        return Gaussian(names, self._mean[first:end].astype(float), covariance)

    def __iter__(self) -> Iterator[str]:
        return iter(self._place)

    def __len__(self) -> int:
        return len(self._place)


def posterior_of(meta: Mapping[str, Any], arrays: Any) -> Posterior:
    """The posterior in a file's arrays, with names from its `meta`."""
    deviation = arrays["deviation"].astype(float)
    covariance = arrays["correlation"].astype(float)
    covariance *= deviation[:, None]
    covariance *= deviation
    return Posterior(
        tuple(meta["names"]),
        arrays["mean"].astype(float),
        covariance,
        StoredEffects(meta["networks_with_effects"], meta["groups"], arrays),
    )


def quantiles_of(meta: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    """Sorted standardised residuals by group."""
    return {name: tuple(map(float, values)) for name, values in meta["quantiles"].items()}


# (variance, length in standard deviations of the features) of the process's two scales.
_SCALES = ((0.02, 6.0), (0.01, 2.5))
_NEAREST = 80
_FURTHEST = 4.0


class Kinship(Struct, frozen=True):
    """A Gaussian process over the mix of operations in a step: networks with similar ones deviate alike.

    The roofline's residual is much the same on every GPU, and similar for networks that spend their time on
    the same kinds of operations. A step that was never measured gets its residual from the nearest measured
    steps, with more variance the further away they are. The measured steps have standardised features (n, d),
    residuals and their noise variances (n,)."""

    centre: Floats
    spread: Floats
    features: Floats
    residuals: Floats
    noise: Floats
    level: float

    def deviation(self, features: Floats) -> tuple[float, float]:
        """Mean and variance of the deviation of log seconds from the roofline, at the features (d,)."""
        point = standardised(features, self.centre, self.spread)
        away = np.sqrt(((self.features - point) ** 2).sum(axis=1))
        near = np.argsort(away)[:_NEAREST]
        between = self.features[near]
        # Row by row: all at once takes megabytes, and several times as long.
        apart = np.array([np.sqrt(((between - other) ** 2).sum(axis=1)) for other in between])
        to = covariance(away[near])
        weights = np.linalg.solve(covariance(apart) + np.diag(self.noise[near]), to)
        mean = self.level + float(weights @ (self.residuals[near] - self.level))
        return mean, max(sum(share for share, _ in _SCALES) - float(weights @ to), 0.0)


def covariance(distances: Floats) -> Floats:
    """The sum of Matern 3/2 kernels at both scales of `_SCALES`."""
    result = np.zeros_like(distances)
    for share, scale in _SCALES:
        x = np.sqrt(3) * distances / scale
        result += share * (1 + x) * np.exp(-x)
    return result


def standardised(features: Floats, centre: Floats, spread: Floats) -> Floats:
    """Features centred and in units of `spread`, clipped to `_FURTHEST` on either side."""
    return np.asarray(np.clip((features - centre) / spread, -_FURTHEST, _FURTHEST), dtype=float)


def step_features(steps: Steps, kinds: np.ndarray, training: Sequence[bool], theta: Floats) -> Floats:
    """The features of each step: shares of its time by class of operation, shape (count, d).

    `kinds` (k,) indexes `KINDS` for each row of operations; `training` says whether each step trains."""
    compute, memory = class_seconds(steps, theta)
    together = np.sqrt(np.sqrt(compute**4 + memory**4))
    total = np.bincount(steps.step, together, steps.count)
    columns = []
    for kind in range(len(KINDS)):
        of_kind = kinds == kind
        for values in (together, compute):
            columns.append(np.bincount(steps.step[of_kind], values[of_kind], steps.count) / total)
    product = together * (steps.reduction > 1)
    weight = np.bincount(steps.step, product, steps.count) + 1e-12
    for size in (steps.reduction, steps.width, steps.outputs + 1):
        columns.append(np.bincount(steps.step, product * np.log(size), steps.count) / weight)
    columns.append(np.log(total))
    columns.append(np.log(steps.launches.sum(axis=1)))
    arithmetic = np.bincount(steps.step, compute, steps.count)
    columns.append(np.log((arithmetic + 1e-12) / np.bincount(steps.step, memory, steps.count)))
    return np.column_stack([*columns, 2.0 * np.array(training, float)])
