"""A report as one HTML file: no script, nothing to load, made to be printed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from advisor.errors import UsageError
from advisor.messages import Message
from advisor.render.i18n.catalogue import Texts, report_texts
from advisor.render.i18n.filters import FILTERS
from advisor.render.sizing.pictures import how_known, pictures, totals_picture
from advisor.render.sizing.sentences import (
    answer_sentences,
    asked_sentence,
    close_sentence,
    days_old,
    disk_name,
    gpu_name,
    relax_sentence,
    spec_name,
    stage_name,
    totals_sentence,
)

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_TEMPLATES = Path(__file__).with_name("templates")
MISSING = "{format} reports need more packages: pip install 'instance-sizing-advisor[report]'"


class Room(NamedTuple):
    """For how many workloads this is, and how many rows of long tables it shows; `whole` shows
    charts and tables at all. The data formats have everything."""

    workloads: float
    specs: int
    rejected: int
    regions: int
    turns: int
    alternatives: int = 100
    batches: bool = True
    whole: bool = True


# A report keeps within 1.5 MB, however many workloads it has.
_ROOMS = (
    Room(10, specs=16, rejected=25, regions=40, turns=6),
    Room(50, specs=0, rejected=5, regions=4, turns=2, alternatives=6, batches=False),
    Room(math.inf, specs=0, rejected=0, regions=0, turns=0, whole=False),
)


def report_html(document: Mapping[str, Any], language: str) -> str:
    """The whole file. Raises `UsageError` where the packages of reports are not installed."""
    t = report_texts(language)
    sections = document["workloads"]
    room = next(one for one in _ROOMS if len(sections) <= one.workloads)
    return (
        environment()
        .get_template("report.html")
        .render(
            t=t,
            document=document,
            totals=document["totals"],
            room=room,
            totals_picture=totals_picture(sections, t),
            sections=[_section(one, number, room, t) for number, one in enumerate(sections, 1)],
            style=(_TEMPLATES / "report.css").read_text(encoding="utf-8"),
        )
    )


def _section(section: Mapping[str, Any], number: int, room: Room, t: Texts) -> dict[str, Any]:
    answer = section["recommendation"]
    drawn = {one for curve in (section["curves"] or {}).values() for one in curve["measured"]}
    return {
        **section,
        "id": f"w{number}",
        "pictures": pictures(section, t) if room.whole else {},
        "specs": _telling_specs(section["price_throughput"])[: room.specs],
        "turns": _near(section["break_even"])[: room.turns],
        "drawn": [one for one in section["measured"] if one["trial_id"] in drawn],
        "rejected": answer["rejected"][: room.rejected],
    }


def _telling_specs(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that do it first, then the front, by price; the fastest first where none does it."""
    ordered = list(rows)
    if not any(one["answers"] for one in rows):
        ordered.sort(key=lambda one: -float(one["lower"]))
    ordered.sort(key=lambda one: (not one["chosen"], not one["answers"], not one["on_front"]))
    return ordered


def _near(turns: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those of the pick first, then its neighbours; in the order of the front."""
    at = next((number for number, one in enumerate(turns) if one["of_chosen"]), 0)
    return [*turns[max(0, at - 1) :]]


@cache
def environment() -> Environment:
    """Templates are compiled once a process."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
    except ModuleNotFoundError as error:
        raise UsageError(MISSING.format(format="HTML")) from error
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, trim_blocks=True,
        lstrip_blocks=True, undefined=StrictUndefined, auto_reload=False,
    )  # fmt: skip
    made.filters |= FILTERS | {"spec": spec_name, "known": how_known}
    made.globals |= {name: pass_context(_spoken(one)) for name, one in _SAID.items()}
    return made


def _spoken(say: Callable[..., Any]) -> Callable[..., Any]:
    """What takes the words of a language last, for templates, which have them."""
    return lambda context, *given: say(*given, context["t"])


def _tell(sentence: Message | str, t: Texts) -> Markup:
    """A sentence of the engine in the report's language; English is marked where none is."""
    from markupsafe import Markup, escape

    if t.speaks(sentence):
        return escape(t.render(sentence))
    return Markup('<span lang="en">{}</span>').format(str(sentence))


def _disk(order: Any, t: Texts) -> Markup:
    """The name of a disk, which breaks between its parts where a cell is narrow."""
    from markupsafe import Markup, escape

    return escape(disk_name(order, t)).replace(":", Markup(":<wbr>"))


def _answer(section: Mapping[str, Any], hours: float, t: Texts) -> list[str]:
    return list(answer_sentences(section, t, hours))


_SAID: Mapping[str, Callable[..., Any]] = {
    "tell": _tell,
    "days_old": days_old,
    "disk": _disk,
    "gpu": gpu_name,
    "stage": stage_name,
    "asked_sentence": asked_sentence,
    "answer_sentences": _answer,
    "totals_sentence": totals_sentence,
    "close_sentence": close_sentence,
    "relax_sentence": relax_sentence,
}
