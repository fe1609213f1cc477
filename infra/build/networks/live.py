"""The memory that lives during a step of a network, and that autograd saves, for its line of networks.csv."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from msgspec import Struct
from msgspec.structs import asdict

from advisor.domain import MIB
from advisor.models.network_columns import MemoryFacts
from advisor.models.zoo.kernels import PRIME_BATCH, Kernel, KernelLog, moved, per_sample, tensors_in
from advisor.models.zoo.step_facts import Subject, facts_of, followed, mib_of


def facts_with_memory(subject: Subject, *, training: bool = True) -> dict[str, Any]:
    """All that the table has of a network at one input, from one record; raises as `followed` does.

    `family` is the architecture's class. `training` is empty where it has none."""

    def facts(network: torch.nn.Module, batch: tuple[Any, Any]) -> dict[str, Any]:
        weights, inputs = [*network.parameters(), *network.buffers()], list(tensors_in(batch[0]))
        inference, trained = StepLog(weights, inputs), StepLog(weights, inputs)
        logs = inference, trained if training else None
        facts = facts_of(subject, network, batch, *logs, trained.saving())
        taught = [parameter for parameter in network.parameters() if parameter.requires_grad]
        return {
            **asdict(facts),
            "family": type(network).__name__,
            "parameters": sum(parameter.numel() for parameter in network.parameters()),
            "trained_mib": mib_of(taught),
            "input_bytes": sum(entry.numel() * entry.element_size() for entry in inputs) / PRIME_BATCH,
            "memory": asdict(_memory(inference, trained)),
        }

    return followed(subject, facts)


def _memory(inference: StepLog, trained: StepLog) -> MemoryFacts:
    def largest(amount: Callable[[Kernel], float]) -> float:
        kernels = [entry for entry in inference.kernels if entry.kind != "cast"]
        return max(map(amount, kernels), default=0.0) / MIB

    return MemoryFacts(
        saved_fp32=trained.saved_fp32.sample / MIB,
        saved_fixed_fp32=trained.saved_fp32.fixed / MIB,
        saved_amp=trained.saved_amp.sample / MIB,
        saved_fixed_amp=trained.saved_amp.fixed / MIB,
        transient_fp32=largest(lambda entry: 4 * entry.sample_elements),
        transient_amp=largest(lambda entry: entry.sample_bytes),
        inference_peak_fp32=inference.live_fp32.peak_sample / MIB,
        inference_peak_amp=inference.live_amp.peak_sample / MIB,
        training_peak_fp32=trained.live_fp32.peak_sample / MIB,
        training_peak_amp=trained.live_amp.peak_sample / MIB,
        output=inference.last_sample / MIB,
    )


class Bytes(Struct):
    """Bytes in use, per sample and per batch, and those per sample at their peak."""

    sample: float = 0.0
    fixed: float = 0.0
    peak_sample: float = 0.0
    _peak: float = 0.0

    def change(self, sample: float, fixed: float) -> None:
        """Add to what lives, or take away."""
        self.sample += sample
        self.fixed += fixed
        now = self.sample + self.fixed / PRIME_BATCH
        if now > self._peak:
            self._peak, self.peak_sample = now, self.sample


class StepLog(KernelLog):
    """The kernels of a step, and the bytes that live and that autograd saves, in both precisions.

    In fp32 a cast makes nothing: it and what it was made of are one memory."""

    def __init__(self, weights: Sequence[torch.Tensor], inputs: Any = ()) -> None:
        super().__init__()
        self.live_amp, self.live_fp32 = Bytes(), Bytes()
        self.saved_amp, self.saved_fp32 = Bytes(), Bytes()
        self.last_sample = 0.0
        self._weights = {weight.untyped_storage()._cdata for weight in weights}
        # Which fp32 memory each storage stands for, and how many storages stand for it.
        self._origin: dict[int, int] = {}
        self._alive: dict[int, int] = defaultdict(int)
        self._watched: dict[int, Any] = {}
        self._origins = 0
        self._inputs = {entry.untyped_storage()._cdata for entry in tensors_in(inputs)}
        for number, key in enumerate(self._inputs, 1):
            self._origin[key] = -number

    def add(self, kind: str, work: Any, reads: Any, writes: Any) -> None:
        """Note one kernel, and what it writes as living."""
        super().add(kind, work, reads, writes)
        self.last_sample = sum(moved(tensor)[0] for tensor in tensors_in(writes))
        cast = kind == "cast"
        for tensor in tensors_in(writes):
            self._see(tensor, self._origin_of(reads) if cast else None)

    def keep(self, tree: Any) -> None:
        """Note memory that is set aside, or seen again."""
        for tensor in tensors_in(tree):
            self._see(tensor, None)

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Count what autograd saves meanwhile."""
        import torch

        counted: set[int] = set()
        origins = {_WEIGHT}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key not in self._weights and key not in counted:
                counted.add(key)
                self._count(self.saved_amp, storage.nbytes(), 1)
                origin = self._origin.get(key)
                if origin is None or origin not in origins:
                    origins.add(origin if origin is not None else _WEIGHT)
                    self._count(self.saved_fp32, _fp32_bytes(tensor, storage), 1)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            yield

    def _origin_of(self, reads: Any) -> int | None:
        for tensor in tensors_in(reads):
            if tensor.is_floating_point():
                key = tensor.untyped_storage()._cdata
                return _WEIGHT if key in self._weights else self._origin.get(key)
        return None

    def _see(self, tensor: torch.Tensor, origin: int | None) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._weights or key in self._inputs or key in self._watched:
            return
        if origin is None:
            self._origins += 1
            origin = self._origins
        amp, fp32 = storage.nbytes(), _fp32_bytes(tensor, storage)
        self._origin[key] = origin
        self._count(self.live_amp, amp, 1)
        counts = origin > _WEIGHT
        if counts and not self._alive[origin]:
            self._count(self.live_fp32, fp32, 1)
        self._alive[origin] += 1

        def gone(_: Any) -> None:
            del self._watched[key], self._origin[key]
            self._count(self.live_amp, amp, -1)
            self._alive[origin] -= 1
            if counts and not self._alive[origin]:
                self._count(self.live_fp32, fp32, -1)

        self._watched[key] = weakref.ref(storage, gone)

    @staticmethod
    def _count(where: Bytes, size: float, sign: int) -> None:
        sample, fixed = per_sample(size)
        where.change(sign * sample, sign * fixed)


# What a copy of weights is in fp32: no memory. Numbers below it are inputs, which are saved but
# are not the step's; those above are memory that the step makes.
_WEIGHT = 0


def _fp32_bytes(tensor: torch.Tensor, storage: Any) -> int:
    size: int = storage.nbytes()
    return size * 4 // tensor.element_size() if tensor.is_floating_point() else size
