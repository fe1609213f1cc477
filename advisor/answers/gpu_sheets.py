"""From what CUDA calls a card to its data sheet."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.domain import Gpu
from advisor.domain.gpu_names import gpus_named
from advisor.errors import UsageError, unknown_name


def sheet_of(name: str, sheets: Mapping[str, Gpu]) -> Gpu:
    """The sheet of a card as torch or the catalogue names it; `UsageError` where there is none.

    Only the very card: a laptop's, a slice of a card or a "Super" is another GPU.
    """
    found = gpus_named(name, sheets)
    if found:
        return sheets[found[0]]
    raise UsageError(
        f"there is no data sheet of the GPU '{name}', so nothing follows from it for others: "
        f"{unknown_name('GPU', name, sheets)}"
    )
