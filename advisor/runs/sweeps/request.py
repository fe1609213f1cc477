"""What a sweep is asked with: its grid, or a preset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.domain import MEASURABLE_PRECISIONS, CacheState, Precision, Task
from advisor.domain.workload import is_own
from advisor.errors import UsageError, unknown_name
from advisor.messages import Message
from advisor.quantities import parse_memory_mib, parse_name, parse_positive
from advisor.runs.sweeps.sweeping import SweepOptions
from sweeps.datasets.decoding import decoder
from sweeps.planning.disks import split_disks

if TYPE_CHECKING:
    pass

_NEEDED = ("networks", "tasks", "vcpus", "memory", "disks")
_NOT_WITH_PRESET = (*_NEEDED, "accelerator", "batch_sizes", "cache", "precision")


def asked_for_nothing(answers: dict[str, Any]) -> bool:
    """Whether no trial is described."""
    return not any(answers[name] for name in ("preset", *_NOT_WITH_PRESET))


def options_from(answers: dict[str, Any]) -> SweepOptions:
    """The checked options; `UsageError` names the flag that is missing or wrong."""
    common = {
        "data": answers["data"],
        "ray_address": answers["ray_address"],
        "rel_error": _share(answers["rel_error"]),
        "repeats": _whole(answers["repeats"], "--repeats"),
        "decoder": _installed_decoder(answers["decoder"]),
        "iterations": answers["iterations"] and _whole(answers["iterations"], "--iterations"),
        "disk_paths": dict(map(_disk_path, answers["disk_paths"])),
    }
    if answers["preset"]:
        _refuse_beside_preset(answers)
        return SweepOptions(preset=answers["preset"].lower(), **common)
    missing = [f"--{name}" for name in _NEEDED if not answers[name]]
    if missing:
        raise UsageError(
            "a sweep needs {missing}", missing=", ".join(missing), hint="or take --preset small"
        )
    return SweepOptions(
        networks=_network_names(answers["networks"]),
        tasks=tuple(_word(Task, "task", text) for text in _words(answers["tasks"])),
        vcpus=tuple(parse_positive(text, "--vcpus") for text in _words(answers["vcpus"])),
        memory_mib=tuple(parse_memory_mib(text) for text in _words(answers["memory"])),
        disks=tuple(split_disks(answers["disks"])),
        accelerator=answers["accelerator"],
        batch_sizes=tuple(
            _whole(text, "--batch-sizes") for text in _words(answers["batch_sizes"] or "32")
        ),
        caches=tuple(
            _word(CacheState, "cache state", text) for text in _words(answers["cache"] or "warm")
        ),
        precision=Precision(
            parse_name(answers["precision"] or "fp32", "precision", MEASURABLE_PRECISIONS)
        ),
        **common,
    )


def _refuse_beside_preset(answers: dict[str, Any]) -> None:
    also = [f"--{name.replace('_', '-')}" for name in _NOT_WITH_PRESET if answers[name]]
    if also:
        raise UsageError(
            "--preset decides about {also} already",
            also=", ".join(also),
            field="preset",
            hint="give one or the other",
        )


def _words(text: str) -> tuple[str, ...]:
    """Comma-separated words, lower case, each once."""
    words = tuple(word.strip().lower() for word in text.split(",") if word.strip())
    return tuple(dict.fromkeys(words))


def _word(kind: Any, what: str, text: str) -> Any:
    try:
        return kind(text.lower())
    except ValueError as error:
        raise unknown_name(what, text, [member.value for member in kind]) from error


def _network_names(text: str) -> tuple[str, ...]:
    """Names in lower case; files as they are written, from the folder one stands in."""
    names = (name.strip() for name in text.split(",") if name.strip())
    return tuple(
        dict.fromkeys(
            str(Path(name).absolute()) if is_own(name) else name.lower() for name in names
        )
    )


def _whole(text: str, what: str) -> int:
    number = parse_positive(text, what)
    if number != int(number):
        raise UsageError("{what} takes whole numbers, not '{given}'", what=what, given=text)
    return int(number)


def _share(text: str) -> float:
    """'2%' -> 0.02; a bare number is a share: 0.02."""
    percent = text.strip().endswith("%")
    number = parse_positive(text.strip().rstrip("%"), "--rel-error")
    share = number / 100 if percent else number
    if share >= 1:
        raise UsageError(
            "--rel-error is a part of the rate, as 2% or 0.02, not '{given}'",
            given=text,
            field="rel_error",
        )
    return share


def _is_on_root_disk(folder: Path) -> bool:
    return folder.stat().st_dev == Path("/").stat().st_dev


def _installed_decoder(name: str) -> str:
    decoder(name)  # refuses one that is not installed, before anything is measured
    return name


def _disk_path(text: str) -> tuple[str, Path]:
    disk_type, equals, path = text.partition("=")
    if not (equals and disk_type.strip() and path.strip()):
        raise UsageError(
            "'{given}' names no mounted disk", given=text, hint="write it like gp3=/mnt/gp3"
        )
    folder = Path(path.strip())
    if not folder.is_dir():
        raise UsageError(
            "--disk-path {given}: there is no folder {folder}",
            given=text,
            folder=folder,
            field="disk_path",
            hint="mount the disk first",
        )
    if folder.absolute() != Path("/") and _is_on_root_disk(folder):
        raise UsageError(
            ("--disk-path {given}: {folder} lies on the disk of /, so nothing is mounted there"),
            given=text,
            folder=folder,
            field="disk_path",
            hint=Message(
                "mount the disk first, or write {disk_type}=/ where that is the disk you mean",
                disk_type=disk_type,
            ),
        )
    return disk_type.strip().lower(), folder.absolute()
