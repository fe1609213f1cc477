"""What a sweep is asked with: the grid, adaptive planning, and how it is run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.domain import MEASURABLE_PRECISIONS, CacheState, Precision, Task, Trial
from advisor.domain.references import is_own
from advisor.errors import UsageError, unknown_name
from advisor.quantities import parse_memory_mib, parse_positive
from advisor.questions.words import one_of
from advisor.runs.host_price import NAMES as HOST_PRICE
from advisor.runs.host_price import host_usd_per_hour
from advisor.runs.sweeps.sweeping import SweepOptions
from sweeps.datasets.decoding import decoder
from sweeps.planning.disks import split_disks

if TYPE_CHECKING:
    from advisor.runs.adaptive import AdaptiveSweep, Budget
    from advisor.runs.sweeps.watching import WatchOptions

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
        precision=Precision(
            one_of(answers["precision"] or "fp32", "precision", MEASURABLE_PRECISIONS)
        ),
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


_ADAPTIVE = ("adaptive", "budget", "target_throughput")


def split_answers(answers: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options that describe a grid, and those of `--adaptive` with the host's price."""
    own = {name: answers[name] for name in (*_ADAPTIVE, *HOST_PRICE)}
    return {name: value for name, value in answers.items() if name not in own}, own


def adaptive_from(trials: Sequence[Trial], asked: Mapping[str, Any]) -> AdaptiveSweep:
    """The sweep that is asked for; `UsageError` names the flag that is missing or wrong."""
    from advisor.runs.adaptive import adaptive_sweep

    target = asked["target_throughput"]
    return adaptive_sweep(
        trials,
        budget_from(asked),
        parse_positive(target, "--target-throughput") if target else None,
    )


def refuse_without_adaptive(asked: Mapping[str, Any]) -> None:
    """These options mean nothing on a full grid, and would be thought to limit it."""
    given = [f"--{name.replace('_', '-')}" for name in _ADAPTIVE[1:] if asked[name]]
    if given and not asked["adaptive"]:
        raise UsageError(f"{', '.join(given)}: only with --adaptive; add it, or leave that out")


def budget_from(asked: Mapping[str, Any]) -> Budget:
    """`--budget` with the host's price."""
    from advisor.runs.adaptive import parse_budget

    if not asked["budget"]:
        raise UsageError("--adaptive needs --budget, as 30trials, 2h or 5USD")
    return parse_budget(asked["budget"], host_usd_per_hour(asked))


_WATCHING = ("log_file", "log_level", "metrics_port", "metrics_host",
          "metrics_file")  # fmt: skip
_HIGHEST_PORT = 65_535


def checked_answers(
    answers: dict[str, Any], *, retry_failed: bool
) -> tuple[SweepOptions, WatchOptions, dict[str, Any]]:
    """What `run` is asked for: the sweep, how it is watched, and how it plans itself; `UsageError`
    for what cannot be asked like this, on whatever machine."""
    grid, adaptive = split_answers(without_watch_options(answers))
    refuse_without_adaptive(adaptive)
    if adaptive["adaptive"] and retry_failed:
        raise UsageError("--adaptive goes on past failures; leave --retry-failed out")
    return options_from(grid), watch_from(answers), adaptive


def without_watch_options(answers: Mapping[str, Any]) -> dict[str, Any]:
    """The answers that are no option of the watching."""
    return {name: value for name, value in answers.items() if name not in _WATCHING}


def watch_from(answers: Mapping[str, Any]) -> WatchOptions:
    """The checked options; `UsageError` names the flag that is wrong."""
    from advisor.runs.sweeps.watching import LOCAL_HOST, WatchOptions

    if answers["metrics_host"] and answers["metrics_port"] is None:
        raise UsageError("--metrics-host is the address of a port; add --metrics-port")
    return WatchOptions(
        log_file=answers["log_file"],
        log_level=answers["log_level"],
        metrics_port=_port(answers["metrics_port"]),
        metrics_host=answers["metrics_host"] or LOCAL_HOST,
        metrics_file=answers["metrics_file"],
        usd_per_hour=host_usd_per_hour(answers),
    )


def _port(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text) <= _HIGHEST_PORT):
        raise UsageError(f"--metrics-port takes 0 (a free one) to {_HIGHEST_PORT}, not '{text}'")
    return int(text)
