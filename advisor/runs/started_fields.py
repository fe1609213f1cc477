"""A sweep that comes as typed fields: checked as the command checks it, then an argument list.

Nothing of a client is a path, a command or code: data sets and own networks go by the names
under which `advisor serve` was told to allow them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from advisor.domain import Trial
from advisor.domain.workload import is_own
from advisor.errors import UsageError, unknown_name
from advisor.messages import Message
from advisor.quantities import parse_name, parse_number
from advisor.runs.adaptive.request import adaptive_from, checked_answers
from advisor.runs.cloud.request import MARKETS, owner_and_budget, refuse_without_aws, split_cloud
from advisor.runs.host_price import host_usd_per_hour
from advisor.runs.schedules import Checked, checked_sweep
from advisor.runs.sweeps.data import planned_data
from advisor.runs.sweeps.sweeping import plan_sweep
from models.performance.networks import bundled_networks
from sweeps.datasets.decoding import DECODERS, PILLOW
from sweeps.planning.disks import split_disks

HERE, AWS = "here", "aws"
EXECUTORS = ("ray", "process")  # inline holds no limits, and is for debugging by hand
MOST_TRIALS = 5_000
_MOST_ITEMS = 100
_MOST_CHARACTERS = 400
_FLAGS = ("adaptive", "retry_failed")
_LISTS = ("networks", "tasks", "vcpus", "memory", "disks", "accelerator", "batch_sizes", "cache")
# Every answer that the command's own checks look for; what is not asked has none.
_ANSWERS = (
    *_LISTS, *_FLAGS, "preset", "precision", "data", "decoder", "rel_error", "repeats",
    "iterations", "disk_paths", "ray_address", "budget", "target_throughput", "usd_per_hour",
    "instance", "executor", "fresh_since", "on", "dry_run", "hours", "queue", "owner", "sweep_id",
    "bucket", "subnet", "image", "instance_profile", "regions", "market", "database_parameter",
    "log_file", "log_level", "metrics_port", "metrics_host", "metrics_file",
)  # fmt: skip
_DEFAULTS = {
    "decoder": PILLOW, "rel_error": "2%", "repeats": "1", "executor": "ray", "on": HERE,
    "log_level": "info", "adaptive": False, "retry_failed": False, "disk_paths": (),
    "regions": (),
}  # fmt: skip
_MULTIPLE = {"regions": "region"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """What clients may name: data sets (name -> path), own networks (name -> `file.py:build`)."""

    data: Mapping[str, str] = field(default_factory=dict)
    code: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedSweep:
    """One that can be asked for. `words` stand behind `advisor`; `trials` are those of this
    machine's plan (none of a sweep on AWS, which is planned for its instance)."""

    words: tuple[str, ...]
    answers: Mapping[str, Any]
    trials: tuple[Trial, ...] = ()
    usd: float | None = None

    @property
    def on_aws(self) -> bool:
        """Whether it measures there, and leaves this machine's quiet."""
        return bool(self.answers["on"] == AWS)


def requested_sweep(fields: Mapping[str, Any], allowed: Allowed) -> RequestedSweep:
    """The sweep that the fields describe (those of `sweep run`, with underscores; values are
    texts, numbers, flags, and lists of them; None is not asked).

    `UsageError` names what is wrong, as the command would; `MeasuringError` what this machine
    cannot measure.
    """
    words, answers = sweep_words(fields, allowed)
    return _on_aws(words, answers) if answers["on"] == AWS else _here(words, answers)


def scheduled_sweep(fields: Mapping[str, Any], allowed: Allowed) -> Checked:
    """The same to be scheduled: planned as any machine would, since the daemon's may be another."""
    words, answers = sweep_words(fields, allowed)
    return checked_sweep(words, answers)


