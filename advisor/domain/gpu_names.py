"""Finds the data sheets that a GPU's name may mean, whoever wrote the name.

A name is split into words. Words that tell cards apart (`3080`, `ti`, `laptop`, `maxq`, `ada`, `server`) must
be the same in both names; brand, form, memory and generation may be missing, and must be right if given.

A MIG slice or a vGPU has the name of its card, and part of its memory, multiprocessors or time: what is
measured on it says nothing about the card."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from advisor.domain.machines import Accelerator, Gpu
from advisor.domain.words import AcceleratorKind

_WORD = re.compile(r"[a-z0-9.]+")
_MAX_Q = re.compile(r"max[\s_-]?q(?![a-z])")
_ADA = re.compile(r"ada[\s_-]lovelace")
_SPACED_MEMORY = re.compile(r"(\d)\s+(gi?b)\b")
# Words written together: 'RTX2080Ti', '1080ti', '2070S', '4090D', 'TitanXp', 'H100PCIe'.
_GLUED_BRAND = re.compile(
    r"(nvidia|tesla|geforce|quadro|rtx|gtx|titan|pro)(?=[a-z]?\d|xp?$|v$|rtx|gtx|pro\d)"
)
_GLUED_KIND = re.compile(
    r"(\d{3,4}e?)(ti|super|s|d|)(super|)(sff|)(blackwell|)(ada|)"
    r"(laptop|mobile|maxq|server|workstation|generation|)"
)
_GLUED_FORM = re.compile(r"([a-z]+\d+[a-z]?)(pcie|sxm\d?|nvl|ada|laptop)([1-9]\d+gi?b|)")
# '80GB', '144G'; '80C' and '16Q' are whole cards behind a hypervisor.
_MEMORY = re.compile(r"(\d+)(?:gi?b?|c|q)")
_FORM = re.compile(r"pcie\d?|sxm\d?|nvl|hbm\de?")
_FORMS = ("sxm", "pci", "nvl")
_BRANDS = frozenset({"geforce", "quadro", "rtx", "gtx"})
_GENERATIONS = frozenset({"pascal", "volta", "turing", "ampere", "hopper", "blackwell"})
_WORKSTATION = frozenset({"workstation", "ws"})
_SAME = {"mobile": "laptop", "notebook": "laptop", "smx": "sxm", "s": "super", "dgxs": "pcie", "fhhl": "pcie"}
_IGNORED = frozenset(
    {
        *("nvidia", "tesla", "grid", "gpu", "graphics", "card", "generation", "edition"),
        *("design", "with", "desktop", "active", "grace", "superchip", "dgx", "spark"),
        *("virtualized", "cts", "ac", "500w", "02", "wsl2", "evga", "gigabyte", "blower"),
        "non",
    }
)
# Ambiguous or wrong names, as words -> the name of the card that is meant.
_KNOWN_AS = {
    frozenset(words.split(" ")): name
    for words, name in {
        "gh200 480gb": "gh200 96gb",  # by its host's memory
        "geforce gtx titan x": "titan x maxwell",
        "gtx titan x": "titan x maxwell",
        "gtx 1650 ti": "gtx 1650 ti laptop",
        "geforce gtx 1650 ti": "gtx 1650 ti laptop",
        "a6000 ada": "rtx 6000 ada",
        "rtx a6000 ada": "rtx 6000 ada",
        "rtx pro 6000 super": "rtx pro 6000 server",  # a marketplace's 'S'
        "b200 192gb": "b200",
        "b300 288gb": "b300",
        "gb200 192gb": "gb200",
        "gb300 288gb": "gb300",
    }.items()
}
# Cards that the order of `gpus_named` would put before more usual ones of the same chip.
_UNUSUAL = frozenset({"P100-PCIE-12GB", "P100-SXM2-16GB"})


class _Card(NamedTuple):
    """A GPU name's words by meaning; `chip` has those that tell cards apart."""

    is_workstation: bool
    words: frozenset[str]
    chip: frozenset[str]
    forms: frozenset[str]
    memory: frozenset[str]


