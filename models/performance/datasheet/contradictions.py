"""Finds measurements that contradict everything else that their source measured."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from models.performance.datasheet.records import RateRow
from models.performance.networks import Floats

# Log ratio. Libraries and GPUs shift one network against the others of its task and precision by
# tens of per cent; a factor of e is no property of a GPU.
_TOO_FAR = 1.0
# A row is judged by the others of its machine, and by other machines' rows of its workload.
_FEWEST = 3
_SWEEPS = 10


def contradicts_its_source(rows: Sequence[RateRow]) -> NDArray[np.bool_]:
    """Which rows lie a factor of e or more off what their machine and their workload suggest.

    A rate is told twice over: by what the machine reached with the other networks (same task and
    precision), and by what other machines reached with this one. Tukey's median polish takes both
    medians away in turn, so that single wrong rows stand out and do not bend the medians. No
    model, GPU or network is known here; rows with too few others are never accused.
    """
    machines = _codes([f"{row.source}/{row.task}/{row.precision}" for row in rows])
    workloads = _codes([row.workload for row in rows])
    left = np.log([row.samples_per_second for row in rows]) if rows else np.zeros(0)
    for _ in range(_SWEEPS):
        left = _without_medians(_without_medians(left, workloads), machines)
    judged = np.ones(len(rows), dtype=bool)
    for codes in (machines, workloads):
        judged &= np.bincount(codes)[codes] >= _FEWEST if len(rows) else judged
    wrong: NDArray[np.bool_] = judged & (np.abs(left) > _TOO_FAR)
    return wrong


def _codes(names: Sequence[str]) -> NDArray[np.intp]:
    return np.unique(np.array(names, dtype=str), return_inverse=True)[1]


def _without_medians(values: Floats, codes: NDArray[np.intp]) -> Floats:
    order = np.argsort(codes, kind="stable")
    edges = np.flatnonzero(np.diff(codes[order], prepend=-1, append=-1))
    left = values.copy()
    for start, stop in pairwise(edges):
        members = order[start:stop]
        left[members] -= np.median(values[members])
    return left
