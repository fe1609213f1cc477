"""How well tuning rates, their bounds, GPU memory and load times do on rows that they never saw.

`python -m benchmarks.finetuning [--rows FILE.csv.gz] [--json]`: training rows with the columns of
infra/language_sources/training_rows.py, by default the committed ones. Each row is predicted by a
fit without its model's size, then without its GPU; bounds come from the residuals of the other
groups. Errors are relative, in percent.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from infra.language_sources.rows import read_table
from infra.language_sources.training_rows import TRAINING_PATH, TrainingRow
from models.language.bounds import Floats
from models.language.finetuning.fit import LeftOut, Measured, balanced, gpu_of, left_out, model_of
from models.language.finetuning.measured_rows import measured_rows, run_of
from models.language.finetuning.memory import finetuning_memory
from models.language.finetuning.predictor import GPU, MODEL, widths_of
from models.language.finetuning.tuning import Run
from models.language.gpus import bundled_gpu_facts
from models.language.ready import Loader, ready_seconds

LOADS_PATH = TRAINING_PATH.with_name("model_loads.csv")
CONFIDENCE = 0.9
# Parts of the rows that are told apart.
PARTS: Mapping[str, Callable[[Run], bool]] = {
    "all": lambda run: bool(run.tuning),
    "dense": lambda run: not run.tuning.model.experts,
    "one_host": lambda run: run.tuning.gpus <= run.switched,
    "16_bit": lambda run: not run.fp8,
    "adapters": lambda run: run.tuning.method != "full",
    "experts": lambda run: run.tuning.model.experts > 0,
}


def rate_scores(rows: Sequence[Measured], kind: str) -> dict[str, Any]:
    """Errors and bounds held, by part of the rows, each predicted without its group: its model or
    its GPU, as `kind` says."""
    group_of = {MODEL: model_of, GPU: gpu_of}[kind]
    result = left_out(rows, group_of)
    groups = np.array([group_of(row.run) for row in rows])
    held, half = _bounds(result, groups, kind)
    scores: dict[str, Any] = {}
    for name, inside in PARTS.items():
        chosen = np.array([inside(row.run) for row in rows])
        if chosen.any():
            scores[name] = _score(result.errors[chosen], held[:, chosen], half[chosen])
    by_group = {}
    for group in np.unique(groups).tolist():
        chosen = groups == group
        by_group[group] = _score(result.errors[chosen], held[:, chosen], half[chosen])
    return {"parts": scores, "groups": by_group}


def _bounds(result: LeftOut, groups: Any, kind: str) -> tuple[Floats, Floats]:
    """Whether lower and upper bounds held (2, n), and half widths of the log rate (n,)."""
    held, half = np.empty((2, len(groups))), np.empty(len(groups))
    for group in np.unique(groups).tolist():
        inside = groups == group
        others = result.standardised[~inside]
        alike = sorted(others.tolist()) if kind == MODEL else balanced(others, groups[~inside])
        widths = widths_of(kind, alike, CONFIDENCE)
        residual = result.standardised[inside]
        held[0, inside] = residual <= widths.lower
        held[1, inside] = residual >= -widths.upper
        half[inside] = (widths.lower + widths.upper) / 2 * result.deviation[inside]
    return held, half


def _score(errors: Floats, held: Floats, half: Floats) -> dict[str, float]:
    lower, upper = (round(100 * float(side.mean()), 1) for side in held)
    return {
        "rows": len(errors),
        "mean": round(100 * float(errors.mean()), 1),
        "median": round(100 * float(np.median(errors)), 1),
        "lower_held": lower,
        "upper_held": upper,
        "half_width_log": round(float(np.median(half)), 2),
    }


def memory_scores(rows: Sequence[TrainingRow]) -> dict[str, Any]:
    """Computed peaks against measured ones. Runs over several GPUs by context are left out: a
    question cannot ask for them."""
    gpus = bundled_gpu_facts()
    told = [row for row in rows if row.context_parallel == 1 and row.peak_memory_gib > 0]
    computed = [finetuning_memory(run_of(row, gpus).tuning) for row in told]
    ratios = [one.total_gib / row.peak_memory_gib for one, row in zip(computed, told, strict=True)]
    above = [row.peak_memory_gib > one.upper_gib for one, row in zip(computed, told, strict=True)]
    return {
        "rows": len(told),
        "mean": round(100 * float(np.mean(np.abs(np.array(ratios) - 1))), 1),
        "worst": round(100 * (max(ratios, key=lambda ratio: abs(ratio - 1)) - 1), 1),
        "above_upper_bound": sum(above),
    }


def ready_scores(path: Path = LOADS_PATH) -> dict[str, Any]:
    """Seconds of loads and of starts against measured ones, Run:ai's streamer and mapped files."""
    errors: dict[str, list[float]] = {"load": [], "ready": []}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["loader"] == "tensorizer" or row["readers"] in ("1", "4"):
                continue
            loader = Loader.MAPPED if row["loader"] == "mmap" else Loader.STREAMED
            gib = float(row["weights_gb"]) * 1e9 / 2**30
            seconds = ready_seconds(gib, float(row["disk_mib_per_second"]), loader=loader)
            told = seconds.load if row["what"] == "load" else seconds.total
            errors[row["what"]].append(abs(float(told.median[0]) / float(row["seconds"]) - 1))
    return {
        what: {"rows": len(each), "mean": round(100 * float(np.mean(each)), 1),
               "worst": round(100 * max(each), 1)}
        for what, each in errors.items()
    }  # fmt: skip


def main() -> None:
    """Print the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, default=TRAINING_PATH)
    parser.add_argument("--json", action="store_true", help="as JSON, groups too")
    options = parser.parse_args()
    rows = read_table(TrainingRow, options.rows)
    measured = measured_rows(rows, bundled_gpu_facts())
    result: dict[str, Any] = {
        "model_left_out": rate_scores(measured, MODEL),
        "gpu_left_out": rate_scores(measured, GPU),
        "memory": memory_scores(rows),
        "ready": ready_scores(),
    }
    if options.json:
        print(json.dumps(result, indent=2))
        return
    for what in ("model_left_out", "gpu_left_out"):
        for part, score in result[what]["parts"].items():
            print(f"{what:15} {part:9} {score}")
    print("memory", result["memory"])
    print("ready", result["ready"])


if __name__ == "__main__":
    main()
