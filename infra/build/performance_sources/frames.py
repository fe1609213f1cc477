"""Measured steps as one pandas frame, whoever measured them: a published table, the store, an anchor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from advisor.domain import Observation, Tf32
from advisor.models.performance.frames import Column, checked_frame

# A step of one GPU's batch; `source`, `framework`, `host`, `fit` and `licence` say where it comes from.
STEP_COLUMNS: Mapping[str, Column] = {
    "source": Column("str", meaning="who measured it, or where a user's own row stands"),
    "network": Column("str", meaning="a name of the network table"),
    "task": Column("str"),
    "stack": Column("str", meaning="eager, compile, torchscript, or another software than PyTorch"),
    "framework": Column("str", meaning="the software with its version"),
    "memory_format": Column("str"),
    "variant": Column("str", meaning="what its source says of attention"),
    "precision": Column("str"),
    "tf32": Column("str", meaning="computed in TF32 where the card can: none, conv, all"),
    "gpu": Column("str", meaning="as the source says it"),
    "gpu_count": Column("float64"),
    "batch_size": Column("float64", "samples", "of each GPU"),
    "input": Column("str", meaning="as the network table writes it; empty: the usual one"),
    "step_seconds": Column("float64", "s", "nan: a row of memory alone"),
    "sigma": Column("float64", "log", "standard error"),
    "peak_memory_mib": Column("float64", "MiB"),
    "host": Column("str"),
    "fit": Column("float64", meaning="1: may be fitted, 0: for evaluation"),
    "licence": Column("str"),
}
_TF32 = {Tf32.OFF: "none", Tf32.CONVOLUTIONS: "conv", Tf32.ON: "all"}
_OF_A_WORKLOAD = ("network", "input", "task", "batch_size", "precision", "stack", "memory_format")
_OWN = "own"


def records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame by the names of its columns."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def published_frame(path: Path) -> pd.DataFrame:
    """The steps of a CSV table of `STEP_COLUMNS`; OSError or ValueError where it cannot be read."""
    return checked_frame(pd.read_csv(path, low_memory=False), STEP_COLUMNS)


def observed_frame(observations: Iterable[Observation]) -> pd.DataFrame:
    """A frame of a user's own steps, from the store and from anchors."""
    rows = [
        {
            **{name: getattr(step.workload, name) for name in _OF_A_WORKLOAD},
            "source": _OWN,
            "tf32": _TF32[step.workload.tf32],
            "gpu": step.gpu.name,
            "gpu_count": 1,
            "step_seconds": step.seconds,
            "sigma": step.sigma,
            "peak_memory_mib": step.peak_mib,
            "host": step.origin,
            "fit": 1,
        }
        for step in observations
    ]
    return checked_frame(pd.DataFrame(rows, columns=list(STEP_COLUMNS)), STEP_COLUMNS)
