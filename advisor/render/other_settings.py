"""What other settings would bring: as the documents' `other_settings`, and as lines of text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from advisor.domain import OtherSetting, Prediction

# Of a recommendation, which has to fit a screen.
MOST_BESIDE_OTHERS = 2
# Smaller changes of the whole are told as nothing.
_NOTHING_PERCENT = 0.5
_INDENT, _WIDTH = 14, 100


def other_setting_documents(settings: Iterable[OtherSetting]) -> list[dict[str, Any]]:
    """JSON-ready values; `gain` is the factor by which the GPU alone is faster."""
    return [
        {
            "change": one.name,
            "option": one.option,
            "gain": one.gpu_gain.median,
            "lower": one.gpu_gain.lower,
            "upper": one.gpu_gain.upper,
            "measured": one.measured,
            "throughput_gain": one.gain,
            "throughput": {
                "lower": one.prediction.lower,
                "median": one.prediction.median,
                "upper": one.prediction.upper,
            },
            "bottleneck": str(one.prediction.bottleneck),
        }
        for one in settings
    ]


def other_setting_lines(
    settings: Sequence[OtherSetting], before: Prediction, most: int | None = None
) -> list[str]:
    """A line a setting, or of the `most` that bring the whole most."""
    best = sorted(settings, key=lambda one: (one.gain, one.gpu_gain.median), reverse=True)
    shown = [one for one in settings if one in best[:most]]
    said = [_GPU.format(**_facts(one)) + f", here {_here(one, before)}" for one in shown]
    return _lines(said)


def gpu_setting_lines(settings: Sequence[OtherSetting]) -> list[str]:
    """The same for a GPU by itself."""
    return _lines([_GPU.format(**_facts(one)) for one in settings])


_GPU = "{name}: GPU {median:.2f} times as fast ({lower:.2f} to {upper:.2f}{told})"


def _facts(one: OtherSetting) -> dict[str, Any]:
    gain, told = one.gpu_gain, "" if one.measured else ", not measured"
    return {"name": one.name, "median": gain.median, "lower": gain.lower, "upper": gain.upper,
            "told": told}  # fmt: skip


def _here(one: OtherSetting, before: Prediction) -> str:
    """'+4.2 %, then bound by host'; 'nothing: bound by host'."""
    percent, binds = 100 * (one.gain - 1), one.prediction.bottleneck
    if abs(percent) < _NOTHING_PERCENT:
        return f"nothing: bound by {binds}"
    then = "" if binds is before.bottleneck else f", then bound by {binds}"
    return f"{percent:+.2g} %{then}"


def _lines(said: Iterable[str]) -> list[str]:
    lines = [line for one in said for line in textwrap.wrap(one, _WIDTH - _INDENT)]
    titles = ["  settings", *[""] * len(lines)]
    return [f"{title:<{_INDENT}}{line}" for title, line in zip(titles, lines, strict=False)]
