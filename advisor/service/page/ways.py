"""Ways out of a question that nothing answers, each a link that asks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.render.i18n.catalogue import Texts
from advisor.render.i18n.filters import lower_rate
from advisor.service.page.frame import Frame
from advisor.units import format_usd

MOST = 6
FLAGS = ("accelerated_only",)


def ways_out(document: Mapping[str, Any], frame: Frame) -> list[dict[str, str]]:
    """The document's `relax`: the changed question as a link, and what it gives."""
    return [_way(one, frame) for one in document["relax"][:MOST]]


def _way(one: Mapping[str, Any], frame: Frame) -> dict[str, str]:
    t, gives = frame.words, one["gives"]
    changed = {parameter_of(change["option"]): _value(change) for change in one["changes"]}
    return {
        "href": frame.same("/", **changed),
        "text": ", ".join(_text(change, t) for change in one["changes"]),
        "gives": t(
            "none.gives",
            name=gives["instance_type"],
            usd=format_usd(gives["total_usd_per_hour"]),
            lower=lower_rate(gives["lower"]),
        ),
    }


def parameter_of(option: str) -> str:
    """'--max-price' -> 'max_price'."""
    return option.lstrip("-").replace("-", "_")


def _value(change: Mapping[str, Any]) -> str | None:
    """What the parameter becomes; None takes it out."""
    return change["to"] or None


def _text(change: Mapping[str, Any], t: Texts) -> str:
    name = parameter_of(change["option"])
    field = t.known("field." + name, change["option"])
    if not change["to"]:
        return t("none.without", field=field)
    return t("none.change", field=field, value=change["to"])
