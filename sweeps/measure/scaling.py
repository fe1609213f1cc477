"""Measures in one rank: steps of one rank, the same steps with all ranks, and all-reduces.

Weak scaling: each rank has a batch as large as a single rank's. The efficiency of n ranks is their rate over
n times the rate of one. Needs torch."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import repeat
from statistics import fmean
from typing import Any

import psutil
import torch
import torch.distributed as dist
from msgspec import Struct
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from advisor.domain import Precision, Task
from advisor.domain.results import mean_step_seconds
from advisor.errors import UsageError
from advisor.sweeps.measure.document import SYNTHETIC
from advisor.sweeps.measure.network import open_session, steps_on
from advisor.sweeps.worker.engine import Completion, Engine, TorchEngine
from advisor.sweeps.worker.group import Group
from advisor.sweeps.worker.timed_run import QUEUE_DEPTH, StepRunner, TimeBox

_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
_QUERY_SECONDS = 10.0


def node_facts(*, on_gpu: bool) -> dict[str, Any]:
    """Facts of the ranks and of this rank's node, from torchrun and the system.

    `interface` leads to the first node. `interface_gbit_per_second` is reported by its driver (None if not;
    that of a virtual interface may be meaningless). `topology` is nvidia-smi's output. Gloo and NCCL are set
    to that interface unless the user has set one, since on hosts with several they may choose another."""
    ranks, here = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
    interface = _interface_towards(os.environ["MASTER_ADDR"]) if ranks > here else None
    for name in _INTERFACES if interface else ():
        os.environ.setdefault(name, str(interface))
    speed, topology = psutil.net_if_stats()[interface].speed if interface else 0, None
    if on_gpu:
        with suppress(OSError, subprocess.SubprocessError):
            command, patience = ["nvidia-smi", "topo", "-m"], _QUERY_SECONDS
            done = subprocess.run(command, capture_output=True, text=True, timeout=patience, check=True)
            topology = done.stdout
    return {
        "ranks": ranks,
        "nodes": ranks // here,
        "interface": interface,
        "interface_gbit_per_second": speed / 1000 if speed > 0 else None,
        "topology": topology,
    }


def _interface_towards(host: str) -> str | None:
    """The interface from which packets to the host leave; None for loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # sends nothing
        own = probe.getsockname()[0]
    for name, addresses in psutil.net_if_addrs().items():
        # The first node reaches itself over loopback, which other nodes cannot use.
        if name != "lo" and own in (entry.address for entry in addresses):
            return str(name)
    return None


# The backward pass computes gradients of inputs and of weights: twice the products of the forward pass (as in
# Kaplan et al. 2020, section 2.1).
FORWARD_SHARE = 1 / 3
# Gradients become ready in this number of equal parts, about the stages and blocks of a ResNet.
_PARTS = 16


class EmulatedRank(Engine):
    """Emulates training steps of `step_seconds`, in whose backward pass the gradients of `parameters` fp32
    numbers become ready at an even pace. With `parallel`, DistributedDataParallel averages them over all
    ranks meanwhile. The step includes the optimiser's. Averaging uses this CPU but would not slow a GPU, so
    each part is ready at a fixed time, not after the previous part."""

    def __init__(self, parameters: int, step_seconds: float, *, parallel: bool) -> None:
        super().__init__()
        torch.set_num_threads(1)  # nothing is computed here, and idle threads would spin
        network = _Network(parameters, step_seconds)
        self.gradient_bytes = 4 * sum(part.numel() for part in network.parts)
        self._network: Any = network
        if parallel:
            self._network = DistributedDataParallel(network, gradient_as_bucket_view=True)

    def launch(self, inputs: Any, targets: Any) -> Completion:  # noqa: ARG002
        """Run one step, and wait for it."""
        self._network(time.perf_counter()).backward()
        return self.mark()


