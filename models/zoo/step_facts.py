"""Kernels of a network's steps at one input: rows of the network table.

One forward pass and one training step are recorded in mixed precision without computing, on the meta device
or, where a network asks for values, on fake CPU tensors. Casts exist in mixed precision alone, so the same
record gives fp32: without them, and with 4 bytes an element."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from advisor.domain import MIB
from advisor.models.network_columns import KINDS, WIDTH_STEPS
from advisor.models.zoo.autocast import as_on_a_gpu
from advisor.models.zoo.building import make_fake, without_initial_values
from advisor.models.zoo.kernels import PRIME_BATCH, Kernel, KernelLog, recording

if TYPE_CHECKING:
    import torch

_F = TypeVar("_F")

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
    """The kernels of a network at one input, and its weights (parameters and buffers in fp32). `training` is
    empty where it has none."""

    weight_tensors: int
    weights_mib: float
    inference: list[TableRow]
    training: list[TableRow]


def network_facts(subject: Subject, *, training: bool = True) -> NetworkFacts:
    """Facts of a network at the input that the subject's batches have; raises as `followed` does."""

    def facts(network: torch.nn.Module, batch: tuple[Any, Any]) -> NetworkFacts:
        trained = KernelLog() if training else None
        return facts_of(subject, network, batch, KernelLog(), trained, nullcontext())

    return followed(subject, facts)


def followed(subject: Subject, facts: Callable[[torch.nn.Module, tuple[Any, Any]], _F]) -> _F:
    """The facts of a network and a batch of it that compute nothing.

    Raises torch's or the network's own error where neither meta nor fake tensors can follow it."""
    try:
        with _unlogged():
            return _on_meta(subject, facts)
    except Exception as first:
        for follow in (_all_on_meta, _on_fake):
            try:
                with _unlogged():
                    return follow(subject, facts)
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


def _on_meta(subject: Subject, facts: Callable[..., _F]) -> _F:
    import torch

    with without_initial_values(), torch.device("meta"):
        network = subject.build()
        batch = subject.synthetic_batch(PRIME_BATCH, "meta")
    return facts(network, batch)


def _all_on_meta(subject: Subject, facts: Callable[..., _F]) -> _F:
    """For networks that make tensors on the way without saying where."""
    import torch

    with torch.device("meta"):
        return _on_meta(subject, facts)


def _on_fake(subject: Subject, facts: Callable[..., _F]) -> _F:
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
        return facts(network, batch)


def facts_of(
    subject: Subject,
    network: torch.nn.Module,
    batch: tuple[Any, Any],
    inference: KernelLog,
    trained: KernelLog | None,
    saving: AbstractContextManager[Any],
) -> NetworkFacts:
    """Facts of a step of either task, noted in their logs; without `trained` none is trained. `saving` is
    entered while a training step is made."""
    import torch

    inputs, targets = batch
    weights = [*network.parameters(), *network.buffers()]
    with _noted(network, inference, training=False):
        outputs = subject.forward(network, inputs)
        del outputs
    if trained:
        with _noted(network, trained, training=True), saving:
            loss = subject.training_loss(network, inputs, targets)
            trained.backward = True
            torch.autograd.backward(loss)
            del loss
    return NetworkFacts(
        weight_tensors=sum(1 for _ in network.parameters()),
        weights_mib=mib_of(weights),
        inference=table_rows(inference.kernels),
        training=table_rows(trained.kernels) if trained else [],
    )


@contextmanager
def _noted(network: torch.nn.Module, log: KernelLog, *, training: bool) -> Iterator[None]:
    import torch

    network.train(training)
    network.zero_grad(set_to_none=True)
    # Recurrent layers take other inputs than their weights' type only where autocast is on.
    wanted = torch._C._is_any_autocast_enabled
    torch._C._is_any_autocast_enabled = lambda: True
    try:
        with torch.set_grad_enabled(training), recording(log), as_on_a_gpu(log):
            yield
    finally:
        torch._C._is_any_autocast_enabled = wanted
    network.zero_grad(set_to_none=True)


def mib_of(tensors: Sequence[torch.Tensor]) -> float:
    """MiB of tensors, each counted once."""
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
