"""Gradient checkpointing of any network: blocks keep their input and are computed again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


Context = Callable[[], AbstractContextManager[Any]]


@contextmanager
def checkpointed(network: torch.nn.Module, again: Context = nullcontext) -> Iterator[None]:
    """Run the network's blocks under torch.utils.checkpoint while the context lasts.

    `again` makes a context for what is computed again: autograd leaves function modes behind.

    Blocks are the members of each outermost Sequential or ModuleList that has two or more with
    weights of their own. A Sequential of single layers is cut into sqrt(layers) segments, which
    costs the least memory (Chen et al., arXiv:1604.06174). Others stay as they are.
    """
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
    """Segments begin at layers with weights: one that begins with an in-place operation would
    overwrite the very input that it keeps."""
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
