"""Identifies the card behind the name that a driver gives a GPU: a whole one, a slice of one, or one
without a data sheet.

A MIG slice or a vGPU carries the name of its card, and has a part of its memory, of its
multiprocessors or of its time: what is measured there says nothing about the card.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from advisor.domain.accelerator import Accelerator
from advisor.domain.gpu_names import gpus_named
from advisor.domain.machines import Gpu
from advisor.domain.words import AcceleratorKind

# 'NVIDIA A100-SXM4-40GB MIG 1g.5gb', and tables' 'NVIDIA A100-SXM4 (1x1g.5gb MIG)'.
_MIG = re.compile(r"[\s(]+(?:\d+x)?(?:MIG )?((?:\d+c\.)?\d+g\.\d+gb\S*?)(?: MIG)?\)?$", re.I)
# Types of NVIDIA vGPU: 'GRID T4-16Q', 'NVIDIA A10-24Q', 'NVIDIA A100-1-5C', 'GRID T4-1B4'.
_VGPU = re.compile(r"-((?:\d+-)?\d+[ABCQ](?:ME|\d)?)$", re.I)
# vGPU's 'V100D', 'V100DX' and 'A100X' are the V100 and A100 by form and memory.
_VGPU_FORM = re.compile(r"(?<=\d)[DLX]+$")
# The sheet has the nominal size. Of GDDR memory ECC takes a sixteenth, and the driver some more:
# nvidia-smi shows 11.17 of a K80's 12 GiB, and torch a little less.
WHOLE_SHARE, _MOST_SHARE = 0.88, 1.03
# Of a card whose size is not the sheet's, and whose name does not tell why.
UNNAMED_SLICE = "unknown"


def identified(
    name: str,
    sheets: Mapping[str, Gpu],
    *,
    memory_mib: float | None = None,
    sm_count: int | None = None,
    compute_capability: str = "",
) -> Accelerator:
    """The GPU that a driver calls `name` and says this size of (None: it does not say).

    `gpu` is the name of its data sheet, or the driver's where there is none. A slice has its
    profile: MIG's `1g.5gb`, vGPU's `16Q`, or `unknown` where the name is a card's and the memory or
    the multiprocessors are not.
    """
    card, profile = _card_and_profile(" ".join(name.split()))
    named = gpus_named(card, sheets)
    whole = [sheet for sheet in named if _is_size_of(sheets[sheet], memory_mib, sm_count)]
    if named and not whole:
        profile = profile or UNNAMED_SLICE
    return Accelerator(
        kind=AcceleratorKind.CUDA,
        gpu=next(iter(whole or named), card if profile else name),
        memory_mib=memory_mib,
        sm_count=sm_count,
        slice_profile=profile,
        compute_capability=compute_capability,
    )


def is_card(requested: str, present: Accelerator, sheets: Mapping[str, Gpu]) -> bool:
    """Whether the whole card that `cuda:<requested>` means is present.

    Of several forms the usual one is meant ('H100' is the H100-SXM5-80GB), and any other with as
    many multiprocessors and as much memory ('A100' is the PCIe card of 40 GB, too).
    """
    if present.is_slice:
        return False
    meant = gpus_named(requested, sheets)
    if not meant or present.gpu not in sheets:
        return not meant and bool(gpus_named(requested, (present.gpu,)))
    usual, here = sheets[meant[0]], sheets[present.gpu]
    alike = (usual.memory_mib, usual.sms) == (here.memory_mib, here.sms)
    return present.gpu in meant and alike


def slice_profile(name: str) -> str:
    """'NVIDIA A30 MIG 1g.6gb+me' -> '1g.6gb+me', 'GRID T4-16Q' -> '16Q'; '' for a whole card."""
    return _card_and_profile(name)[1]


def _card_and_profile(name: str) -> tuple[str, str]:
    """'GRID V100D-8Q' -> 'GRID V100', '8Q'; a whole card has no profile."""
    if mig := _MIG.search(name):
        return name[: mig.start()], mig[1]
    if vgpu := _VGPU.search(name):
        return _VGPU_FORM.sub("", name[: vgpu.start()]), vgpu[1]
    return name, ""


def _is_size_of(sheet: Gpu, memory_mib: float | None, sm_count: int | None) -> bool:
    share = memory_mib / sheet.memory_mib if memory_mib else 1.0
    as_many = None in (sm_count, sheet.sms) or sm_count == sheet.sms
    return as_many and WHOLE_SHARE <= share <= _MOST_SHARE
