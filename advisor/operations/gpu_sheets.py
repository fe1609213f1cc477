"""From what CUDA calls a card to its data sheet."""

from __future__ import annotations

import re
from collections.abc import Mapping

from advisor.domain import Gpu
from advisor.errors import UsageError

_VENDOR = re.compile(r"^(nvidia|tesla|geforce)\s+")
# Cards whose driver's name is not the data sheet's; folded.
_OTHER_NAMES = {
    "a100 80gb pcie": "a100-pcie-80gb",
    "h100 80gb hbm3": "h100-sxm5-80gb",
    "h100 pcie": "h100-pcie-80gb",
    "h100 nvl": "h100-nvl-94gb",
    "h200": "h200-sxm-141gb",
    "b200": "b200-sxm-180gb",
    "v100-sxm3-32gb": "v100-sxm2-32gb",
}


def sheet_of(name: str, sheets: Mapping[str, Gpu]) -> Gpu:
    """The sheet of a card as torch or the catalogue names it; `UsageError` where there is none.

    Only the very card: a laptop's, a slice of a card or a "Super" is another GPU.
    """
    folded = name.casefold().strip()
    while (shorter := _VENDOR.sub("", folded)) != folded:
        folded = shorter
    folded = _OTHER_NAMES.get(folded, folded)
    by_folded = {known.casefold(): sheet for known, sheet in sheets.items()}
    if folded in by_folded:
        return by_folded[folded]
    raise UsageError(
        f"there is no data sheet of the anchor's GPU '{name}', so nothing follows from it for "
        f"others; anchors may come from: {', '.join(sorted(sheets))}"
    )
