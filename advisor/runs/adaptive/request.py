"""How a sweep is run: does it plan itself, within which budget, and how is it watched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from advisor.domain import Trial
from advisor.errors import UsageError
from advisor.quantities import parse_positive
from advisor.runs.budget import Budget, parse_budget
from advisor.runs.host_price import NAMES as HOST_PRICE
from advisor.runs.host_price import host_usd_per_hour
from advisor.runs.sweeps.request import options_from
from advisor.runs.sweeps.sweeping import SweepOptions

if TYPE_CHECKING:
    from advisor.runs.adaptive.planning import AdaptiveSweep
    from advisor.runs.sweeps.watching import WatchOptions

_NAMES = ("adaptive", "budget", "target_throughput")


def split_answers(answers: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options that describe a grid, and those of `--adaptive` with the host's price."""
    own = {name: answers[name] for name in (*_NAMES, *HOST_PRICE)}
    return {name: value for name, value in answers.items() if name not in own}, own


def adaptive_from(trials: Sequence[Trial], asked: Mapping[str, Any]) -> AdaptiveSweep:
    """The sweep that is asked for; `UsageError` names the flag that is missing or wrong."""
    from advisor.runs.adaptive.planning import adaptive_sweep  # loads scikit-learn

    target = asked["target_throughput"]
    return adaptive_sweep(
        trials,
        budget_from(asked),
        parse_positive(target, "--target-throughput") if target else None,
    )


def refuse_without_adaptive(asked: Mapping[str, Any]) -> None:
    """These options mean nothing on a full grid, and would be thought to limit it."""
    given = [f"--{name.replace('_', '-')}" for name in _NAMES[1:] if asked[name]]
    if given and not asked["adaptive"]:
        raise UsageError("{options}: only with --adaptive", options=given,
                         hint="add it, or leave that out")  # fmt: skip


def budget_from(asked: Mapping[str, Any]) -> Budget:
    """`--budget` with the host's price."""
    if not asked["budget"]:
        raise UsageError("--adaptive needs --budget, as 30trials, 2h or 5USD", field="budget")
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
        raise UsageError("--adaptive goes on past failures", hint="leave --retry-failed out",
                         field="retry_failed")  # fmt: skip
    return options_from(grid), watch_from(answers), adaptive


def without_watch_options(answers: Mapping[str, Any]) -> dict[str, Any]:
    """The answers that are no option of the watching."""
    return {name: value for name, value in answers.items() if name not in _WATCHING}


def watch_from(answers: Mapping[str, Any]) -> WatchOptions:
    """The checked options; `UsageError` names the flag that is wrong."""
    from advisor.runs.sweeps.watching import LOCAL_HOST, WatchOptions

    if answers["metrics_host"] and answers["metrics_port"] is None:
        raise UsageError("--metrics-host is the address of a port", hint="add --metrics-port",
                         field="metrics_host")  # fmt: skip
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
        raise UsageError("--metrics-port takes 0 (a free one) to {most}, not '{text}'",
                         most=_HIGHEST_PORT, text=text, field="metrics_port")  # fmt: skip
    return int(text)
