"""The worker process of a campaign: it loads torch, so that a crash of torch or CUDA ends only this process.

`python -m advisor.infra.build.campaign.device` reads one job (a line of JSON) and writes lines: facts of the
device, a row for each mark or cell, and a final line that says it is done."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import repeat
from types import SimpleNamespace
from typing import Any

from advisor.domain import Precision, Status, Task
from advisor.errors import MeasuringError
from advisor.infra.build.campaign.marks import marks
from advisor.infra.build.networks.diffusion import diffusion_variants
from advisor.infra.build.networks.encoders import transformers_variants
from advisor.infra.build.networks.own import own_variants
from advisor.infra.build.networks.seeing import torchvision_variants
from advisor.infra.build.networks.variants import (
    ImageClassifier,
    Variant,
    build_library_network,
    image_variant,
)
from advisor.sweeps.machine.environment import describe_machine, describe_versions
from advisor.sweeps.machine.gpu import GpuSampler
from advisor.sweeps.measure.network import steps_on
from advisor.sweeps.probe.session import Device, load_torch, need_cuda
from advisor.sweeps.quality.rates import count_warmup_steps
from advisor.sweeps.trial.child import answer_parent, lacks_memory, send_to_parent
from advisor.sweeps.worker.engine import TorchEngine, forget_peaks, free_memory, gpu_uuid, peaks, torch_facts
from advisor.sweeps.worker.timed_run import QUEUE_DEPTH, StepRunner, TimeBox

_VERSIONS = ("torch", "torchvision", "timm", "transformers", "diffusers", "numpy")
_VARIANTS = {
    "torchvision": torchvision_variants,
    "transformers": transformers_variants,
    "diffusers": diffusion_variants,
    "advisor": own_variants,
}
_MIN_STEPS = 4
_SAMPLED_SHARE = 0.05
# Smallest batch to try after a larger one ran out of memory: the plan has the smaller batches anyway.
_LEAST_BATCH = 32


def main() -> int:
    """Run the job that was read from standard input; returns the exit code."""
    job = json.loads(sys.stdin.readline())
    return answer_parent(lambda: _done(job))


def _done(job: Mapping[str, Any]) -> Mapping[str, Any]:
    device = Device(job["device"])
    if device.kind == "cuda":
        need_cuda()
    send_to_parent({"facts": _facts(device)})
    for row in _marks(job, device) if "marks" in job else _cells(job, device):
        send_to_parent({"row": row})
    return {"done": True}


def _facts(device: Device) -> dict[str, Any]:
    return {
        **describe_machine(),
        "versions": describe_versions(*_VERSIONS),
        "gpu": None,
        **torch_facts(device.kind),
    }


def _uuid(device: Device) -> str | None:
    return gpu_uuid() if device.kind == "cuda" else None


def _marks(job: Mapping[str, Any], device: Device) -> Iterator[dict[str, Any]]:
    """Yield a row for each mark: `mark/launch` is an empty kernel, `mark/clock` two minutes of load."""
    torch = load_torch()
    torch.manual_seed(0)
    every = {mark.key: mark for mark in marks(on_gpu=device.kind == "cuda", is_short=job["is_short"])}
    for key in job["marks"]:
        row: dict[str, Any] = {"mark": key, "status": Status.OK.value}
        try:
            if key in every:
                mark = every[key]
                row |= {"name": mark.name, "precision": mark.precision, "sizes": mark.sizes}
                seconds = device.time_calls(mark.call(device), job["seconds"])
                row["seconds"] = sorted(seconds)[len(seconds) // 2]
            elif key == "mark/launch":
                launches = device.time_calls(partial(device.random(1).add_, 1.0), job["seconds"])
                row["seconds"] = min(launches)
            else:
                row["clocks"] = _under_load(device, job["load_seconds"])
        except Exception as error:
            row |= _fault(error)
        device.free()
        yield row


def _under_load(device: Device, seconds: float) -> dict[str, Any]:
    """Clocks, power and temperature at the end of `seconds` of continuous matrix products."""
    product = next(mark for mark in marks(on_gpu=False, is_short=True)).call(device)

    def compute(seconds: float) -> None:
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            product()
            device.synchronize()

    compute(seconds * (1 - _SAMPLED_SHARE))
    with GpuSampler(_uuid(device)) as sampler:
        compute(seconds * _SAMPLED_SHARE)
    return sampler.environment


class _Runnable:
    """A variant of the network table as `TorchEngine` runs it, with inputs that keep the loss finite."""

    def __init__(self, variant: Variant) -> None:
        self.subject: Any = variant.subject()
        self.info = SimpleNamespace(name=variant.key)
        self.build = self.subject.build
        if isinstance(self.subject, ImageClassifier):
            of_images = self.subject
            arguments = of_images.library, of_images.name, of_images.side
            self.build = partial(build_library_network, *arguments, on_meta=False)
        self.forward, self.training_loss = self.subject.forward, self.subject.training_loss

    def synthetic_batch(self, batch_size: int, device: Any = "cpu") -> tuple[Any, Any]:
        from torch.utils._pytree import tree_map

        def filled(leaf: Any) -> Any:
            is_float = hasattr(leaf, "is_floating_point") and leaf.is_floating_point()
            return leaf.normal_() if is_float else leaf

        batch: tuple[Any, Any] = tree_map(filled, self.subject.synthetic_batch(batch_size, str(device)))
        return batch


def variant_of(key: str) -> Variant:
    """The variant of the network table with this key; `MeasuringError` if its library is not installed."""
    library, _, rest = key.partition("/")
    name, _, size = rest.partition("@")
    try:
        if library == "timm":
            return image_variant(library, name, int(size.rpartition("x")[2]))
        return next(variant for variant in _VARIANTS[library]() if variant.key == key)
    except ImportError as error:
        raise MeasuringError(
            "{network} needs {library}", hint=f"pip install {library}", network=key, library=library
        ) from error


def _cells(job: Mapping[str, Any], device: Device) -> Iterator[dict[str, Any]]:
    """Measure each cell of one network; a largest-batch cell halves its batch when memory runs out."""
    load_torch().manual_seed(0)
    runnable = _Runnable(variant_of(job["network"]))
    for cell in job["cells"]:
        batch = cell["batch"]
        while True:
            row = {"cell": cell["cell"], "batch": batch, **_measured(runnable, cell, batch, job, device)}
            halved = batch // 2
            if row["status"] != Status.OUT_OF_MEMORY or not cell["may_halve"] or halved <= _LEAST_BATCH:
                break
            batch = halved
        yield row


def _measured(
    runnable: Any, cell: Mapping[str, Any], batch: int, job: Mapping[str, Any], device: Device
) -> dict[str, Any]:
    forget_peaks(device.kind)
    try:
        engine = TorchEngine(
            runnable,
            device=device.kind,
            task=Task(cell["task"]),
            precision=Precision(cell["precision"]),
            clock=time.process_time if job["by_cpu_time"] else time.perf_counter,
        )
        runner = StepRunner(engine, depth=QUEUE_DEPTH if device.kind == "cuda" else 0)
        box = TimeBox(seconds=job["seconds"], min_steps=_MIN_STEPS, max_seconds=2 * job["seconds"])
        with GpuSampler(_uuid(device)) as sampler:
            steps = steps_on(runner, repeat(engine.batch(batch)), box)
        warmup = count_warmup_steps(steps)
        row = {
            "status": Status.OK.value,
            "step_seconds": steps[warmup:],
            "warmup_step_seconds": steps[:warmup],
            "environment": {**sampler.environment, **peaks(device.kind), **engine.environment},
        }
        del engine, runner
    except Exception as error:
        row = _fault(error)
    free_memory(device.kind)
    return row


def _fault(error: Exception) -> dict[str, Any]:
    status = Status.OUT_OF_MEMORY if lacks_memory(error) else Status.FAILED
    reason = f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
    return {"status": status.value, "reason": reason}


if __name__ == "__main__":
    raise SystemExit(main())
