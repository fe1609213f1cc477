"""GPU names as people and tools write them: 'RTX8000' and 'quadro rtx 8000' are one card."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from advisor.domain import Gpu
from advisor.domain.gpu_identity import WHOLE_SHARE, identified, slice_profile
from advisor.domain.gpu_names import gpus_named
from advisor.errors import UsageError, unknown_name


def sheet_names(asked: str, known: Iterable[str]) -> list[str]:
    """Every data sheet that is meant, the usual one first: 'A100' is each A100,
    'A100-SXM4-80GB' one of them. `UsageError` with the near names for others.
    """
    names = list(known)
    if isinstance(known, Mapping):
        require_whole(asked, known)
    found = gpus_named(asked, names)
    if not found:
        raise unknown_name("GPU", asked, names, field="gpu")
    return found


def require_whole(asked: str, sheets: Mapping[str, Gpu]) -> None:
    """`UsageError` for the name of a slice: 'A10-4Q' is another GPU than an A10."""
    if not is_whole(asked, sheets):
        raise UsageError(
            "'{gpu}' is a slice ({profile}) of a card, and no rate of a slice is known",
            gpu=asked,
            profile=slice_profile(asked),
            field="gpu",
            code="gpu_slice",
            hint="name a whole card",
        )


def is_whole(name: str, sheets: Mapping[str, Gpu]) -> bool:
    """True for the name of a whole card: also of a vGPU that has all of one, such as 'A10-24Q'."""
    profile = slice_profile(name)
    size = re.fullmatch(r"(\d+)[ABCQ].*", profile, re.IGNORECASE)
    if size is None:
        return not profile
    cards = gpus_named(name.removesuffix(f"-{profile}"), sheets)
    return any(1024 * int(size[1]) >= WHOLE_SHARE * sheets[one].memory_mib for one in cards)


def sheet_name(asked: str, known: Iterable[str]) -> str:
    """The one data sheet that is meant, of several forms the usual one; `UsageError` where they
    differ in memory (an A100 of 40 GB is not one of 80 GB), or none is meant.
    """
    names = sheet_names(asked, known)
    if len({tuple(re.findall(r"\d+GB", name)) for name in names}) > 1:
        raise UsageError(f"'{asked}' is sold as {', '.join(names)}; name one of them")
    return names[0]


def usual_sheet_name(asked: str, known: Iterable[str]) -> str:
    """The one data sheet that a name means most likely, as tables of measurements use it: a bare
    'A100' is the A100-SXM4-40GB, 'V100' the V100-SXM2-16GB, 'P100' the P100-PCIE-16GB, 'H100' the
    H100-SXM5-80GB (`gpus_named` has the rule). `UsageError` with the near names for others.
    """
    return sheet_names(asked, known)[0]


def sheet_of(
    name: str, sheets: Mapping[str, Gpu], *, memory_mib: float | None = None, sm_count: int | None = None
) -> Gpu:
    """The sheet of a card that torch or the catalogue names, and says this size of (None: it does
    not say); `UsageError` where there is none.

    Only the very card: a laptop's, a slice of a card or a "Super" is another GPU.
    """
    found = identified(name, sheets, memory_mib=memory_mib, sm_count=sm_count)
    if found.is_slice:
        raise UsageError(
            "'{gpu}' is a slice ({profile}) of a {card}, so nothing follows from it for the card",
            gpu=name,
            profile=found.slice_profile,
            card=found.gpu,
            hint="measure on a whole card",
            code="gpu_slice",
        )
    if found.gpu in sheets:
        return sheets[found.gpu]
    raise UsageError(
        "there is no data sheet of the GPU '{gpu}', so nothing follows from it for others",
        gpu=name,
        hint=unknown_name("GPU", name, sheets).hint,
        code="unknown_name",
    )