class _Network(nn.Module):
    def __init__(self, parameters: int, step_seconds: float) -> None:
        super().__init__()
        size = -(-parameters // _PARTS)
        self.parts = nn.ParameterList([torch.zeros(size) for _ in range(_PARTS)])
        self._gradient = torch.zeros(size)
        self._step_seconds = step_seconds

    def forward(self, begun: float) -> torch.Tensor:
        """The loss of a step that began at `begun` (by time.perf_counter)."""
        forward = FORWARD_SHARE * self._step_seconds
        each = (self._step_seconds - forward) / _PARTS
        value = torch.zeros((), requires_grad=True)
        for number, part in enumerate(self.parts):
            # The backward pass begins with the last part.
            ready = begun + forward + (_PARTS - number) * each
            value = _Part.apply(value, part, self._gradient, ready)  # type: ignore[no-untyped-call]
        _sleep_until(begun + forward)
        return value


class _Part(torch.autograd.Function):
    """Passes a value on; in the backward pass the gradient of its weights is ready at the time `ready`."""

    @staticmethod
    def forward(
        ctx: Any, value: torch.Tensor, _weights: torch.Tensor, gradient: torch.Tensor, ready: float
    ) -> torch.Tensor:
        ctx.gradient, ctx.ready = gradient, ready
        return value.clone()

    @staticmethod
    def backward(ctx: Any, passed: torch.Tensor) -> tuple[Any, ...]:
        _sleep_until(ctx.ready)
        return passed, ctx.gradient, None, None


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.perf_counter()))


_LEAST_STEPS, _MOST_STEPS = 4, 2000
_LEAST_ALL_REDUCES, _MOST_ALL_REDUCES = 4, 200
# A rank that waits this long for others has lost them.
_PATIENCE = timedelta(minutes=5)


class Job(Struct, frozen=True, kw_only=True):
    """The job of a rank. With `emulated_step_seconds` a GPU of that pace is emulated, but the gradients of
    the network are really exchanged. `gbit_per_second` is the advertised rate of the network between nodes;
    None if unknown."""

    reference: str
    batch_size: int
    precision: str
    minutes: float
    accelerator: str | None = None
    emulated_step_seconds: float | None = None
    gbit_per_second: float | None = None


def measure(job: Job, *, report: Callable[[str], None]) -> dict[str, Any]:
    """The anchor document, the same on all ranks. Raises `UsageError` for an unknown network,
    `MeasuringError` if a training diverges."""
    on_gpu = job.emulated_step_seconds is None and torch.cuda.is_available()
    facts = node_facts(on_gpu=on_gpu)
    if on_gpu:
        here, gpus = int(os.environ["LOCAL_WORLD_SIZE"]), torch.cuda.device_count()
        if here > gpus:  # each rank needs one
            raise UsageError(
                f"{here} ranks on a node take as many GPUs, and it has {gpus}",
                field="ranks",
                hint="give as many --ranks as there are GPUs, or fewer",
            )
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if on_gpu else "gloo", timeout=_PATIENCE)
    # Ranks wait for each other by Gloo: NCCL's kernels would keep their GPUs busy. The time limit includes
    # the first rank's steps alone, for which the others wait.
    waiting = dist.new_group(backend="gloo", timeout=_PATIENCE + timedelta(minutes=job.minutes))
    try:
        return _Ranks(job, facts, waiting, report, on_gpu=on_gpu).document()
    finally:
        dist.destroy_process_group()


