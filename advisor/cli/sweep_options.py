"""The options that describe a sweep, shared by `plan`, `run`, `status` and `list`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from advisor.cli.parameters import Name
from advisor.domain import CacheState, Precision, Task
from advisor.domain.references import is_own
from advisor.errors import UsageError, unknown_name
from advisor.operations.sweeping import SweepOptions
from advisor.units import parse_memory_mib, parse_positive
from sweeps.datasets.decoding import DECODERS, PILLOW, decoder
from sweeps.disks import split_disks

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--preset", metavar="NAME", help="A sweep by name: small (fits in 10 minutes)."),
    click.option(
        "--networks", metavar="NAMES", help="As alexnet,googlenet or your own: net.py:build."
    ),
    click.option("--tasks", metavar="TASKS", help="Of training,inference,preprocessing."),
    click.option("--vcpus", metavar="NUMBERS", help="As 0.5,1,2."),
    click.option("--memory", metavar="SIZES", help="As 2GiB,4GiB; page cache counts."),
    click.option(
        "--disks", metavar="DISKS", help="As gp3,st1:500GiB,slow=20MiB/s,500iops,unlimited."
    ),
    click.option("--accelerator", metavar="KIND", help="cuda, cpu or emulated:<GPU>."),
    click.option("--batch-sizes", metavar="NUMBERS", help="As 16,32; default 32."),
    click.option("--cache", metavar="STATES", help="warm (default), cold or cold,warm."),
    click.option("--precision", metavar="FORMAT", help="fp32 (default), amp or bf16."),
    click.option(
        "--data", type=click.Path(path_type=Path),
        help="Your own images (JPEG files, .tar, .rec, LMDB) or text (.txt).",
    ),
    click.option(
        "--decoder", type=Name("decoder", DECODERS), default=PILLOW, show_default=True,
        help="What turns JPEG files into pixels.",
    ),
    click.option(
        "--rel-error", metavar="PERCENT", default="2%", show_default=True,
        help="A trial stops once its rate is known this well.",
    ),
    click.option(
        "--repeats", metavar="NUMBER", default="1", show_default=True,
        help="Measure each trial so often, in random order, in one row.",
    ),
    click.option(
        "--iterations", metavar="NUMBER", help="Exactly so many steps instead, as 1000 or 10000."
    ),
    click.option(
        "--disk-path", "disk_paths", metavar="TYPE=PATH", multiple=True,
        help="A mounted disk of that type, as gp3=/mnt/gp3: measured itself, not throttled.",
    ),
    click.option("--ray-address", metavar="ADDRESS", help="A Ray cluster to measure on."),
)  # fmt: skip
_NEEDED = ("networks", "tasks", "vcpus", "memory", "disks")
_NOT_WITH_PRESET = (*_NEEDED, "accelerator", "batch_sizes", "cache", "precision")


def sweep_options(command: Command) -> Command:
    """Add the options to a command; it receives them under their names."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


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
        raise UsageError(f"a sweep needs {', '.join(missing)}; or take --preset small")
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
        precision=_word(Precision, "precision", answers["precision"] or "fp32"),
        **common,
    )


def _refuse_beside_preset(answers: dict[str, Any]) -> None:
    also = [f"--{name.replace('_', '-')}" for name in _NOT_WITH_PRESET if answers[name]]
    if also:
        raise UsageError(f"--preset decides about {', '.join(also)} already; give one or the other")


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
        raise UsageError(f"{what} takes whole numbers, not '{text}'")
    return int(number)


def _share(text: str) -> float:
    """'2%' -> 0.02; a bare number is a share: 0.02."""
    percent = text.strip().endswith("%")
    number = parse_positive(text.strip().rstrip("%"), "--rel-error")
    share = number / 100 if percent else number
    if share >= 1:
        raise UsageError(f"--rel-error is a part of the rate, as 2% or 0.02, not '{text}'")
    return share


def _is_on_root_disk(folder: Path) -> bool:
    return folder.stat().st_dev == Path("/").stat().st_dev


def _installed_decoder(name: str) -> str:
    decoder(name)  # refuses one that is not installed, before anything is measured
    return name


def _disk_path(text: str) -> tuple[str, Path]:
    disk_type, equals, path = text.partition("=")
    if not (equals and disk_type.strip() and path.strip()):
        raise UsageError(f"'{text}' names no mounted disk; write it like gp3=/mnt/gp3")
    folder = Path(path.strip())
    if not folder.is_dir():
        raise UsageError(f"--disk-path {text}: there is no folder {folder}; mount the disk first")
    if folder.absolute() != Path("/") and _is_on_root_disk(folder):
        raise UsageError(
            f"--disk-path {text}: {folder} lies on the disk of /, so nothing is mounted there; "
            f"mount the disk first, or write {disk_type}=/ where that is the disk you mean"
        )
    return disk_type.strip().lower(), folder.absolute()
