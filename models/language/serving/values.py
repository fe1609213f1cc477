"""Measured values of served models as columns, and the log seconds that parameters give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.models.bayes import Floats, Parameters
from advisor.models.language.serving.effects import Design, Setting, design_of
from advisor.models.language.serving.seconds import (
    Logs,
    Requests,
    closed_loop_seconds,
    open_loop_seconds,
    static_batch_seconds,
)
from advisor.models.language.serving.work import work_of

Integers = NDArray[np.intp]

# What a row tells: seconds of each token and of the first one in a closed loop, of a whole batch,
# and of each output token of the replica where as many sequences are in flight as memory holds;
# `rate` is the same of a closed loop, and follows from the first two.
QUANTITIES = ("each_token", "first_token", "arriving", "batch", "saturated", "rate")
_DIFFERENCE = 1e-4


class MeasuredValue(NamedTuple):
    """Seconds of a quantity with `sequences` in flight, or at `arrivals` a second."""

    setting: Setting
    quantity: str
    sequences: float
    input_tokens: float
    output_tokens: float
    seconds: float
    arrivals: float = 0.0
    starts_together: bool = True


class Measured(NamedTuple):
    """Rows as columns, with the design of their logs."""

    requests: Requests
    design: Design
    members: Mapping[str, Integers]
    sequences: Floats
    arrivals: Floats

    def log_seconds_of(self, logs: Floats) -> Floats:
        """Log seconds (n,) for logs (n, logs)."""
        result = np.empty(len(logs))
        for quantity, rows in self.members.items():
            of_rows = self.requests.take(rows), Logs(*logs[rows].T), self.sequences[rows]
            if quantity == "batch":
                seconds = static_batch_seconds(*of_rows)
            elif quantity == "arriving":
                seconds = open_loop_seconds(*of_rows, self.arrivals[rows]).first_token
            else:
                phase = "rate" if quantity == "saturated" else quantity
                seconds = getattr(closed_loop_seconds(*of_rows), phase)
            result[rows] = np.log(seconds)
        return result

    def log_seconds(self, theta: Floats) -> Floats:
        """Log seconds (n,) at parameters (p,)."""
        return self.log_seconds_of(self.design.logs(theta))

    def linearised(self, theta: Floats) -> tuple[Floats, Floats]:
        """Log seconds (n,) at parameters (p,), and their slopes (n, p)."""
        logs = self.design.logs(theta)
        mean = self.log_seconds_of(logs)
        of_logs = np.empty_like(logs)
        for log in range(logs.shape[1]):
            moved = logs.copy()
            moved[:, log] += _DIFFERENCE
            of_logs[:, log] = (self.log_seconds_of(moved) - mean) / _DIFFERENCE
        return mean, self.design.slopes(of_logs, len(theta))


def measured(rows: Sequence[MeasuredValue], parameters: Parameters) -> Measured:
    """The rows as columns; adds the parameters that they need to `parameters`."""
    quantities = np.array([row.quantity for row in rows])
    numbers = [
        (row.sequences, row.input_tokens, row.output_tokens, row.arrivals, row.starts_together)
        for row in rows
    ]
    columns = np.array(numbers, dtype=float).reshape(-1, 5).T
    sequences, input_tokens, output_tokens, arrivals, starts_together = columns
    alike = np.zeros(len(rows))
    return Measured(
        requests=Requests(
            work_of([row.setting.deployment for row in rows]),
            input_tokens,
            computed_tokens=input_tokens,
            output_tokens=output_tokens,
            held=sequences,
            input_sigma=alike,
            output_sigma=alike,
            burstiness=np.ones(len(rows)),
            tower_tokens=alike,
            think_seconds=alike,
            starts_together=starts_together,
        ),
        design=design_of([row.setting for row in rows], parameters),
        members={q: np.flatnonzero(quantities == q) for q in QUANTITIES if (quantities == q).any()},
        sequences=sequences,
        arrivals=arrivals,
    )
