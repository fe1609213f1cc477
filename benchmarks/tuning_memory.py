"""How well memory and jobs of tuning, and seconds until an engine serves, agree with measured ones.

`python -m benchmarks.tuning_memory [--rows FILE.csv.gz]` prints JSON; errors are in percent.
Rates of tuning are scored by `python -m benchmarks.truth --language --tuning`.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from advisor.infra.build.fitting.tuning import run_of
from advisor.infra.build.language_sources.rows import read_table
from advisor.infra.build.language_sources.training_rows import TRAINING_PATH, TrainingRow
from advisor.models.language.finetuning.memory import finetuning_memory
from advisor.models.language.finetuning.stored import bundled_finetuning_predictor
from advisor.models.language.gpus import bundled_gpu_facts
from advisor.models.language.ready import Loader, load_seconds, ready_seconds

LOADS_PATH = TRAINING_PATH.with_name("model_loads.csv")


def memory_scores(rows: Sequence[TrainingRow]) -> dict[str, Any]:
    """Computed peaks against measured ones. Runs over several GPUs by context are left out: a
    question cannot ask for them."""
    gpus = bundled_gpu_facts()
    known = [row for row in rows if row.context_parallel == 1 and row.peak_memory_gib > 0]
    computed = [finetuning_memory(run_of(row, gpus).tuning) for row in known]
    ratios = [one.total_gib / row.peak_memory_gib for one, row in zip(computed, known, strict=True)]
    above = [row.peak_memory_gib > one.upper_gib for one, row in zip(computed, known, strict=True)]
    return {
        "rows": len(known),
        "mean": round(100 * float(np.mean(np.abs(np.array(ratios) - 1))), 1),
        "worst": round(100 * (max(ratios, key=lambda ratio: abs(ratio - 1)) - 1), 1),
        "above_upper_bound": sum(above),
    }


def job_scores(rows: Sequence[TrainingRow]) -> dict[str, Any]:
    """Seconds of jobs of unknown length: that is the one number that is taken from them. No row of
    these was fitted."""
    gpus, known = bundled_gpu_facts(), [row for row in rows if row.job_seconds > 0]
    runs = [run_of(row, gpus).tuning for row in known]
    rates = bundled_finetuning_predictor().tokens_per_second(runs).tokens_per_second.median
    tokens = rates * np.array([row.job_seconds for row in known])
    length = float(np.exp(np.median(np.log(tokens))))
    errors = 100 * np.abs(tokens / length - 1)
    cards = np.array([row.gpu for row in known])
    return {
        "rows": len(known),
        "million_tokens": round(length / 1e6, 2),
        "mean": round(float(errors.mean()), 1),
        "median": round(float(np.median(errors)), 1),
        "by_gpu": {card: round(float(errors[cards == card].mean()), 1) for card in np.unique(cards).tolist()},
    }


def ready_scores(path: Path = LOADS_PATH) -> dict[str, Any]:
    """Seconds of loads and of starts against measured ones, Run:ai's streamer and mapped files."""
    errors: dict[str, list[float]] = {"load": [], "ready": []}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["loader"] == "tensorizer" or row["readers"] in ("1", "4"):
                continue
            loader = Loader.MAPPED if row["loader"] == "mmap" else Loader.STREAMED
            predicted = {"load": load_seconds, "ready": ready_seconds}[row["what"]](
                float(row["weights_gb"]) * 1e9 / 2**20, float(row["disk_mib_per_second"]), loader=loader
            )
            errors[row["what"]].append(abs(predicted.median / float(row["seconds"]) - 1))
    return {
        what: {
            "rows": len(each),
            "mean": round(100 * float(np.mean(each)), 1),
            "worst": round(100 * max(each), 1),
        }
        for what, each in errors.items()
    }


def main() -> None:
    """Print the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, default=TRAINING_PATH)
    rows = read_table(TrainingRow, parser.parse_args().rows)
    result = {"memory": memory_scores(rows), "jobs": job_scores(rows), "ready": ready_scores()}
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
