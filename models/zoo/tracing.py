"""Memory of the steps of any network that can be built here: nothing is computed or allocated.

A step runs once in mixed precision on fake tensors, which know shapes and storages but no values
(`live_memory` derives both precisions from it). Where a network's work depends on values (the proposals of
Mask R-CNN), small steps are really run on the CPU. Needs torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from advisor.domain import MIB
from advisor.errors import AdvisorError, UsageError
from advisor.models.zoo.autocast import as_on_a_gpu
from advisor.models.zoo.building import make_fake
from advisor.models.zoo.capture import as_usage_errors
from advisor.models.zoo.kernels import PRIME_BATCH, recording
from advisor.models.zoo.live_memory import FACT_BATCHES, MemoryLog, memory_facts, recorded_memory
from advisor.models.zoo.opening import Runnable
from advisor.models.zoo.step_facts import Subject

if TYPE_CHECKING:
    import torch

Context = Callable[[], AbstractContextManager[Any]]


@contextmanager
def checkpointed(network: torch.nn.Module, again: Context) -> Iterator[None]:
    """Run the network's blocks under torch.utils.checkpoint while the context lasts.

    `again` makes a context for what is computed again: autograd leaves function modes behind.

    Blocks are the members of each outermost Sequential or ModuleList that has two or more with weights of
    their own. A Sequential of single layers is cut into sqrt(layers) segments, which costs the least memory
    (Chen et al., arXiv:1604.06174). Others stay as they are."""
    changed = list(_change(network, again))
    try:
        yield
    finally:
        for module in changed:
            del module.forward


def _change(module: torch.nn.Module, again: Context) -> Iterator[Any]:
    import torch

    lists = isinstance(module, torch.nn.Sequential | torch.nn.ModuleList)
    if not lists or len(_weighted(module)) < 2:
        for child in module.children():
            yield from _change(child, again)
    elif isinstance(module, torch.nn.Sequential) and not _has_blocks(module):
        yield _in_segments(module, again)
    else:
        for block in _weighted(module):
            yield _recomputed(block, again)


def _weighted(module: torch.nn.Module) -> list[torch.nn.Module]:
    return [entry for entry in module.children() if next(entry.parameters(), None) is not None]


def _has_blocks(module: torch.nn.Module) -> bool:
    return any(next(entry.children(), None) is not None for entry in module.children())


def _recomputed(block: Any, again: Context) -> Any:
    from torch.utils.checkpoint import checkpoint

    own = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(
            own, *args, use_reentrant=False, context_fn=lambda: (nullcontext(), again()), **kwargs
        )

    block.forward = forward
    return block


def _in_segments(chain: Any, again: Context) -> Any:
    """Segments start at layers with weights, since in-place operations would spoil kept inputs."""
    from torch.utils.checkpoint import checkpoint

    layers = list(chain)
    heavy = [i for i, layer in enumerate(layers) if next(layer.parameters(), None) is not None]
    starts = [0, *heavy[1:][:: max(1, round(math.sqrt(len(heavy))))], len(layers)]
    segments = [_run_all(layers[low:high]) for low, high in pairwise(starts)]

    def forward(inputs: Any) -> Any:
        for segment in segments:
            inputs = checkpoint(
                segment, inputs, use_reentrant=False, context_fn=lambda: (nullcontext(), again())
            )
        return inputs

    chain.forward = forward
    return chain


def _run_all(layers: list[Any]) -> Callable[[Any], Any]:
    def run(inputs: Any) -> Any:
        for layer in layers:
            inputs = layer(inputs)
        return inputs

    return run


Points = list[list[float]]


class Run(Struct, frozen=True):
    """A way to run a step. Without `gradients` it is under no_grad."""

    training: bool
    gradients: bool = True
    checkpointing: bool = False


# By the names that advisor.models.performance.memory looks steps up under, {} being fp32 or 16bit.
RUNS = {
    "training/{}": Run(training=True),
    "training/{}/checkpointing": Run(training=True, checkpointing=True),
    "inference/{}": Run(training=False, gradients=False),
    "inference/{}/gradients": Run(training=False),
}
WIDTHS = {"fp32": "fp32", "16bit": "amp"}
STEPS = tuple(name.format(width) for name in RUNS for width in WIDTHS)


def network_memory(
    runnable: Runnable, steps: Sequence[str] = STEPS, pixels: int | None = None
) -> dict[str, Any]:
    """A network's profile as JSON: see `advisor.models.performance.memory.profile_from`.

    `pixels` asks for images of another side. Steps that torch cannot run are left out; raises `UsageError`,
    with torch's own words, where it can run none of them."""
    import torch

    torch.manual_seed(0)  # a real run may depend on its values
    with as_usage_errors(runnable.info.name):
        try:
            return _faked(runnable, steps, pixels)
        except AdvisorError:
            raise
        except Exception:  # torch raises many kinds for what depends on values
            return _computed(runnable, steps, pixels)


