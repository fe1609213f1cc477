"""One Gaussian posterior over everything that is not known of step times.

The state holds the parameters of `step_time` and, network by network, effects that its own rows
taught: of the network, of its task, number format, layout, stack and of a GPU's cell. Published
rows made it; a user's rows condition it further, by the same algebra.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from advisor.records import dataclass
from models.performance.step_time import (
    NOTHING,
    Conditions,
    Floats,
    Parameters,
    Step,
    log_seconds_and_slopes,
    steps_of,
)

# Deviations of log seconds between a network and others like it, by what they are tied to.
EFFECTS: Mapping[str, float] = {
    "network": 0.18, "task": 0.1, "bits": 0.12, "format": 0.08, "stack": 0.12, "gpu": 0.1,
    "cell": 0.08,
}  # fmt: skip
_MOST_UPDATES, _CLOSE = 3, 1e-3
_NO_REACH = 1e-3


class Cell(NamedTuple):
    """A step of a named network, to be predicted or measured."""

    network: str
    step: Step


class Estimates(NamedTuple):
    """Log seconds of n steps: means and variances, each of shape (n,)."""

    mean: Floats
    variance: Floats


class Effects(NamedTuple):
    """What is known of one network beside its operations: names, means, covariance."""

    names: tuple[str, ...]
    mean: Floats
    covariance: Floats


def effect_groups(conditions: Conditions) -> dict[str, str]:
    """By kind of `EFFECTS`, the group that a step belongs to within its network."""
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


@dataclass(frozen=True, slots=True)
class Posterior:
    """Means (p,) and covariance (p, p) of named parameters; `effects` of networks by name.

    `joint` names networks whose effects already stand in the state, as conditioning puts them.
    """

    names: tuple[str, ...]
    mean: Floats
    covariance: Floats
    effects: Mapping[str, Effects]
    joint: frozenset[str] = frozenset()

    def predict(self, cells: Sequence[Cell], centres: Floats | None = None) -> Estimates:
        """Log seconds of each cell; `centres` (n,) is what networks like it deviate by."""
        known = self._linear(cells)
        mean = known.mean if centres is None else known.mean + centres
        return Estimates(mean, known.variance)

    def differences(self, cells: Sequence[Cell], others: Sequence[Cell]) -> Estimates:
        """Log seconds of each cell less those of its other one (n,).

        What both have in common is not in doubt: the network's own effect, most of the GPU's.
        """
        each = np.eye(len(cells))
        return self._linear([*cells, *others], np.hstack([each, -each]))

    def _linear(self, cells: Sequence[Cell], mixed: Floats | None = None) -> Estimates:
        """Log seconds of each cell, or of each row of `mixed` (m, n), a weighted sum of cells."""
        parameters = self._parameters()
        steps = steps_of([cell.step for cell in cells], parameters)
        inner = len(self.names)
        theta = np.append(self.mean, [prior.mean for prior in parameters.priors[inner:]])
        mean, slopes = log_seconds_and_slopes(steps, theta)
        known, fresh = self._effects_of(cells)
        for row, name in known:
            place = parameters.place[name]
            slopes[row, place] += 1.0
            mean[row] += theta[place]
        members = dict(self._members_of(fresh, len(cells)))
        for effects, held in members.values():
            mean += held @ effects.mean
        if mixed is not None:
            mean, slopes = mixed @ mean, mixed @ slopes
            members = {name: (one, mixed @ held) for name, (one, held) in members.items()}
        # What moves a step by less than a thousandth adds nothing; row by row, so that an answer
        # does not depend on what else is asked.
        held = slopes[:, :inner]
        held = np.where(np.abs(held) * np.sqrt(self.covariance.diagonal()) > _NO_REACH, held, 0.0)
        used = np.flatnonzero(held.any(axis=0))
        variance = _variances(held[:, used], self.covariance[np.ix_(used, used)])
        sigmas = np.array([prior.sigma for prior in parameters.priors[inner:]])
        variance += np.square(slopes[:, inner:]) @ np.square(sigmas)
        for effects, held in members.values():
            variance += _variances(held, effects.covariance)
        return Estimates(mean, variance)

    def _members_of(
        self, fresh: Mapping[str, list[tuple[int, list[str]]]], count: int
    ) -> Iterator[tuple[str, tuple[Effects, Floats]]]:
        """By network its effects, and which of them each of `count` rows has (count, effects)."""
        for network, rows in fresh.items():
            wanted = dict.fromkeys(group for _, groups in rows for group in groups)
            effects = _known(self, network, list(wanted))
            at = {name: place for place, name in enumerate(effects.names)}
            held = np.zeros((count, len(at)))
            for row, groups in rows:
                held[row, [at[effect_name(network, group)] for group in groups]] = 1.0
            yield network, (effects, held)

    def has_effect(self, network: str, group: str) -> bool:
        """Whether a row of the network taught the effect of a group, such as `stack/compile`."""
        taught = self.effects.get(network)
        inside = effect_name(network, group) in self.names
        return inside or (taught is not None and group in taught.names)

    def _parameters(self) -> Parameters:
        """Places of the posterior's parameters; what a step needs beside them follows."""
        parameters = Parameters()
        parameters.place = {name: place for place, name in enumerate(self.names)}
        parameters.priors = [NOTHING] * len(self.names)
        return parameters

    def _effects_of(
        self, cells: Sequence[Cell]
    ) -> tuple[list[tuple[int, str]], dict[str, list[tuple[int, list[str]]]]]:
        """Effects that stand in the state, by row, and the others' groups, by network and row."""
        held = set(self.names) if self.joint else set()
        known: list[tuple[int, str]] = []
        fresh: dict[str, list[tuple[int, list[str]]]] = {}
        for row, cell in enumerate(cells):
            groups = list(effect_groups(cell.step.conditions).values())
            inside = [g for g in groups if effect_name(cell.network, g) in held]
            known += [(row, effect_name(cell.network, group)) for group in inside]
            outside = [group for group in groups if group not in inside]
            fresh.setdefault(cell.network, []).append((row, outside))
        return known, fresh

    def condition(
        self, cells: Sequence[Cell], log_measured: Floats, sigma: Floats,
        centres: Floats | None = None,
    ) -> Posterior:  # fmt: skip
        """The posterior once the cells are measured: log seconds with their standard errors (n,).

        A Gauss-Newton update, repeated since a step's time bends with its parameters.
        """
        state = _state(self, cells)
        theta, noise = state.mean, np.diag(np.square(sigma))
        gain = slopes = np.zeros((0, 0))
        for _ in range(_MOST_UPDATES):
            mean, slopes = _linearised(state, cells, theta)
            if centres is not None:
                mean = mean + centres
            gain = np.linalg.solve(
                slopes @ state.covariance @ slopes.T + noise, slopes @ state.covariance
            ).T
            after = state.mean + gain @ (log_measured - mean - slopes @ (state.mean - theta))
            moved = float(np.abs(after - theta).max())
            theta = after
            if moved < _CLOSE:
                break
        covariance = state.covariance - gain @ slopes @ state.covariance
        joint = self.joint | {cell.network for cell in cells}
        return Posterior(state.names, theta, (covariance + covariance.T) / 2, self.effects, joint)


