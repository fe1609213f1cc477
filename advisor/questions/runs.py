"""How long a run is and what it may take, as a `Request` has it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from advisor.domain import DatasetProfile
from advisor.errors import UsageError


def run_answers(answers: Mapping[str, Any], dataset: DatasetProfile) -> dict[str, Any]:
    """Fields of a `Request`; `UsageError` where they do not go together."""
    epochs, samples = answers.get("epochs"), answers.get("samples")
    limits = {name: answers.get(name) for name in ("max_hours", "max_cost")}
    if epochs is not None and samples is not None:
        raise UsageError("--epochs and --samples both say how long a run is; give one of them")
    for name, value in limits.items():
        if value is not None and epochs is None and samples is None:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{option} limits a run: say how long it is with --epochs or --samples"
            )
    if epochs is not None and not math.isfinite(epochs * dataset.samples):
        raise UsageError(f"--epochs {epochs:g} of {dataset.name} is more than can be counted")
    if epochs is not None and epochs * dataset.samples < 1:
        raise UsageError(
            f"--epochs {epochs:g} of {dataset.name} is less than one of its {dataset.samples:,} "
            "samples; run at least one"
        )
    return {
        "epochs": epochs,
        "samples": samples,
        "max_hours": limits["max_hours"],
        "max_run_usd": limits["max_cost"],
    }
