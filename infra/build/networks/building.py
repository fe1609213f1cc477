"""How builders make networks that libraries describe."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn


def build_on_meta(make: Callable[[], nn.Module]) -> nn.Module:
    """The network that `make` builds, on the meta device: no memory for its weights.

    A builder that computes with values cannot run on the meta device: it builds on the CPU, and the network
    is moved. Raises what `make` raises there."""
    try:
        with torch.device("meta"):
            return make()
    except Exception:
        with torch.device("cpu"):
            return make().to("meta")


@contextmanager
def quiet() -> Iterator[None]:
    """A context that hides the libraries' warnings about old names."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