def gpus_named(name: str, known: Iterable[str]) -> list[str]:
    """Every one of `known` (names of data sheets) that a name may mean, the usual one first. 'A100' means
    each A100. The usual one has the shortest name, then SXM before PCIe before NVL (a P100 is PCIe), then the
    least memory: so 'A100' is first of all the A100-SXM4-40GB, 'RTX 6000' Turing's Quadro. Empty for unknown
    names, and for slices of a card (MIG)."""
    wanted = _card(name)
    wanted = _card(next(filter(None, map(_KNOWN_AS.get, (wanted.words, wanted.words - wanted.memory))), name))
    sheets = list(known)
    exact = [sheet for sheet in sheets if wanted.chip and _card(sheet).words == wanted.words]
    letters = _joined(name)
    exact = exact or [sheet for sheet in sheets if letters and _joined(sheet) == letters]
    meant = exact or [sheet for sheet in sheets if wanted.chip and _is_meant(wanted, _card(sheet))]
    return sorted(meant, key=lambda sheet: _usual_order(wanted, sheet))


@lru_cache(maxsize=1024)
def _joined(name: str) -> str:
    """A name without blanks and signs: 'NVIDIA H200-SXM-141GB' -> 'h200sxm141gb'."""
    return "".join(_WORD.findall(name.casefold())).replace(".", "").removeprefix("nvidia")


def _is_meant(wanted: _Card, card: _Card) -> bool:
    # 'RTX PRO 6000' is sold for desks and servers; a 'Max-Q' of older series is another GPU.
    more = card.chip - wanted.chip if "pro" in wanted.chip and not wanted.is_workstation else frozenset()
    return (
        wanted.chip | (more & {"server", "maxq"}) == card.chip
        and (wanted.words & {"rtx", "gtx"}) <= card.words
        and all(_has_form(form, card.forms) for form in wanted.forms)
        and (wanted.memory <= card.memory or not card.memory)
    )


def _has_form(wanted: str, forms: frozenset[str]) -> bool:
    """True if a named form is among a card's: 'SXM' is any SXM; HBM3 means SXM where there is a choice."""
    if wanted.startswith("hbm"):
        return wanted != "hbm3" or not forms & {"pcie", "nvl"}
    kind = wanted[:3]
    return (
        not forms
        or any(form in (wanted, kind) or wanted == kind == form[:3] for form in forms)
        or (kind == "pci" and "pcie" in forms)
    )


def _usual_order(wanted: _Card, name: str) -> tuple[bool, int, int, int, str]:
    card = _card(name)
    form = min((_FORMS.index(form[:3]) for form in card.forms), default=0)
    gib = min((int(size[:-2]) for size in card.memory), default=0)
    strange = not wanted.memory <= card.memory or name in _UNUSUAL
    return strange, len(card.words), form, gib, name


@lru_cache(maxsize=1024)
def _card(name: str) -> _Card:
    every = frozenset(_words(name))
    words = every - _WORKSTATION
    memory = {word for word in words if _MEMORY.fullmatch(word)}
    forms = {word for word in words if _FORM.fullmatch(word)}
    chip = words - memory - forms - _GENERATIONS - _BRANDS
    if "titan" in chip:
        chip |= words & {"rtx"}
    return _Card(not every.isdisjoint(_WORKSTATION), words, chip, frozenset(forms), frozenset(memory))


def _words(name: str) -> list[str]:
    """The words of a name: 'NVIDIA GeForce RTX2080Ti' -> geforce, rtx, 2080, ti."""
    text = _SPACED_MEMORY.sub(r"\1\2", _MAX_Q.sub(" maxq ", _ADA.sub(" ", name.casefold())))
    words = []
    for word in _WORD.findall(text):
        rest = word.strip(".")
        while glued := _GLUED_BRAND.match(rest):
            words.append(glued[1])
            rest = rest[glued.end() :]
        parts = _GLUED_KIND.fullmatch(rest) or _GLUED_FORM.fullmatch(rest)
        words += [part for part in parts.groups() if part] if parts else [rest]
    same = (_SAME.get(word, word) for word in words)
    return [
        _MEMORY.sub(r"\1gb", word) if _MEMORY.fullmatch(word) else word
        for word in same
        if word and word not in _IGNORED
    ]


