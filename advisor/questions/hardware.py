"""What the instance must have: the same words wherever types are chosen among."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from advisor.catalog.matching import has_memory
from advisor.domain import ANY, Gpu, Range
from advisor.errors import UsageError
from advisor.quantities import parse_memory_mib, parse_positive, parse_range

_CAPABILITY = re.compile(r"[0-9]{1,2}(\.[0-9])?")


class GpuWanted(NamedTuple):
    """GPUs by name (one of them), by the memory of one, and by compute capability; all hold."""

    names: tuple[str, ...] = ()
    memory_mib: Range = ANY
    compute_capability: Range = ANY

    def allows(self, card: Gpu) -> bool:
        """Whether a data sheet is within the ranges; names are compared elsewhere."""
        enough = has_memory(card.memory_mib, self.memory_mib.least, self.memory_mib.most)
        return enough and card.capability in self.compute_capability


def wanted_gpus(text: str) -> GpuWanted:
    """'T4,L4', '24GiB..48GiB', 'cc8.0..' or several of them: 'A100,40GiB..'.

    Names are checked against the catalogue later.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    capabilities = [part for part in parts if _is_capability(part)]
    sizes = [part for part in parts if ".." in part and part not in capabilities]
    if not parts or max(len(sizes), len(capabilities)) > 1:
        raise UsageError(
            "--gpu takes names (T4,L4), one range of memory (24GiB..) and one of compute "
            "capabilities (cc8.0..)"
        )
    return GpuWanted(
        names=tuple(part for part in parts if part not in (*sizes, *capabilities)),
        memory_mib=parse_range(sizes[0], parse_memory_mib) if sizes else ANY,
        compute_capability=_capabilities(capabilities[0]) if capabilities else ANY,
    )


def wanted_vcpus(text: str) -> Range:
    """'4..16', '8..', or '8' for 8 alone."""
    return parse_range(text, lambda end: parse_positive(end, "--vcpus"))


def wanted_memory(text: str) -> Range:
    """'32GiB..64GiB', '32GiB..': RAM in MiB."""
    return parse_range(text, parse_memory_mib)


def hardware_answers(answers: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a `Request` and an `OfferQuery` have for it."""
    gpu = answers.get("gpu") or GpuWanted()
    return {
        "gpus": gpu.names,
        "min_gpu_memory_mib": gpu.memory_mib.least,
        "max_gpu_memory_mib": gpu.memory_mib.most,
        "compute_capability": gpu.compute_capability,
        "vcpus": answers.get("vcpus") or ANY,
        "memory_mib": answers.get("memory") or ANY,
    }


def _is_capability(part: str) -> bool:
    return part.lower().startswith("cc") and part[2:3] in "0123456789."


def _capabilities(text: str) -> Range:
    """'cc8.0..9.0' -> 8.0 to 9.0, 'cc8.6' -> 8.6 alone."""
    return parse_range(text.lower().replace("cc", ""), _capability)


def _capability(text: str) -> float:
    if not _CAPABILITY.fullmatch(text):
        raise UsageError(f"'{text}' is no compute capability; write it like cc8.0.. or cc7.5..8.9")
    return parse_positive(text, "a compute capability")
