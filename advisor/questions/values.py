"""Values of a question that are more than a number or a name: their text in, their text out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from advisor.catalog.matching import has_memory
from advisor.domain import ANY, Gpu, Range
from advisor.errors import UsageError
from advisor.messages import FieldName, Message
from advisor.quantities import parse_memory_mib, parse_positive, parse_range
from advisor.units import format_range, gpus_text, size_text

_CAPABILITY = re.compile(r"[0-9]{1,2}(\.[0-9])?")
_DASHED = re.compile(r"\s*([^-.]+?)\s*-\s*([^-.]+?)\s*")


class GpuFilter(NamedTuple):
    """GPUs by name (one of them), by the memory of one, and by compute capability; all hold."""

    names: tuple[str, ...] = ()
    memory_mib: Range = ANY
    compute_capability: Range = ANY

    def __str__(self) -> str:
        """As `--gpu` takes it: 'A100,40GiB..,cc8.0..'."""
        return gpus_text(self.names, self.memory_mib, self.compute_capability) or ""

    def allows(self, card: Gpu) -> bool:
        """Whether a data sheet is within the ranges; names are compared elsewhere."""
        enough = has_memory(card.memory_mib, self.memory_mib.least, self.memory_mib.most)
        return enough and card.capability in self.compute_capability


class Curve(NamedTuple):
    """Where else to predict, beside a prediction: one point for each value."""

    vcpus: tuple[int, ...] = ()
    memory_mib: tuple[float, ...] = ()
    disks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.vcpus) + len(self.memory_mib) + len(self.disks)


def parse_gpus(text: str) -> GpuFilter:
    """'T4,L4', '24GiB..48GiB', 'cc8.0..' or several of them: 'A100,40GiB..'.

    Names are checked against the catalogue later. Raises `UsageError`.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    capabilities = [part for part in parts if _is_capability(part)]
    sizes = [part for part in parts if ".." in part and part not in capabilities]
    names = tuple(part for part in parts if part not in (*sizes, *capabilities))
    for name in names:
        _refuse_size(name)
    if not parts or max(len(sizes), len(capabilities)) > 1:
        raise UsageError(
            Message(
                "{field} takes names (T4,L4), one range of memory (24GiB..) and one of compute "
                "capabilities (cc8.0..)",
                field=FieldName("gpu"),
            ),
            field="gpu",
        )
    return GpuFilter(
        names=names,
        memory_mib=parse_range(sizes[0], parse_memory_mib) if sizes else ANY,
        compute_capability=_capabilities(capabilities[0]) if capabilities else ANY,
    )


def parse_vcpus(text: str) -> Range:
    """'4..16', '8..', or '8' for 8 alone."""
    return _range(text, lambda end: parse_positive(end, "--vcpus"))


def format_vcpus(limits: Range) -> str:
    """As `parse_vcpus` takes it."""
    return format_range(limits, "{:g}".format)


def parse_ram(text: str) -> Range:
    """'32GiB..64GiB', '32GiB..': RAM in MiB."""
    return _range(text, parse_memory_mib)


def format_ram(limits: Range) -> str:
    """As `parse_ram` takes it."""
    return format_range(limits, size_text)


def _range(text: str, parse: Callable[[str], float]) -> Range:
    dashed = _DASHED.fullmatch(text)
    if dashed:
        raise UsageError(
            "'{text}' is no range", text=text,
            hint=Message("write it as {least}..{most}", least=dashed[1], most=dashed[2]),
        )  # fmt: skip
    return parse_range(text, parse)


def _refuse_size(name: str) -> None:
    """A GPU is never called '24GiB'."""
    dashed = _DASHED.fullmatch(name)
    least, most = dashed.groups() if dashed else (name, "")
    try:
        parse_memory_mib(least)
    except UsageError:
        return
    raise UsageError(
        "'{text}' is no GPU", text=name, field="gpu",
        hint=Message("for GPUs with so much memory write {least}..{most}", least=least, most=most),
    )  # fmt: skip


def _is_capability(part: str) -> bool:
    return part.lower().startswith("cc") and part[2:3] in "0123456789."


def _capabilities(text: str) -> Range:
    """'cc8.0..9.0' -> 8.0 to 9.0, 'cc8.6' -> 8.6 alone."""
    return parse_range(text.lower().replace("cc", ""), _capability)


def _capability(text: str) -> float:
    if not _CAPABILITY.fullmatch(text):
        raise UsageError(
            "'{text}' is no compute capability", text=text,
            hint="write it like cc8.0.. or cc7.5..8.9",
        )  # fmt: skip
    return parse_positive(text, "a compute capability")
