"""How far an answer depends on prices that are not listed, as blocks of a page or a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from advisor.render.content import Command, Paragraph, translated
from advisor.render.document_names import covers_clouds
from advisor.render.i18n.catalogue import Texts
from advisor.render.price_doubt import price_sentences
from advisor.render.text import SURE
from advisor.units import format_usd


def price_call_leaves(document: Mapping[str, Any], t: Texts) -> Iterator[Paragraph | Command]:
    """How far a recommendation depends on prices that are not listed, and how to learn today's.
    Documents of earlier versions tell nothing of it, or nothing but English sentences."""
    call = document.get("price_call")
    if call is None:
        return
    told = price_sentences(call, clouds=covers_clouds(document)) if "per" in call else None
    for sentence in call["sentences"] if told is None else told:
        yield Paragraph(translated(sentence, t), "note")
    command, page = call["todays_price"]["command"], call["todays_price"]["page"]
    if command is not None:
        yield Command(command)
    elif page is not None:
        yield Paragraph(t("price_call.page", page=page), "note")


def by_price(run: Mapping[str, Any], key: str, t: Texts) -> list[str]:
    """Between what a run costs at the median rate where its price is not sure, in the words of
    `key`; nothing where it is sure, or not told."""
    ends = run.get("usd_by_price")
    if not ends or ends["high"] <= SURE * ends["low"]:
        return []
    return [t(key, **{end: format_usd(usd) for end, usd in ends.items()})]
