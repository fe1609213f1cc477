"""An emulated-GPU trial beside the same loop written by hand (`plain_loop`), in turns.

Both have the whole machine, one process a vCPU in the loader and the same photographs; the trial runs as in a
sweep."""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import Any

from advisor.domain import Status, Task, Trial
from advisor.runs.sweeps.sweeping import local_machine
from benchmarks.rates.trials import Cell, emulated_trials, one_run

# AlexNet takes batches faster than any loader delivers; VGG-16 is what an emulated T4 binds.
_NETWORKS = (("alexnet", 32), ("vgg16", 32))
_SECONDS = 6.0


def figures(count: int) -> dict[str, Any]:
    """Ratios of the trial's rate to that of the loop by hand, half of the pairs for a network that
    the loader binds, the others for one that the emulated GPU does."""
    trials = emulated_trials(cells(float(local_machine().cpus)), seconds=_SECONDS)
    ratios: dict[str, list[float]] = {trial.workload.network: [] for trial in trials}
    for number in range(count):
        trial = trials[number % len(trials)]
        rates = _pair(trial, trial_first=number // len(trials) % 2 == 0)
        if rates is None:
            continue
        ratios[trial.workload.network].append(rates[0] / rates[1])
        sys.stderr.write(f"{number + 1} of {count}: {rates[0]:.1f} and {rates[1]:.1f}/s by hand\n")
    every = [ratio for found in ratios.values() for ratio in found]
    if not every:
        raise SystemExit("neighbours spoiled every trial: measure on a quiet machine")
    return {
        "pairs": len(every),
        "spoiled": count - len(every),
        "median_ratio": round(statistics.median(every), 4),
        "median_apart_percent": round(100 * statistics.median(abs(r - 1) for r in every), 2),
        "largest_apart_percent": round(100 * max(abs(r - 1) for r in every), 2),
        "ratios": {name: [round(ratio, 4) for ratio in found] for name, found in ratios.items()},
    }


def cells(vcpus: float) -> list[Cell]:
    """One that the loader binds, and one that the emulated GPU does."""
    return [Cell(network, Task.INFERENCE, vcpus, batch) for network, batch in _NETWORKS]


def _pair(trial: Trial, *, trial_first: bool) -> tuple[float, float] | None:
    """Samples per second of the trial and of the loop; None where neighbours spoiled the trial."""
    by_hand = None if trial_first else _by_hand(trial)
    row = one_run(trial)
    by_hand = by_hand or _by_hand(trial)
    rate = row.throughput_samples_per_second
    if row.status is not Status.OK or rate is None:
        sys.stderr.write(f"{row.status}: {row.reason}\n")
        return None
    return rate, by_hand


def _by_hand(trial: Trial) -> float:
    arguments = (
        trial.dataset_path,
        trial.workload.batch_size,
        trial.plan["loader_workers"],
        trial.emulated_step_seconds,
        _SECONDS,
    )
    command = [sys.executable, "-m", "benchmarks.rates.plain_loop", *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)