def _faked(runnable: Runnable, steps: Sequence[str], pixels: int | None) -> dict[str, Any]:
    from torch._subclasses.fake_tensor import FakeTensorMode

    make_mode: Any = FakeTensorMode
    mode = make_mode(allow_non_fake_inputs=True)
    # Built for real: constructors read values, and cache what they made.
    network = runnable.build()
    make_fake(network, mode)
    result: dict[str, Points] = {}
    with mode:
        batch = _batch(runnable, PRIME_BATCH, pixels)
        for name, run in RUNS.items():
            widths = [width for width in WIDTHS if name.format(width) in steps]
            if not widths:
                continue
            try:
                facts = step_facts(network, runnable, batch, run)
            except Exception:
                if not result:
                    raise
                continue
            result |= {name.format(width): _points(facts, WIDTHS[width]) for width in widths}
    return _document(network, runnable, "fake", result)


def _points(facts: dict[str, float], precision: str) -> Points:
    sample, fixed = (facts[f"{precision}_forward_{part}"] for part in ("sample", "fixed"))
    return [
        _rounded(b, sample * b + fixed, facts[f"{precision}_peak_{b}"], facts[f"{precision}_reserved_{b}"])
        for b in FACT_BATCHES
    ]


def step_facts(
    network: torch.nn.Module,
    runnable: Subject,
    batch: tuple[Any, Any],
    run: Run,
    inside: Context = nullcontext,
) -> dict[str, float]:
    """`memory_facts` of a step without computing, recorded as a GPU would run it under autocast.

    `network` and `batch` (of `PRIME_BATCH` rows) are fake, or on the meta device. `inside` makes a context
    that comes before that of the GPU."""
    log = MemoryLog([*network.parameters(), *network.buffers()])

    @contextmanager
    def on_a_gpu() -> Iterator[None]:
        with as_on_a_gpu(log, byte_masks=True), inside():
            yield

    with _as(run, network, on_a_gpu), recording(log), on_a_gpu():
        outcome = _step(network, runnable, batch, run, log)
    facts = memory_facts(log)
    del outcome  # until now, so that it counts
    return facts


def _computed(runnable: Runnable, steps: Sequence[str], pixels: int | None) -> dict[str, Any]:
    """Steps on two small batches, really run; bf16 stands for fp16: only the width matters."""
    import torch

    network = runnable.build()
    largest = max(runnable.info.min_training_batch, 2)
    result: dict[str, Points] = {}
    for name, run in RUNS.items():
        for width in WIDTHS:
            if name.format(width) not in steps:
                continue
            points = []
            for size in (largest // 2, largest):
                log = MemoryLog([*network.parameters(), *network.buffers()])
                cast: AbstractContextManager[Any] = (
                    torch.autocast("cpu", dtype=torch.bfloat16) if width == "16bit" else nullcontext()
                )
                batch = _batch(runnable, size, pixels)
                with _as(run, network), recording(log), cast:
                    outcome = _step(network, runnable, batch, run, log)
                points.append(_rounded(size, *recorded_memory(log)))
                del outcome
            result[name.format(width)] = points
    return _document(network, runnable, "run", result)


def _step(
    network: torch.nn.Module, runnable: Subject, batch: tuple[Any, Any], run: Run, log: MemoryLog
) -> Any:
    import torch

    inputs, targets = batch
    if not run.training:
        return runnable.forward(network, inputs)
    loss = runnable.training_loss(network, inputs, targets)
    log.backward = True
    torch.autograd.backward(loss)
    return loss


@contextmanager
def _as(run: Run, network: torch.nn.Module, again: Context = nullcontext) -> Iterator[None]:
    import torch

    network.train(run.training)
    network.zero_grad(set_to_none=True)
    with ExitStack() as stack:
        stack.enter_context(torch.set_grad_enabled(run.gradients))
        if run.checkpointing:
            stack.enter_context(checkpointed(network, again))
        yield
    network.zero_grad(set_to_none=True)


def _batch(runnable: Runnable, size: int, pixels: int | None) -> tuple[Any, Any]:
    """Inputs and targets; images of another side than the network's own where asked for."""
    inputs, targets = runnable.synthetic_batch(size)
    if pixels is None:
        return inputs, targets
    if getattr(inputs, "ndim", 0) != 4:
        raise UsageError(
            f"{runnable.info.name} takes no images", hint="leave out --input-size, or change the file"
        )
    resized = inputs.new_empty(*inputs.shape[:2], pixels, pixels)
    return resized, runnable.synthetic_targets(resized)


def _document(
    network: torch.nn.Module, runnable: Runnable, traced: str, steps: dict[str, Points]
) -> dict[str, Any]:
    weights, trained = sizes_mib(network)
    return {
        "weights_mib": round(weights, 3),
        "trained_mib": round(trained, 3),
        "traced": traced,
        "takes_images": runnable.info.takes_images,
        "steps": steps,
    }


def sizes_mib(network: torch.nn.Module) -> tuple[float, float]:
    """MiB of parameters and buffers, and of the parameters that get gradients."""
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    return _mib([*network.parameters(), *network.buffers()]), _mib(trained)


def _rounded(*numbers: float) -> list[float]:
    return [round(number, 3) for number in numbers]


def _mib(tensors: Sequence[torch.Tensor]) -> float:
    return float(sum(entry.numel() * entry.element_size() for entry in tensors)) / MIB
