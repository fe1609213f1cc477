"""What the harness costs: the same network, the same DataLoader, one process.

A plain PyTorch loop against the worker's own step loop (step runner, timing, checking whether
enough is known), in turns of many short windows, so that a drift of the machine hits both alike.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from advisor.domain import ON_CPU, DatasetProfile, DiskRate, Resources, Task, Trial, Workload
from advisor.models.zoo.opening import open_network
from advisor.sweeps.datasets.opening import open_dataset
from advisor.sweeps.datasets.photographs import write_samples
from advisor.sweeps.worker.inputs import PhotographBatches
from advisor.sweeps.worker.step_runner import StepRunner
from advisor.sweeps.worker.timed_steps import TimeBox, timed_steps
from advisor.sweeps.worker.torch_engine import TorchEngine

_NETWORKS = (("alexnet", Task.INFERENCE, 8), ("googlenet", Task.INFERENCE, 4))
_ROUNDS = 6
_STEPS = 6
_SAMPLES = 256


def plain_loop(network: Any, batches: Any, steps: int) -> None:
    """What a user writes."""
    with torch.inference_mode():
        for _ in range(steps):
            images, _labels = next(batches)
            network(images)


def trial_of(name: str, task: Task, batch_size: int, folder: Path) -> Trial:
    """A trial on the whole machine."""
    profile = DatasetProfile(
        name="photographs",
        samples=_SAMPLES,
        bytes_per_sample=1e5,
        storage_format="jpeg-files",
        width=500,
        height=375,
    )
    return Trial(
        workload=Workload(network=name, task=task, batch_size=batch_size, dataset=profile),
        resources=Resources(vcpus=2, physical_cores=2, memory_mib=4096, disk=DiskRate(type="unlimited")),
        accelerator=ON_CPU,
        dataset_path=str(folder),
        plan={"loader_workers": 1, "prefetch_factor": 2},
    )


def compare(name: str, task: Task, batch_size: int, folder: Path) -> dict[str, Any]:
    """Rates of both loops over interleaved windows, and their ratio."""
    opened = open_network(name)
    trial = trial_of(name, task, batch_size, folder)
    engine = TorchEngine(opened, device="cpu", task=task, precision=trial.workload.precision)
    runner = StepRunner(engine, depth=0)
    # Checked after the first step and as the window grows; no interval is narrow enough.
    box = TimeBox(seconds=0.001, min_steps=1, max_seconds=600.0, rel_error=1e-9, most_steps=_STEPS)
    network = opened.build().eval()
    batches = PhotographBatches(trial, opened, open_dataset(folder))
    loops: dict[str, Callable[[], Any]] = {
        "plain": lambda: plain_loop(network, batches, _STEPS),
        "worker": lambda: timed_steps(runner, batches, box),
    }
    seconds: dict[str, list[float]] = {"plain": [], "worker": []}
    for loop in loops.values():
        loop()
    for number in range(_ROUNDS):
        for kind in random.Random(number).sample(sorted(loops), len(loops)):
            start = time.perf_counter()
            loops[kind]()
            seconds[kind].append(time.perf_counter() - start)
    batches.close()
    rates = {k: batch_size * _STEPS / statistics.median(v) for k, v in seconds.items()}
    pairs = [plain / worker for plain, worker in zip(seconds["plain"], seconds["worker"], strict=True)]
    return {
        "network": name,
        "batch_size": batch_size,
        "samples_per_second": {kind: round(rate, 1) for kind, rate in rates.items()},
        "ratio_of_medians": round(rates["worker"] / rates["plain"], 4),
        "median_ratio_of_pairs": round(statistics.median(pairs), 4),
    }


def figures() -> dict[str, Any]:
    """Of each network, on JPEG files that are made now."""
    with tempfile.TemporaryDirectory() as made:
        write_samples(Path(made), range(_SAMPLES), seed=0)
        torch.set_num_threads(1)
        return {"results": [compare(*one, Path(made)) for one in _NETWORKS]}
