"""What the instance must have, as options: the same words wherever types are chosen among."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import click

from advisor.catalog.matching import has_memory
from advisor.domain import ANY, Gpu, Range
from advisor.errors import UsageError
from advisor.units import parse_memory_mib, parse_positive, parse_range

Command = TypeVar("Command", bound=Callable[..., Any])

GPU_HELP = "Only these GPUs, of so much memory or compute capability: T4,L4 | 24GiB.. | cc8.0.."
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


class GpuFilter(click.ParamType[GpuWanted]):
    """'T4,L4', '24GiB..48GiB', 'cc8.0..' or several of them: 'A100,40GiB..'."""

    name = "names|SIZE..|ccX.Y.."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> GpuWanted:
        """Names are checked against the catalogue later."""
        if isinstance(value, GpuWanted):
            return value
        parts = [part.strip() for part in value.split(",") if part.strip()]
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


class Between(click.ParamType[Range]):
    """'4..16', '4..', '..16', or '8' for 8 alone."""

    name = "LEAST..MOST"

    def __init__(self, parse: Callable[[str], float]) -> None:
        self.parse = parse

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Range:
        """`UsageError` for a range that holds nothing, or leaves out nothing."""
        return value if isinstance(value, Range) else parse_range(str(value), self.parse)


def hardware_options(command: Command) -> Command:
    """--gpu, --vcpus and --memory. What is outside is not looked at: nobody asked for it."""
    options = [
        click.option("--gpu", type=GpuFilter(), help=GPU_HELP),
        click.option(
            "--vcpus", type=Between(lambda text: parse_positive(text, "--vcpus")),
            help="Only types with so many vCPUs: 4..16, 8..",
        ),
        click.option("--memory", type=Between(parse_memory_mib),
                     help="Only types with so much RAM: 32GiB..64GiB, 32GiB.."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


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
