"""What is asked of `sweep run` as a whole: the grid, how it is watched, how it plans itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from advisor.errors import UsageError
from advisor.runs.host_price import host_usd_per_hour
from advisor.runs.sweeps.adaptive_asking import refuse_without_adaptive, split_answers
from advisor.runs.sweeps.asking import options_from
from advisor.runs.sweeps.sweeping import SweepOptions

if TYPE_CHECKING:
    from advisor.runs.sweeps.watching import WatchOptions

_NAMES = ("log_file", "log_level", "metrics_port", "metrics_host",
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
    return {name: value for name, value in answers.items() if name not in _NAMES}


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
