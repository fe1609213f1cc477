"""Memory of one step of a network, traced on fake tensors: nothing is computed or allocated.

Every operation of a step runs under FakeTensorMode, which knows shapes and storages but no
values; the bytes of the storages that live are counted as they come and go. Where a network's
work depends on values (the proposals of Mask R-CNN), the step is really run on the CPU.
Needs torch.
"""

from __future__ import annotations

import weakref
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.errors import AdvisorError, UsageError
from models.zoo.checkpointing import checkpointed
from models.zoo.opening import Runnable

if TYPE_CHECKING:
    import torch

MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOptions:
    """How a step is run. `sixteen_bit` is autocast; without `gradients` it is under no_grad."""

    training: bool
    sixteen_bit: bool = False
    checkpointing: bool = False
    gradients: bool = True
    pixels: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedStep:
    """MiB of one step. `forward_mib` lives when the forward pass has ended: what autograd saved,
    and the batch itself. `peak_mib` is the most that lived at once. Both leave out weights and
    buffers (`weights_mib`), and the peak has the gradients that existed at that moment;
    `trained_mib` are the weights that get gradients."""

    weights_mib: float
    trained_mib: float
    forward_mib: float
    peak_mib: float
    fake: bool


class StepTracer:
    """Traces steps of one network, which is built once and then loses its values."""

    def __init__(self, runnable: Runnable) -> None:
        self._runnable = runnable
        self._mode: Any = None
        self._network: torch.nn.Module | None = None

    def trace(
        self, batch_size: int, options: StepOptions, *, fake_only: bool = False
    ) -> TracedStep:
        """One step on `batch_size` rows, on fake tensors or, failing that, for real.

        Raises `UsageError` where torch cannot run the step at all, with torch's own words; with
        `fake_only`, torch's own error is raised instead of running it for real.
        """
        import torch

        torch.manual_seed(0)  # a real run may depend on its values
        try:
            network = self._fake_network()
            with self._mode:
                return _traced(network, self._runnable, batch_size, options, True)
        except AdvisorError:
            raise
        except Exception:  # torch raises many kinds for what depends on values
            if fake_only:
                raise
            return self._really(batch_size, options)

    def _really(self, batch_size: int, options: StepOptions) -> TracedStep:
        try:
            return _traced(self._runnable.build(), self._runnable, batch_size, options, False)
        except AdvisorError:
            raise
        except Exception as error:
            first = (str(error).strip().splitlines() or [""])[0]
            raise UsageError(
                f"{self._runnable.info.name} cannot be run on a batch of {batch_size} "
                f"({type(error).__name__}: {first}); try `advisor measure` with it first"
            ) from error

    def _fake_network(self) -> torch.nn.Module:
        """Built for real: constructors read values, and cache what they made."""
        from torch._subclasses.fake_tensor import FakeTensorMode

        if self._network is None:
            make_mode: Any = FakeTensorMode
            self._mode = make_mode(allow_non_fake_inputs=True)
            self._network = self._runnable.build()
            _make_fake(self._network, self._mode)
        return self._network


def _make_fake(network: torch.nn.Module, mode: Any) -> None:
    """Put fake tensors in the place of parameters and buffers; shared ones stay shared."""
    import torch

    swapped: dict[int, Any] = {}

    def fake(tensor: Any) -> Any:
        if id(tensor) not in swapped:
            copy = mode.from_tensor(tensor.detach())
            is_weight = isinstance(tensor, torch.nn.Parameter)
            fresh = torch.nn.Parameter(copy, tensor.requires_grad) if is_weight else copy
            swapped[id(tensor)] = (fresh, tensor)  # keep the old one: its id must stay its own
        return swapped[id(tensor)][0]

    for module in network.modules():
        for values in (module._parameters, module._buffers):
            for name, tensor in values.items():
                if tensor is not None:
                    values[name] = fake(tensor)


def _traced(
    network: torch.nn.Module,
    runnable: Runnable,
    batch_size: int,
    options: StepOptions,
    fake: bool,
) -> TracedStep:
    weights = [*network.parameters(), *network.buffers()]
    trained = [one for one in network.parameters() if one.requires_grad]
    network.train(options.training)
    network.zero_grad(set_to_none=True)
    live = _live_bytes()
    with ExitStack() as stack:
        stack.enter_context(_gradients(options))
        if options.checkpointing:
            stack.enter_context(checkpointed(network))
        live.leave_out(weights)
        stack.enter_context(live)
        inputs, targets = _batch(runnable, batch_size, options)
        with _autocast(options):
            outcome = _forward(runnable, network, inputs, targets, options.training)
        forward = live.now
        if options.training:
            outcome.backward()
    return TracedStep(
        weights_mib=_mib(weights),
        trained_mib=_mib(trained),
        forward_mib=forward / MIB,
        peak_mib=live.peak / MIB,
        fake=fake,
    )


def _forward(
    runnable: Runnable, network: torch.nn.Module, inputs: Any, targets: Any, training: bool
) -> Any:
    if training:
        return runnable.training_loss(network, inputs, targets)
    return runnable.forward(network, inputs)


def _batch(runnable: Runnable, batch_size: int, options: StepOptions) -> tuple[Any, Any]:
    """Inputs and targets; images of another side than the network's own where asked for."""
    inputs, targets = runnable.synthetic_batch(batch_size)
    if options.pixels is None:
        return inputs, targets
    if getattr(inputs, "ndim", 0) != 4:
        raise UsageError(
            f"{runnable.info.name} takes no images; leave out --input-size, or change the file"
        )
    resized = inputs.new_empty(*inputs.shape[:2], options.pixels, options.pixels)
    return resized, runnable.synthetic_targets(resized)


def _gradients(options: StepOptions) -> AbstractContextManager[Any]:
    import torch

    return torch.enable_grad() if options.gradients else torch.no_grad()


def _autocast(options: StepOptions) -> AbstractContextManager[Any]:
    """bf16 stands for fp16 too: memory depends on the width alone."""
    import torch

    if not options.sixteen_bit:
        return nullcontext()
    context: AbstractContextManager[Any] = torch.autocast("cpu", dtype=torch.bfloat16)
    return context


def _mib(tensors: list[Any]) -> float:
    return float(sum(one.numel() * one.element_size() for one in tensors)) / MIB


def _live_bytes() -> Any:
    """A dispatch mode that counts the bytes of all storages that operations make.

    `now` and `peak` are bytes; `leave_out(tensors)` names what is not counted.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    from models.zoo.capture import tensors_in

    mode: Any = TorchDispatchMode  # carries no types

    class LiveBytes(mode):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.now = self.peak = 0
            self._seen: set[int] = set()

        def leave_out(self, tensors: list[torch.Tensor]) -> None:
            self._seen.update(one.untyped_storage()._cdata for one in tensors)

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            for tensor in tensors_in(result):
                self._see(tensor.untyped_storage())
            return result

        def _see(self, storage: Any) -> None:
            key = storage._cdata
            if key in self._seen:
                return
            self._seen.add(key)
            size = storage.nbytes()
            self.now += size
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._gone, key, size)

        def _gone(self, key: int, size: int) -> None:
            self._seen.discard(key)
            self.now -= size

    return LiveBytes()
