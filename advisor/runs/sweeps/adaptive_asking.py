"""What is asked of a sweep that plans itself, as words of its options, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from advisor.domain import Trial
from advisor.errors import UsageError
from advisor.quantities import parse_positive
from advisor.runs.host_price import NAMES as HOST_PRICE
from advisor.runs.host_price import host_usd_per_hour

if TYPE_CHECKING:
    from advisor.runs.adaptive import AdaptiveSweep, Budget

_NAMES = ("adaptive", "budget", "target_throughput")


def split_answers(answers: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options that describe a grid, and those of `--adaptive` with the host's price."""
    own = {name: answers[name] for name in (*_NAMES, *HOST_PRICE)}
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
    given = [f"--{name.replace('_', '-')}" for name in _NAMES[1:] if asked[name]]
    if given and not asked["adaptive"]:
        raise UsageError(f"{', '.join(given)}: only with --adaptive; add it, or leave that out")


def budget_from(asked: Mapping[str, Any]) -> Budget:
    """`--budget` with the host's price."""
    from advisor.runs.adaptive import parse_budget

    if not asked["budget"]:
        raise UsageError("--adaptive needs --budget, as 30trials, 2h or 5USD")
    return parse_budget(asked["budget"], host_usd_per_hour(asked))
