"""Kernels and memory of a network's steps at one input: a row of the network table.

One forward pass and one training step are recorded in mixed precision without computing, on the meta device
or, where a network asks for values, on fake CPU tensors. Casts exist in mixed precision alone, so the same
record gives fp32: without them, and with 4 bytes an element."""

from __future__ import annotations

import logging
import math
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Struct

from advisor.domain import MIB
from advisor.models.network_columns import KINDS, WIDTH_STEPS, MemoryFacts
from advisor.models.zoo.autocast import as_on_a_gpu
from advisor.models.zoo.building import make_fake, without_initial_values
from advisor.models.zoo.kernels import (
    PRIME_BATCH,
    Kernel,
    KernelLog,
    Part,
    part_of,
    per_sample,
    recording,
    tensors_in,
)

if TYPE_CHECKING:
    import torch

_WIDEST = 255
_LARGEST_SIZE = 65_535
# 11 bits of a mantissa: 0.05 %, and the rest of a number is zeros, which compress.
_MANTISSA_BITS = 11


class Subject(Protocol):
    """A network that can be built and run; `advisor.models.zoo.opening.Runnable` is one."""

    def build(self) -> torch.nn.Module:
        """A new network on the default device."""

    def synthetic_batch(self, batch_size: int, device: Any = "cpu") -> tuple[Any, Any]:
        """Inputs and targets on the device."""

    def forward(self, network: torch.nn.Module, inputs: Any) -> Any:
        """The network's outputs for the inputs."""

    def training_loss(self, network: torch.nn.Module, inputs: Any, targets: Any) -> torch.Tensor:
        """The scalar to send back through the network, with its forward pass."""


class TableRow(NamedTuple):
    """Kernels that are alike, as the table has them: means a kernel, and how many there are.

    `flops` and `sample_elements` (read and written) are per sample, `fixed_elements` of any batch. Widths are
    mean bytes per element in mixed precision x `WIDTH_STEPS`. `reduction` x `width` is the matrix that each
    output row is multiplied with (0: no product)."""

    kind: int
    backward: int
    kernels: int
    flops: float
    sample_elements: float
    fixed_elements: float
    amp_sample_width: int
    amp_fixed_width: int
    reduction: int
    width: int


class NetworkFacts(Struct, frozen=True, kw_only=True):
    """All that the table has of one network at one input. `training` is empty where it has none.

    `family` is the architecture's class. Weights are parameters and buffers in fp32."""

    family: str
    parameters: int
    weight_tensors: int
    weights_mib: float
    trained_mib: float
    input_bytes: float
    memory: MemoryFacts
    inference: list[TableRow]
    training: list[TableRow]


def network_facts(subject: Subject, *, training: bool = True) -> NetworkFacts:
    """Facts of a network at the input that the subject's batches have.

    Raises torch's or the network's own error where neither meta nor fake tensors can follow it."""
    try:
        with _unlogged():
            return _on_meta(subject, training)
    except Exception as first:
        for follow in (_all_on_meta, _on_fake):
            try:
                with _unlogged():
                    return follow(subject, training)
            except Exception as error:
                error.__context__ = None
        raise first