class _Ranks:
    """Takes the measurements of a job one after the other; every rank takes part in each."""

    def __init__(
        self, job: Job, facts: dict[str, Any], waiting: Any, report: Callable[[str], None], *, on_gpu: bool
    ) -> None:
        self._job, self._facts, self._report, self._on_gpu = job, facts, report, on_gpu
        self._ranks = Group(int(os.environ["RANK"]), facts["ranks"], waiting)
        self._seconds = job.minutes * 60 / 3
        self._device = f"cuda:{os.environ['LOCAL_RANK']}" if on_gpu else "cpu"
        kind, ends_at = self._device.partition(":")[0], time.monotonic() + job.minutes * 60
        self._session = open_session(job.reference, kind, Precision(job.precision), ends_at, report=report)
        self._network = self._session.network

    def document(self) -> dict[str, Any]:
        alone, gradient_bytes = self._steps_alone()
        together = self._steps_together(mean_step_seconds(alone))
        reduced = self._all_reduces(gradient_bytes)
        row = self._row(alone, together, reduced, gradient_bytes)
        return self._ranks.gathered(self._session.document(scaling=[row]))[0]

    def _steps_alone(self) -> tuple[list[float], int]:
        """Step seconds of the first rank while the others wait, and the bytes of its gradients."""
        self._report(f"{self._network.info.name}: training alone")
        steps: list[float] = []
        engine, batches = self._engine(parallel=False)
        size = engine.gradient_bytes
        if self._ranks.rank == 0:
            box = TimeBox(seconds=self._seconds / 2, min_steps=_LEAST_STEPS, max_seconds=self._seconds)
            batch = self._job.batch_size
            run = self._session.timed_run(Task.TRAINING, SYNTHETIC, batch, self._runner(engine), batches, box)
            if self._job.emulated_step_seconds is None:
                self._session.add(run)
            steps = run["step_seconds"]
        del engine
        return self._ranks.gathered(steps)[0], size

    def _steps_together(self, seconds_alone: float) -> list[float]:
        """Step seconds of the slowest of all ranks, for which the others wait."""
        self._report(f"training on {self._ranks.size} ranks")
        engine, batches = self._engine(parallel=True)
        runner = self._runner(engine)
        # All ranks run the same number of steps; the first ones show how many fit.
        first = max(map(fmean, self._ranks.gathered(steps_on(runner, batches, self._box(_LEAST_STEPS)))))
        wanted = min(_MOST_STEPS, max(_LEAST_STEPS, int(self._seconds / max(first, seconds_alone))))
        return self._slowest(steps_on(runner, batches, self._box(wanted)))

    def _all_reduces(self, size: int) -> list[float]:
        """Seconds of consecutive all-reduces of `size` bytes, while nothing computes."""
        self._report(f"all-reduce of {size / 1e6:.1f} MB")
        values = torch.zeros(size // 4, device=self._device)
        first = max(map(fmean, self._ranks.gathered(self._timed_all_reduces(values, 2)[1:])))
        count = min(_MOST_ALL_REDUCES, max(_LEAST_ALL_REDUCES, int(self._seconds / first)))
        return self._slowest(self._timed_all_reduces(values, count))

    def _timed_all_reduces(self, values: torch.Tensor, count: int) -> list[float]:
        self._ranks.wait()
        seconds = []
        for _ in range(count):
            begun = time.perf_counter()
            dist.all_reduce(values)
            if self._on_gpu:
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - begun)
        return seconds

    def _row(
        self, alone: Sequence[float], together: Sequence[float], reduced: Sequence[float], size: int
    ) -> dict[str, Any]:
        job = self._job
        return {
            **self._facts,
            "accelerator": job.accelerator or self._session.device,
            "precision": job.precision,
            "batch_size": job.batch_size,
            "backend": dist.get_backend(),
            "gbit_per_second": job.gbit_per_second,
            "gradient_bytes": size,
            "one_step_seconds": list(alone),
            "step_seconds": list(together),
            "all_reduce_seconds": list(reduced),
            "efficiency": mean_step_seconds(alone) / mean_step_seconds(together),
        }

    def _engine(self, *, parallel: bool) -> tuple[TorchEngine | EmulatedRank, Any]:
        job = self._job
        if job.emulated_step_seconds is not None:
            parameters = sum(p.numel() for p in self._network.build().parameters())
            emulated = EmulatedRank(parameters, job.emulated_step_seconds, parallel=parallel)
            return emulated, repeat((None, None))
        torch.manual_seed(0)
        precision = Precision(job.precision)
        engine = TorchEngine(
            self._network, device=self._device, task=Task.TRAINING, precision=precision, parallel=parallel
        )
        return engine, repeat(engine.batch(job.batch_size))

    def _runner(self, engine: Engine) -> StepRunner:
        return StepRunner(engine, depth=QUEUE_DEPTH if self._on_gpu else 0)

    @staticmethod
    def _box(steps: int) -> TimeBox:
        return TimeBox(seconds=0.0, min_steps=steps, max_seconds=0.0, iterations=steps)

    def _slowest(self, values: list[float]) -> list[float]:
        return max(self._ranks.gathered(values), key=fmean)
