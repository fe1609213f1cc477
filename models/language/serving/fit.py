"""Fits the effects of serving on measured rows: robust maximum a posteriori.

Student-t weights keep wrong rows of public sources from bending the rest; every source has a
scatter of its own in each quantity.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.models.language.serving.effects import Design, Setting, design_of
from advisor.models.language.serving.seconds import Logs, request_seconds, static_batch_seconds
from advisor.models.language.serving.work import Floats, Work, work_of
from advisor.models.performance.step_parameters import Parameters, Prior

Integers = NDArray[np.intp]

# What a row tells: seconds of each token and of the first one in a closed loop, of a whole batch,
# and of each output token of the replica where as many sequences are in flight as memory holds;
# `rate` is the same of a closed loop, and follows from the first two.
QUANTITIES = ("each_token", "first_token", "arriving", "batch", "saturated", "rate")
FITTED = QUANTITIES[:-1]
_NOISE = {"each_token": 0.1, "first_token": 0.25, "arriving": 0.25, "batch": 0.1, "saturated": 0.15}
_LEAST_NOISE = 0.05
_MOST_OF_A_LINE = 8
_DEGREES = 4.0
_MOST_STEPS, _CLOSE, _LONGEST, _DIFFERENCE = 30, 2e-4, 1.0, 1e-4
_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 1e-3, 1e-7, 1e4


class MeasuredValue(NamedTuple):
    """One measured value: seconds of a quantity with `sequences` in flight, of `arrivals` a
    second where requests come by themselves."""

    setting: Setting
    quantity: str
    sequences: float
    input_tokens: float
    output_tokens: float
    seconds: float
    arrivals: float = 0.0


class Measured(NamedTuple):
    """Rows as columns, with the design of their logs."""

    work: Work
    design: Design
    members: Mapping[str, Integers]
    sequences: Floats
    input_tokens: Floats
    output_tokens: Floats
    arrivals: Floats

    def log_seconds(self, logs: Floats) -> Floats:
        """Log seconds (n,) for logs (n, logs)."""
        result = np.empty(len(logs))
        for quantity, rows in self.members.items():
            work = self.work.take(rows)
            sizes = (self.sequences[rows], self.input_tokens[rows], self.output_tokens[rows])
            of_rows = Logs(*logs[rows].T)
            if quantity == "batch":
                seconds = static_batch_seconds(work, of_rows, *sizes)
            elif quantity == "arriving":
                seconds = request_seconds(work, of_rows, *sizes, arrivals=self.arrivals[rows]).first_token
            else:
                phase = "rate" if quantity == "saturated" else quantity
                seconds = getattr(request_seconds(work, of_rows, *sizes), phase)
            result[rows] = np.log(seconds)
        return result

    def linearised(self, theta: Floats) -> tuple[Floats, Floats]:
        """Log seconds (n,) at parameters (p,), and their slopes (n, p)."""
        logs = self.design.logs(theta)
        mean = self.log_seconds(logs)
        of_logs = np.empty_like(logs)
        for log in range(logs.shape[1]):
            moved = logs.copy()
            moved[:, log] += _DIFFERENCE
            of_logs[:, log] = (self.log_seconds(moved) - mean) / _DIFFERENCE
        return mean, self.design.slopes(of_logs, len(theta))


def measured(rows: Sequence[MeasuredValue], parameters: Parameters) -> Measured:
    """The rows as columns; parameters that they need are added to `parameters`."""
    quantities = np.array([row.quantity for row in rows])
    return Measured(
        work=work_of([row.setting.deployment for row in rows]),
        design=design_of([row.setting for row in rows], parameters),
        members={q: np.flatnonzero(quantities == q) for q in QUANTITIES if (quantities == q).any()},
        sequences=np.array([row.sequences for row in rows], dtype=float),
        input_tokens=np.array([row.input_tokens for row in rows], dtype=float),
        output_tokens=np.array([row.output_tokens for row in rows], dtype=float),
        arrivals=np.array([row.arrivals for row in rows], dtype=float),
    )


class Fit(NamedTuple):
    """Parameters with their priors, at the maximum, with their covariance; the values that were
    left after thinning, their residuals and their noise (n,)."""

    names: tuple[str, ...]
    prior: Sequence[Prior]
    mean: Floats
    covariance: Floats
    rows: Sequence[MeasuredValue]
    residuals: Floats
    noise: Floats


def thinned(rows: Sequence[MeasuredValue]) -> list[MeasuredValue]:
    """At most `_MOST_OF_A_LINE` values of one deployment, source and quantity, spread over its
    requests and sequences: more of them tell what those do, and count as if they did not."""
    lines: dict[Hashable, list[MeasuredValue]] = defaultdict(list)
    for row in rows:
        setting, deployment = row.setting, row.setting.deployment
        lines[
            (
                row.quantity,
                setting.source,
                setting.eager,
                deployment.model.name,
                deployment.gpu.name,
                *deployment[1:4],
                *deployment[5:],
            )
        ].append(row)
    result = []
    for line in lines.values():
        line.sort(key=lambda row: (row.input_tokens, row.output_tokens, row.sequences))
        places = np.unique(np.linspace(0, len(line) - 1, _MOST_OF_A_LINE).round().astype(int))
        result += [line[place] for place in places]
    return result


def fitted(rows: Sequence[MeasuredValue], near: Fit | None = None) -> Fit:
    """Fit on the values of `FITTED`, from the priors, or from a fit on more of the same values:
    that is a third of the way."""
    rows = thinned([row for row in rows if row.quantity in FITTED])
    parameters = Parameters()
    columns = measured(rows, parameters)
    prior = np.array([entry.mean for entry in parameters.priors])
    precision = np.array([entry.sigma for entry in parameters.priors]) ** -2.0
    log_measured = np.log([row.seconds for row in rows])
    scatter = Scatter(rows)
    known = dict(zip(near.names, near.mean.tolist(), strict=True)) if near else {}
    damping = _DAMPING
    theta = np.array([known.get(name, at) for name, at in zip(parameters.names, prior, strict=True)])
    mean, slopes = columns.linearised(theta)
    noise, weights = scatter.of(log_measured - mean) if near else (scatter.noise, np.ones(len(rows)))
    for _ in range(_MOST_STEPS):
        by_row = weights / noise**2
        residuals = log_measured - mean
        before = float(by_row @ residuals**2 + precision @ (theta - prior) ** 2)
        weighted = slopes * by_row[:, None]
        hessian = slopes.T @ weighted + np.diag(precision)
        gradient = weighted.T @ residuals - precision * (theta - prior)
        while True:
            step = np.linalg.solve(hessian + damping * np.diag(np.diag(hessian)), gradient)
            after = theta + np.clip(step, -_LONGEST, _LONGEST)
            rest = log_measured - columns.log_seconds(columns.design.logs(after))
            now = float(by_row @ rest**2 + precision @ (after - prior) ** 2)
            if now <= before or damping > _MOST_DAMPING:
                break
            damping *= 5
        damping = max(damping / 5, _LEAST_DAMPING)
        theta = after
        mean, slopes = columns.linearised(theta)
        noise, weights = scatter.of(log_measured - mean)
        if before - now < _CLOSE * before:
            break
    weighted = slopes * (weights / noise**2)[:, None]
    covariance = np.linalg.inv(slopes.T @ weighted + np.diag(precision))
    return Fit(
        parameters.names, parameters.priors, theta, np.asarray(covariance), rows, log_measured - mean, noise
    )


class Scatter:
    """The scatter of each source in each quantity, from residuals, and weights of a Student t."""

    def __init__(self, rows: Sequence[MeasuredValue]) -> None:
        labels = [f"{row.quantity}/{row.setting.source}" for row in rows]
        distinct, code = np.unique(labels, return_inverse=True)
        self._members = [np.flatnonzero(code == place) for place in range(len(distinct))]
        self.noise = np.array([_NOISE[row.quantity] for row in rows])

    def of(self, residuals: Floats) -> tuple[Floats, Floats]:
        """Noise and weights, each (n,), after residuals (n,)."""
        for members in self._members:
            usual = 1.4826 * float(np.median(np.abs(residuals[members])))
            self.noise[members] = max(usual, _LEAST_NOISE)
        left = residuals / self.noise
        return self.noise, (_DEGREES + 1) / (_DEGREES + left**2)