# 'NVIDIA A100-SXM4-40GB MIG 1g.5gb', and tables' 'NVIDIA A100-SXM4 (1x1g.5gb MIG)'.
_MIG = re.compile(r"[\s(]+(?:\d+x)?(?:MIG )?((?:\d+c\.)?\d+g\.\d+gb\S*?)(?: MIG)?\)?$", re.I)
# Types of NVIDIA vGPU: 'GRID T4-16Q', 'NVIDIA A10-24Q', 'NVIDIA A100-1-5C', 'GRID T4-1B4'.
_VGPU = re.compile(r"-((?:\d+-)?\d+[ABCQ](?:ME|\d)?)$", re.I)
# vGPU's 'V100D', 'V100DX' and 'A100X' are the V100 and A100 by form and memory.
_VGPU_FORM = re.compile(r"(?<=\d)[DLX]+$")
# The sheet has the nominal size. Of GDDR memory ECC takes a sixteenth, and the driver some more:
# nvidia-smi shows 11.17 of a K80's 12 GiB, and torch a little less.
WHOLE_SHARE, _MOST_SHARE = 0.88, 1.03
# The profile of a card whose size differs from its sheet's and whose name does not say why.
UNNAMED_SLICE = "unknown"


def identified(
    name: str,
    sheets: Mapping[str, Gpu],
    *,
    memory_mib: float | None = None,
    sm_count: int | None = None,
    compute_capability: str = "",
) -> Accelerator:
    """The GPU that a driver calls `name`, by that name and its size (None: not known). `gpu` is the name of
    its data sheet, or the driver's name without a sheet. A slice has its profile: MIG's `1g.5gb`, vGPU's
    `16Q`, or `unknown` where the name is a whole card's and memory or multiprocessors are fewer."""
    card, profile = _card_and_profile(" ".join(name.split()))
    named = gpus_named(card, sheets)
    whole = [sheet for sheet in named if _has_size(sheets[sheet], memory_mib, sm_count)]
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
    """True if the GPU present is all of the card that `cuda:<requested>` names. Of several forms the usual
    one is meant ('H100' is the H100-SXM5-80GB), and any other with the same multiprocessors and memory
    ('A100' is the PCIe card of 40 GB, too)."""
    if present.is_slice:
        return False
    meant = gpus_named(requested, sheets)
    if not meant or present.gpu not in sheets:
        return not meant and bool(gpus_named(requested, (present.gpu,)))
    usual, here = sheets[meant[0]], sheets[present.gpu]
    alike = (usual.memory_mib, usual.sms) == (here.memory_mib, here.sms)
    return present.gpu in meant and alike


def slice_profile(name: str) -> str:
    """The profile of a slice: 'NVIDIA A30 MIG 1g.6gb+me' -> '1g.6gb+me', 'GRID T4-16Q' -> '16Q'; else ''."""
    return _card_and_profile(name)[1]


def _card_and_profile(name: str) -> tuple[str, str]:
    """The card and profile of a slice: 'GRID V100D-8Q' -> 'GRID V100', '8Q'; else the name and ''."""
    if mig := _MIG.search(name):
        return name[: mig.start()], mig[1]
    if vgpu := _VGPU.search(name):
        return _VGPU_FORM.sub("", name[: vgpu.start()]), vgpu[1]
    return name, ""


def _has_size(sheet: Gpu, memory_mib: float | None, sm_count: int | None) -> bool:
    share = memory_mib / sheet.memory_mib if memory_mib else 1.0
    as_many = None in (sm_count, sheet.sms) or sm_count == sheet.sms
    return as_many and WHOLE_SHARE <= share <= _MOST_SHARE
