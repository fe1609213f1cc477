"""An answer of any task, and the forms in which it is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from advisor.domain.decision import Judged
from advisor.errors import NoOfferError
from advisor.messages import Message
from advisor.questions.spec import SpecQuestion
from advisor.render.document import document_yaml, plain, with_messages
from advisor.render.tables import flat_rows, recommendation_csv
from advisor.render.views.brief import brief_text
from advisor.render.views.whole import EVERY, NEAREST, recommendation_markdown, whole_text

# Formats of a whole recommendation; those of `render.export` are files that start its spec.
FORMATS = ("json", "yaml", "csv", "md")
_WRITERS = {"yaml": document_yaml, "csv": recommendation_csv, "md": recommendation_markdown}
A = TypeVar("A", bound=Judged[Any, Any])
R = TypeVar("R", bound=SpecQuestion)


class Answer(Struct, frozen=True, kw_only=True):
    """An answer: the engine's record, and what writes it once somebody wants it.

    `message_document` is its JSON document with sentences as messages, which other languages have words for;
    `text` takes the number of specs to show, where it is a recommendation. A comparison has `columns` for its
    flat rows: their paths in the document's."""

    result: Any
    message_document: Callable[[], dict[str, Any]]
    text: Callable[..., str]
    notes: Sequence[Message | str] = ()
    columns: Mapping[str, str] = {}

    def document(self) -> dict[str, Any]:
        """The JSON document, numbers unrounded."""
        document: dict[str, Any] = plain(self.message_document())
        return document

    def rows(self) -> list[dict[str, Any]]:
        """The compared rows, as flat records."""
        return flat_rows(self.document()["rows"], self.columns)


def recommendation_text(
    question: Any, document: Callable[[], dict[str, Any]], *, everything: bool = False
) -> Callable[[int | None], str]:
    """The text of a recommendation: twelve lines, or all of it where a number of specs or an explanation is
    wanted, or `everything`."""
    everything = everything or question.explain or question.explain_rejected
    room = EVERY if question.explain_rejected else NEAREST

    def text(specs: int | None = None) -> str:
        if not everything and specs is None:
            return brief_text(document())
        return whole_text(None, document(), room)

    return text


class Recommended(Answer, frozen=True, kw_only=True):
    """A recommendation: also says that nothing answers, and is written in more formats."""

    no_offer: Callable[[], Message]
    start_file: Callable[[str], str]

    def document(self) -> dict[str, Any]:
        """The JSON document, numbers unrounded, with the parameters of its sentences."""
        return with_messages(self.message_document())

    def written(self, name: str) -> str:
        """The answer in one of `FORMATS`, or the file of that kind that starts its spec."""
        if name == "json":
            return json.dumps(self.document(), indent=2, allow_nan=False) + "\n"
        if name in FORMATS:
            return _WRITERS[name](self.document())
        if self.result.chosen is None:
            raise NoOfferError(self.no_offer())
        return self.start_file(name)
