"""The answer to a question of any task, and the formats that it can be written in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from advisor.errors import NoOfferError
from advisor.messages import Message
from advisor.render.document import document_yaml, plain, with_messages
from advisor.render.tables import flat_rows, recommendation_csv
from advisor.render.views.brief import brief_text
from advisor.render.views.whole import EVERY, NEAREST, recommendation_markdown, whole_text

# Formats of a whole recommendation; those of `render.export` are files that start the recommended spec.
FORMATS = ("json", "yaml", "csv", "md")
_WRITERS = {"yaml": document_yaml, "csv": recommendation_csv, "md": recommendation_markdown}


class Answer(Struct, frozen=True, kw_only=True):
    """The engine's record of an answer, and the functions that write it on demand. `message_document` returns
    the JSON document with translatable messages for sentences. `text` of a recommendation takes the number of
    specs to show. `columns` of a comparison are the paths in the document's rows of its flat rows'
    columns."""

    result: Any
    message_document: Callable[[], dict[str, Any]]
    text: Callable[..., str]
    notes: Sequence[Message | str] = ()
    columns: Mapping[str, str] = {}

    def document(self) -> dict[str, Any]:
        """The JSON document, with unrounded numbers."""
        document: dict[str, Any] = plain(self.message_document())
        return document

    def rows(self) -> list[dict[str, Any]]:
        """The rows of a comparison, as flat records."""
        return flat_rows(self.document()["rows"], self.columns)


def recommendation_text(
    question: Any, document: Callable[[], dict[str, Any]], *, everything: bool = False
) -> Callable[[int | None], str]:
    """The function that writes a recommendation as text: in a dozen rows, or whole where the caller gives a
    number of specs, the question wants an explanation, or `everything` is set."""
    everything = everything or question.explain or question.explain_rejected
    room = EVERY if question.explain_rejected else NEAREST

    def text(specs: int | None = None) -> str:
        if not everything and specs is None:
            return brief_text(document())
        return whole_text(None, document(), room)

    return text


class Recommended(Answer, frozen=True, kw_only=True):
    """A recommendation; `start_file` writes a file that starts its spec, `no_offer` says why none is left."""

    no_offer: Callable[[], Message]
    start_file: Callable[[str], str]

    def document(self) -> dict[str, Any]:
        """The JSON document, with unrounded numbers and the parameters of its sentences."""
        return with_messages(self.message_document())

    def written(self, name: str) -> str:
        """The answer in one of `FORMATS`, or the file of format `name` that starts the recommended spec."""
        if name == "json":
            return json.dumps(self.document(), indent=2, allow_nan=False) + "\n"
        if name in FORMATS:
            return _WRITERS[name](self.document())
        if self.result.chosen is None:
            raise NoOfferError(self.no_offer())
        return self.start_file(name)
