"""The answer to a question of any task, and the forms in which it is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from advisor.errors import NoOfferError
from advisor.messages import Message
from advisor.render.document import document_yaml, plain_document

# Formats of a whole recommendation; those of `render.export` are files that start its spec.
FORMATS = ("json", "yaml", "csv", "md")
Document = Mapping[str, Any]


class AnswerTable(Struct, frozen=True):
    """The answer as flat records, and the columns of a table of them."""

    columns: Sequence[str]
    rows: Callable[[], list[dict[str, Any]]]


class Answer(Struct, frozen=True, kw_only=True):
    """An answer: the engine's record, and what writes it once somebody wants it.

    `message_document` is its JSON document with sentences as messages, which other languages have
    words for; `text` takes the number of specs to show, where it is a recommendation.
    """

    result: Any
    message_document: Callable[[], dict[str, Any]]
    text: Callable[..., str]
    notes: Sequence[Message | str] = ()
    table: AnswerTable | None = None

    def document(self) -> dict[str, Any]:
        """The JSON document, numbers unrounded."""
        return plain_document(self.message_document())


class Recommended(Answer, frozen=True, kw_only=True):
    """A recommendation: also says that nothing answers, and is written in more formats."""

    no_offer: Callable[[], Message]
    csv: Callable[[Document], str]
    markdown: Callable[[Document], str]
    start_file: Callable[[str], str]

    def written(self, name: str) -> str:
        """The answer in one of `FORMATS`, or the file of that kind that starts its spec."""
        if name == "json":
            return json.dumps(self.document(), indent=2, allow_nan=False) + "\n"
        if name in FORMATS:
            writers = {"yaml": document_yaml, "csv": self.csv, "md": self.markdown}
            return writers[name](self.document())
        if self.result.chosen is None:
            raise NoOfferError(self.no_offer())
        return self.start_file(name)