def sweep_words(
    fields: Mapping[str, Any], allowed: Allowed
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The words behind `advisor`, and the answers that the command's own checks take."""
    given = {name: _text(name, value) for name, value in fields.items() if value is not None}
    answers: dict[str, Any] = dict.fromkeys(_ANSWERS) | _DEFAULTS | given
    _check_closed(answers)
    _refuse_many(answers)
    answers["networks"] = _named_networks(answers["networks"], allowed)
    answers["data"] = _named_data(answers["data"], allowed)
    return ("sweep", "run", *_words({name: answers[name] for name in given})), answers


def _on_aws(words: tuple[str, ...], answers: dict[str, Any]) -> RequestedSweep:
    grid, cloud = split_cloud(answers)
    owner, usd = owner_and_budget(grid, cloud)
    pinned = () if answers["owner"] else (f"--owner={owner}",)
    return RequestedSweep(words=(*words, *pinned), answers=answers, usd=usd)


def _here(words: tuple[str, ...], answers: dict[str, Any]) -> RequestedSweep:
    grid, cloud = split_cloud(answers)
    refuse_without_aws(cloud)
    asked = {name: grid[name] for name in grid if name not in ("executor", "fresh_since")}
    retry = asked.pop("retry_failed")
    options, _, adaptive = checked_answers(asked, retry_failed=retry)
    trials = plan_sweep(options, planned_data(options))
    if adaptive["adaptive"]:
        adaptive_from(trials, adaptive)
    host_usd_per_hour(answers)
    return RequestedSweep(words=words, answers=answers, trials=tuple(trials))


def _text(name: str, value: Any) -> Any:
    """As a user would have typed it; a flag stays one, and what is given several times a list."""
    if name in _FLAGS:
        return bool(value)
    if isinstance(value, datetime):
        return value
    items = [_item(name, one) for one in (value if isinstance(value, (list, tuple)) else [value])]
    if len(items) > _MOST_ITEMS:
        raise UsageError(
            "{name} has {items} items",
            name=name,
            items=len(items),
            hint=Message("at most {most_items} are taken", most_items=_MOST_ITEMS),
        )
    return tuple(items) if name in _MULTIPLE else ",".join(items)


def _item(name: str, value: Any) -> str:
    text = f"{value:.12g}" if isinstance(value, float) else str(value).strip()
    if not text:
        raise UsageError("{name} is empty", name=name, hint="name one, or leave it out")
    if len(text) > _MOST_CHARACTERS or not text.isprintable():
        raise UsageError(
            ("{name} takes up to {most_characters} characters that can be shown, in one line"),
            name=name,
            most_characters=_MOST_CHARACTERS,
        )
    return text


def _check_closed(answers: dict[str, Any]) -> None:
    """What click checks before a command sees it."""
    answers["on"] = parse_name(answers["on"], "place", (HERE, AWS))
    answers["executor"] = parse_name(answers["executor"], "executor", EXECUTORS)
    answers["decoder"] = parse_name(answers["decoder"], "decoder", DECODERS)
    if answers["market"] is not None:
        answers["market"] = parse_name(answers["market"], "market", tuple(MARKETS))
    for name, most in (("hours", 168), ("queue", 10_080)):
        if answers[name] is not None:
            answers[name] = parse_number(answers[name], name, most=most)


def _refuse_many(answers: Mapping[str, Any]) -> None:
    """A grid is a product: it is counted before it is made."""
    disks = split_disks(answers["disks"] or "")
    counts = [len(str(answers[name]).split(",")) for name in _LISTS if name != "disks"]
    if (trials := math.prod([*counts, max(1, len(disks))])) > MOST_TRIALS:
        raise UsageError(
            "that would be {trials:,} trials",
            trials=trials,
            hint=Message("at most {most_trials:,} are taken", most_trials=MOST_TRIALS),
        )


def _named_networks(text: str | None, allowed: Allowed) -> str | None:
    """Own networks by their allowed names; a reference to a file is never taken."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if is_own(name.lower()) or ("/" in name and not bundled_networks().knows(name)):
            raise UsageError(
                "networks: '{name}' names code of this machine",
                name=name[:80],
                hint=Message(
                    "only what `advisor serve --allow-code` names may be run: {exit}",
                    exit=_listed(allowed.code),
                ),
            )
    return ",".join(allowed.code.get(name, name) for name in names)


def _named_data(name: str | None, allowed: Allowed) -> Path | None:
    if name is None:
        return None
    if name not in allowed.data:
        if allowed.data:
            raise unknown_name("data set", name, allowed.data)
        raise UsageError(
            "data: no data set is allowed here",
            hint=(
                "`advisor serve --allow-data NAME=PATH` names one, or leave it out for "
                "photographs that are made"
            ),
        )
    return Path(allowed.data[name])


def _listed(names: Mapping[str, str]) -> str:
    return ", ".join(sorted(names)) or "it names none"


def _words(answers: Mapping[str, Any]) -> Sequence[str]:
    """Each word holds its option's name, so that no value is ever taken for an option."""
    words = []
    for name, value in answers.items():
        flag = f"--{_MULTIPLE.get(name, name).replace('_', '-')}"
        if name in _FLAGS:
            words += [flag] if value else []
        elif name in _MULTIPLE:
            words += [f"{flag}={one}" for one in value]
        else:
            words.append(f"{flag}={value.isoformat() if isinstance(value, datetime) else value}")
    return words