class _State(NamedTuple):
    parameters: Parameters
    names: tuple[str, ...]
    mean: Floats
    covariance: Floats
    place: Mapping[str, int]


def _state(posterior: Posterior, cells: Sequence[Cell]) -> _State:
    """The posterior's parameters, then those that the cells need and it does not have."""
    parameters = posterior._parameters()
    steps_of([cell.step for cell in cells], parameters)
    fresh = [(name, parameters.priors[place]) for name, place in parameters.place.items()
             if place >= len(posterior.names)]  # fmt: skip
    names = [*posterior.names, *(name for name, _ in fresh)]
    blocks = [np.diag([prior.sigma**2 for _, prior in fresh])] if fresh else []
    means = [posterior.mean, np.array([prior.mean for _, prior in fresh])]
    for network in dict.fromkeys(cell.network for cell in cells):
        wanted = _wanted(network, cells)
        effects = _known(posterior, network, wanted)
        names += effects.names
        means.append(effects.mean)
        blocks.append(effects.covariance)
    place = {name: at for at, name in enumerate(names)}
    size = len(names)
    covariance = np.zeros((size, size))
    covariance[: len(posterior.names), : len(posterior.names)] = posterior.covariance
    at = len(posterior.names)
    for block in blocks:
        covariance[at : at + len(block), at : at + len(block)] = block
        at += len(block)
    return _State(parameters, tuple(names), np.concatenate(means), covariance, place)


def _wanted(network: str, cells: Iterable[Cell]) -> list[str]:
    groups = (
        group
        for cell in cells
        if cell.network == network
        for group in effect_groups(cell.step.conditions).values()
    )
    return list(dict.fromkeys(groups))


def _known(posterior: Posterior, network: str, wanted: Sequence[str]) -> Effects:
    """Effects that are not in the state yet; what no row taught has its prior."""
    held = set(posterior.names)
    known = None if network in posterior.joint else posterior.effects.get(network)
    names = list(known.names) if known else []
    fresh = [
        group for group in wanted
        if group not in names and effect_name(network, group) not in held
    ]  # fmt: skip
    prior = [EFFECTS[group.partition("/")[0]] ** 2 for group in fresh]
    size = len(names)
    covariance = np.diag([0.0] * size + prior)
    if known:
        covariance[:size, :size] = known.covariance
    mean = np.concatenate([known.mean if known else np.zeros(0), np.zeros(len(fresh))])
    return Effects(
        tuple(effect_name(network, group) for group in [*names, *fresh]), mean, covariance
    )


def _variances(rows: Floats, covariance: Floats) -> Floats:
    """Of each row's weighted sum, shape (n,)."""
    found: Floats = ((rows @ covariance) * rows).sum(axis=1)
    return found


def effect_name(network: str, group: str) -> str:
    """How an effect is called in the state."""
    return f"of/{network}/{group}"


def _linearised(state: _State, cells: Sequence[Cell], theta: Floats) -> tuple[Floats, Floats]:
    """Means (n,) at `theta` and slopes (n, state)."""
    # Places were given in the order of the state, so steps read the state itself.
    steps = steps_of([cell.step for cell in cells], state.parameters)
    inner = len(state.parameters.place)
    mean, slopes = log_seconds_and_slopes(steps, theta[:inner])
    effects = np.zeros((len(cells), len(theta)))
    for row, cell in enumerate(cells):
        for group in effect_groups(cell.step.conditions).values():
            effects[row, state.place[effect_name(cell.network, group)]] = 1.0
    whole = effects.copy()
    whole[:, :inner] += slopes
    # Earlier trials' effects stand among the parameters, fresh ones behind them.
    return mean + effects @ theta, whole