@contextmanager
def _unlogged() -> Iterator[None]:
    """A context in which torch does not log tracebacks of errors that are raised anyway."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def _on_meta(subject: Subject, training: bool) -> NetworkFacts:
    import torch

    with without_initial_values(), torch.device("meta"):
        network = subject.build()
        batch = subject.synthetic_batch(PRIME_BATCH, "meta")
    return _facts(subject, network, batch, training)


def _all_on_meta(subject: Subject, training: bool) -> NetworkFacts:
    """For networks that make tensors on the way without saying where."""
    import torch

    with torch.device("meta"):
        return _on_meta(subject, training)


def _on_fake(subject: Subject, training: bool) -> NetworkFacts:
    from torch._subclasses.fake_tensor import FakeTensorMode

    make_mode: Any = FakeTensorMode
    mode = make_mode(allow_non_fake_inputs=True)
    with without_initial_values():
        try:
            with mode:
                network = subject.build()
        except Exception:
            network = subject.build()
            make_fake(network, mode)
    with mode:
        batch = subject.synthetic_batch(PRIME_BATCH)
        return _facts(subject, network, batch, training)


def _facts(
    subject: Subject, network: torch.nn.Module, batch: tuple[Any, Any], training: bool
) -> NetworkFacts:
    import torch

    inputs, targets = batch
    weights = [*network.parameters(), *network.buffers()]
    inference = StepLog(weights, inputs)
    with _followed(network, inference, training=False):
        outputs = subject.forward(network, inputs)
        del outputs
    trained = StepLog(weights, inputs)
    if training:
        with _followed(network, trained, training=True), trained.saving():
            loss = subject.training_loss(network, inputs, targets)
            trained.backward = True
            torch.autograd.backward(loss)
            del loss
    return NetworkFacts(
        family=type(network).__name__,
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        weight_tensors=sum(1 for _ in network.parameters()),
        weights_mib=_mib(weights),
        trained_mib=_mib([parameter for parameter in network.parameters() if parameter.requires_grad]),
        input_bytes=sum(entry.numel() * entry.element_size() for entry in tensors_in(inputs)) / PRIME_BATCH,
        memory=_memory(inference, trained),
        inference=table_rows(inference.kernels),
        training=table_rows(trained.kernels),
    )


@contextmanager
def _followed(network: torch.nn.Module, log: StepLog, *, training: bool) -> Iterator[None]:
    import torch

    network.train(training)
    network.zero_grad(set_to_none=True)
    # Recurrent layers take other inputs than their weights' type only where autocast is on.
    wanted = torch._C._is_any_autocast_enabled
    torch._C._is_any_autocast_enabled = lambda: True
    try:
        with torch.set_grad_enabled(training), recording(log), as_on_a_gpu(log, autocast=True):
            yield
    finally:
        torch._C._is_any_autocast_enabled = wanted
    network.zero_grad(set_to_none=True)


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

    def add(self, name: str, kind: str, work: Any, reads: Any, writes: Any) -> None:
        """Note one kernel, and what it writes as living."""
        super().add(name, kind, work, reads, writes)
        self.last_sample = sum(part.sample_bytes for part in self.kernels[-1].writes)
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

    def _parts(self, tree: Any) -> tuple[Part, ...]:
        return tuple(part_of(0, tensor, tensor.untyped_storage()) for tensor in tensors_in(tree))

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


def _mib(tensors: Sequence[torch.Tensor]) -> float:
    unique = {id(entry): entry.numel() * entry.element_size() for entry in tensors}
    return sum(unique.values()) / MIB


def table_rows(kernels: Sequence[Kernel]) -> list[TableRow]:
    """Kernels as rows: of a kind, and in all sizes within an octave or two.

    A step-time model bends only where arithmetic and memory traffic, or a kernel's own time, are near each
    other, so means over an octave say what the kernels one by one would."""
    alike: dict[tuple[Any, ...], list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        alike[_likeness(kernel)].append(kernel)
    return [_row(group) for group in alike.values()]


def _likeness(kernel: Kernel) -> tuple[Any, ...]:
    size = 4 * (kernel.sample_elements + kernel.fixed_elements / PRIME_BATCH)
    key = (kernel.kind, kernel.backward, kernel.flops > 0)
    if not kernel.flops:
        return (*key, _octave(size) // 2, _octave(kernel.width))
    aligned = kernel.reduction % 8 == 0 and kernel.width % 8 == 0
    widths = (_octave(kernel.reduction), _octave(kernel.width), aligned)
    return (*key, *widths, _octave(kernel.flops), _octave(kernel.flops / max(size, 1.0)))


def _octave(value: float) -> int:
    return round(math.log2(value)) if value > 0 else -1


def _row(group: Sequence[Kernel]) -> TableRow:
    first, count = group[0], len(group)
    sample = sum(kernel.sample_elements for kernel in group)
    fixed = sum(kernel.fixed_elements for kernel in group)
    return TableRow(
        KINDS.index(first.kind),
        int(first.backward),
        count,
        _rounded(sum(kernel.flops for kernel in group) / count),
        _rounded(sample / count),
        _rounded(fixed / count),
        _width(sum(kernel.sample_bytes for kernel in group), sample),
        _width(sum(kernel.fixed_bytes for kernel in group), fixed),
        _middle([kernel.reduction for kernel in group]),
        _middle([kernel.width for kernel in group]),
    )


def _width(size: float, elements: float) -> int:
    return min(_WIDEST, round(WIDTH_STEPS * size / elements)) if elements else 0


def _middle(sizes: Sequence[int]) -> int:
    """One of the sizes, so that what is a multiple of eight stays one."""
    return min(sorted(sizes)[len(sizes) // 2], _LARGEST_SIZE)


def _rounded(value: float) -> float:
    mantissa, exponent = math.frexp(value)
    steps = 1 << _MANTISSA_BITS
    return math.ldexp(round(mantissa * steps) / steps, exponent)
