"""A form: the words of one question, out of a JSON body or out of a link."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from advisor.errors import UsageError
from advisor.service.forms.words import Word
from advisor.service.problems import Problem

MOST_QUERY_WORDS = 200


class Form:
    """The words that one question may have. `name` is its schema's in OpenAPI."""

    def __init__(self, name: str, title: str, words: Iterable[Word]) -> None:
        self.name = name
        self.title = title
        self.words = {one.name: one for one in words}
        self._defaults = {one.answer: one.default for one in self.words.values()}
        self._required = [one.name for one in self.words.values() if one.required]

    def from_json(self, body: bytes) -> dict[str, Any]:
        """Words as the answers take them; `Problem` 400 for what is no JSON (NaN and lone
        surrogates are none), 422 that names the field for what cannot be asked."""
        try:
            said = msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            raise _unreadable(error) from None
        if not isinstance(said, dict):
            raise Problem(422, "invalid", "the body must be an object",
                          hint='send words like {"task": "inference"}')  # fmt: skip
        return self._read({name: value for name, value in said.items() if value is not None})

    def from_query(self, query: bytes) -> dict[str, Any]:
        """The same from the words of a link."""
        try:
            pairs = parse_qsl(
                query.decode("ascii"), keep_blank_values=True, encoding="utf-8", errors="strict",
                max_num_fields=MOST_QUERY_WORDS,
            )  # fmt: skip
        except ValueError:
            raise Problem(400, "unreadable", "the words of the link cannot be read",
                          hint="write them as name=value, in UTF-8") from None  # fmt: skip
        said: dict[str, list[str]] = {}
        for name, text in pairs:
            said.setdefault(name, []).append(text)
        return self._read(said, by_link=True)

    def _read(self, said: Mapping[str, Any], *, by_link: bool = False) -> dict[str, Any]:
        found = dict(self._defaults)
        for name, value in said.items():
            word = self.words.get(name)
            if word is None:
                raise self._unknown(name)
            try:
                found[word.answer] = word.read_text(value) if by_link else word.read(value)
            except UsageError as error:
                raise Problem(422, "invalid", error.message, hint=error.hint, field=name) from None
        for name in self._required:
            if name not in said:
                raise Problem(422, "invalid", f"{name} is missing", field=name,
                              hint=f"say {name}: {self.words[name].about}")  # fmt: skip
        return found

    def _unknown(self, name: str) -> Problem:
        near = difflib.get_close_matches(name[:100], self.words, n=1)
        known = ", ".join(self.words)
        return Problem(
            422,
            "unknown-field",
            f"there is no field '{_shown(name)}'",
            hint=f"did you mean {near[0]}?" if near else f"there are: {known}",
            field=_shown(name),
        )

    def schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        return {
            "title": self.title,
            "type": "object",
            "properties": {name: word.described() for name, word in self.words.items()},
            "required": self._required,
            "additionalProperties": False,
        }

    def parameters(self) -> list[dict[str, Any]]:
        """The same words as OpenAPI's query parameters."""
        return [_parameter(word) for word in self.words.values()]


def _parameter(word: Word) -> dict[str, Any]:
    schema = dict(word.schema)
    if word.default is not None:
        schema["default"] = word.default
    # An object is said as JSON text, which OpenAPI calls content.
    said = {"schema": schema}
    if schema["type"] == "object":
        said = {"content": {"application/json": {"schema": schema}}}
    return {
        "name": word.name,
        "in": "query",
        "required": word.required,
        "description": word.about,
        **said,
    }


def _unreadable(error: msgspec.DecodeError) -> Problem:
    return Problem(400, "unreadable", f"the body is no JSON: {error}",
                   hint="send one JSON object in UTF-8, without NaN")  # fmt: skip


def _shown(name: str) -> str:
    return "".join(one if one.isprintable() else "?" for one in name[:60])
