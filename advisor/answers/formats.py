"""A recommendation as text in one of the formats that commands and the service write."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from advisor.answers.recommending import Recommended
from advisor.engine import no_offer
from advisor.errors import NoOfferError
from advisor.render.document import document_yaml
from advisor.render.exporting import FORMATS as TOOLS
from advisor.render.exporting import export


def _json(found: Recommended) -> str:
    return json.dumps(found.document(), indent=2, allow_nan=False) + "\n"


def _csv(found: Recommended) -> str:
    from advisor.render.tables import recommendation_csv  # most answers are no table of cells

    return recommendation_csv(found.document())


def _markdown(found: Recommended) -> str:
    from advisor.render.tables import recommendation_markdown  # as above

    return recommendation_markdown(found.document())


def _exported(tool: str) -> Callable[[Recommended], str]:
    def write(found: Recommended) -> str:
        if found.answer.chosen is None:
            raise NoOfferError(no_offer(found.answer))
        return export(found.answer.chosen, tool)

    return write


# How a recommendation is written, by the name of a format.
TEXTS: Mapping[str, Callable[[Recommended], str]] = {
    "json": _json,
    "yaml": lambda found: document_yaml(found.document()),
    "csv": _csv,
    "md": _markdown,
    **{tool: _exported(tool) for tool in TOOLS},
}
