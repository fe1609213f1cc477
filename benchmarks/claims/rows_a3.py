"""E01 to E08: how to choose a GPU (article A3)."""

from __future__ import annotations

import csv
import gzip

from advisor.catalog import load_catalog
from advisor.domain import Precision, Task
from advisor.infra.build.fitting.observations import OBSERVATIONS
from benchmarks.bundled_model import PUBLISHED_FOLDER
from benchmarks.claims.predicting import gpu_rate
from benchmarks.claims.words import Finding, Kind, Verdict, agrees_if, out_of_scope


def e01() -> Finding:
    """Volta is 5 times Pascal and 15 times Maxwell."""
    seconds = {gpu: _mxnet_step(gpu, Task.TRAINING) for gpu in ("V100", "P100", "M40")}
    inference = _mxnet_step("P100", Task.INFERENCE) / _mxnet_step("V100", Task.INFERENCE)
    pascal, maxwell = (seconds[gpu] / seconds["V100"] for gpu in ("P100", "M40"))
    return Finding(
        kind=Kind.PUBLISHED,
        verdict=Verdict.DIFFERS,
        ours=f"ResNet-50 training fp32, batch 32, MXNet: V100 {pascal:.2f} x P100, {maxwell:.2f} x "
        f"M40 (inference {inference:.2f} x P100)",
        why="A vendor's claim about tensor cores at their peak. In fp32, and outside matrix "
        "products, the generations are closer.",
        numbers={"over_pascal": round(pascal, 2), "over_maxwell": round(maxwell, 2)},
    )


def e02() -> Finding:
    """fp32 and fp16 for deep learning, fp64 for HPC, int8 for inference."""
    gain = gpu_rate("resnet50", "V100", 64, precision=Precision.AMP) / gpu_rate("resnet50", "V100", 64)
    formats = ", ".join(one.value for one in Precision)
    return Finding(
        kind=Kind.MODELLED,
        verdict=Verdict.PARTLY,
        ours=f"`--precision` takes {formats}; mixed precision trains ResNet-50 {gain:.1f} times as "
        "fast on a V100",
        why="int8 and fp64 are left out: no rates of PyTorch's eager mode are at hand for them.",
        numbers={"amp_over_fp32_v100": round(gain, 2)},
    )


def e03() -> Finding:
    """Large batches train, batches of 1 to 16 infer."""
    rates = {b: gpu_rate("resnet50", "T4", b, Task.INFERENCE) for b in (1, 16, 128)}
    milliseconds = {batch: 1e3 * batch / rate for batch, rate in rates.items()}
    told = ", ".join(
        f"batch {batch} {rates[batch]:.0f} images/s at {milliseconds[batch]:.0f} ms" for batch in rates
    )
    return Finding(
        kind=Kind.MODELLED,
        verdict=Verdict.PARTLY,
        ours=f"ResNet-50 inference on a T4: {told}",
        why="Within 16 images most of the throughput is reached at a tenth of the latency. The "
        "advisor sizes for throughput; `--batch-size` bounds the latency, there is no target of "
        "latency yet.",
        numbers={str(batch): round(rate, 1) for batch, rate in rates.items()},
    )


def e04() -> Finding:
    """Video streams of a P4."""
    return out_of_scope("video decoding on a GPU's own circuits: no network, no trial")


def e05() -> Finding:
    """A K80 is two chips."""
    from advisor.catalog import check

    catalog = load_catalog()
    gpu = catalog.gpus["K80"]
    verdict = check(catalog.instance("p2.xlarge"), gpu, needs_gpu=True)
    return Finding(
        kind=Kind.PUBLISHED,
        verdict=agrees_if(gpu.memory_mib == 12 * 1024),
        ours=f"catalogue: a K80 is one chip of {gpu.memory_mib // 1024} GiB, two a board; "
        f"p2.xlarge: {getattr(verdict, 'detail', 'can run')}",
        why="The rest of the advice (P100 or P40 to train, P4 to infer) is about cards that "
        "today's AWS does not rent.",
    )


def e06() -> Finding:
    """One GPU model a server."""
    catalog = load_catalog()
    return Finding(
        kind=Kind.PUBLISHED,
        verdict=Verdict.AGREES,
        ours="an instance type has one GPU model, and a recommendation is one instance",
        why="By construction: nothing in the catalogue mixes models, and rates are of one GPU.",
        numbers={"clouds": list(catalog.clouds)},
    )


def e07() -> Finding:
    """GeForce cards throttle under sustained load."""
    return out_of_scope(
        "sustained against first-minute rates need hours on cards with and without blowers; no "
        "GPU was at hand, and clouds rent none of them"
    )


def e08() -> Finding:
    """A kernel of 95 % of the time."""
    bound = 1 / (1 - 0.95)
    return Finding(
        kind=Kind.MODELLED,
        verdict=Verdict.AGREES,
        ours=f"Amdahl: at most x{bound:.0f}",
        why="Arithmetic. Answers name the bottleneck and each stage's utilisation instead.",
    )


def _mxnet_step(gpu: str, task: Task) -> float:
    """Published seconds of a ResNet-50 step at batch 32 (the slowest, where versions differ)."""
    asked = {
        "network": "resnet50",
        "task": str(task),
        "stack": "mxnet",
        "precision": "fp32",
        "batch_size": "32",
        "input": "3x224x224",
        "gpu_count": "1",
    }
    with gzip.open(PUBLISHED_FOLDER / OBSERVATIONS, "rt", newline="") as rows:
        return max(
            float(row["step_seconds"])
            for row in csv.DictReader(rows)
            if asked.items() <= row.items() and row["gpu"].startswith(gpu)
        )
