"""Language models by name, of the bundled table, or out of a local configuration file.

The table has a line for each configuration, read late; `advisor/data/language/SOURCES.md` says where they
come from, and `python -m advisor.infra.build.language_models` builds it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from advisor.domain.words import MADE_ON_LOAD, SIXTEEN_BIT, LlmPrecision
from advisor.domain.workload import names_a_file
from advisor.errors import DataError, UsageError, unknown_name
from advisor.messages import FieldName, Message
from advisor.models.language.config_values import uncovered
from advisor.models.language.families import FAMILIES
from advisor.models.language.formats import BITS
from advisor.models.language.language_model import Indexer, LanguageModel, Latent, Mixed
from advisor.models.language.pictures import pictures_named

TABLE = Path(__file__).parents[3] / "advisor" / "data" / "language" / "models.csv"
# Columns of whole numbers that are 0 where a cell is empty.
_WHOLE = (
    "layers hidden heads kv_heads head_dim ffn vocab experts experts_per_token expert_ffn dense_layers "
    "window_layers"
)
Cells = Mapping[str, str]


def table_cells() -> Iterator[Cells]:
    """The cells of each line of the table by the names of their columns; `DataError` where there are none."""
    try:
        header, *lines = TABLE.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise DataError(
            "the table of language models cannot be read: {path}",
            path=str(TABLE),
            hint="install the package again (in a checkout: python -m advisor.infra.build.language_models)",
        ) from error
    columns = header.split(",")
    for line in lines:
        yield dict(zip(columns, line.split(","), strict=True))


def model_of_cells(name: str, cells: Cells) -> LanguageModel:
    """The model of one line of the table that is covered."""
    precision = LlmPrecision(cells["own_precision"])

    def whole(column: str, default: int = 0) -> int:
        return int(float(cells[column])) if cells[column] else default

    latent = Latent(*map(whole, Latent._fields)) if cells["kv_lora"] else None
    parts = "index_heads", "index_head_dim", "index_top_k"
    indexer = Indexer(*map(whole, parts)) if cells["index_top_k"] else None
    mixed = None
    if cells["mixed"]:
        numbers: list[Any] = [float(number) for number in cells["mixed"].split()]
        for place in (2, 3, 6):
            numbers[place] = int(numbers[place])
        mixed = Mixed(*numbers)
    sizes: dict[str, Any] = {column: whole(column) for column in _WHOLE.split()}
    return LanguageModel(
        name=name,
        family=cells["family"],
        **sizes,
        gated=FAMILIES[cells["family"]].gated,
        tied=cells["tied"] == "1",
        shared_experts=float(cells["shared_experts"] or 0),
        expert_step=whole("expert_step", 1),
        latent=latent,
        indexer=indexer,
        mixed=mixed,
        window=whole("window") or None,
        max_context=whole("max_context") or None,
        own_precision=precision,
        own_bits=float(cells["own_bits"] or BITS[precision]),
        sixteen_bit=tuple(cells["sixteen_bit"].split()),
        other_parameters=float(cells["other_parameters"] or 0),
        pictures=pictures_named(name, float(cells["other_parameters"] or 0)),
        source=cells["source"],
    )


_MOST_CHOICES = 8
# Letters and digits that the names of a family share at least: 'llama4' of 'llama-4-70b'.
_FAMILY = 5
# Kinds of names, why no model of the kind is answered, and what to ask instead.
_UNCOVERED = (
    (
        r"embed|rerank|\bbge-|\bgte-|\be5-",
        Message("'{model}' makes vectors or scores of texts, and generates none"),
        Message(
            "such a model reads each text once: ask for its decoder with {output} 1, or for a network by "
            "{task} inference",
            output=FieldName("output_tokens"),
            task=FieldName("task"),
        ),
    ),
    (
        r"(^|/)(chatgpt|gpt-[345]|o[134](-|$)|claude|gemini)",
        Message("the weights of '{model}' are not published: only its maker serves it"),
        Message(
            "name an open model, and the price of the API by {api} IN,OUT: the answer compares them",
            api=FieldName("api_usd_per_million"),
        ),
    ),
)
# What names of checkpoints have before and behind the model's own.
_PREFIX = "meta"
_SUFFIXES = ("instruct", "chat", "it", "base", "hf")
# Columns in which models of one size may differ.
_NO_SIZES = ("names", "source", "family", "max_context")
_OF_FORMATS = ("own_precision", "own_bits", "sixteen_bit")


class Weights(NamedTuple):
    """The checkpoint that has a model's weights in a format; where none is `known`, that of 16 bits, of which
    some engines have the format `made` on load. Then the instruction-tuned model may have one (`tuned`)."""

    checkpoint: str
    known: bool = True
    made: bool = False
    tuned: str = ""


class LanguageModels:
    """A table of language models; each is made when it is first found."""

    def __init__(self, cells: Mapping[str, Cells]) -> None:
        self._cells = cells
        self._made: dict[str, LanguageModel] = {}

    def names(self) -> tuple[str, ...]:
        """The names of all models that the predictors cover, sorted."""
        covered = (name for name, cells in self._cells.items() if not cells["uncovered"])
        return tuple(sorted(covered, key=str.casefold))

    def find(self, name: str) -> LanguageModel:
        """The model of this name; capitals, `-`, `_` and the organisation may be otherwise or missing, as may
        `Meta-` before it and `-Instruct`, `-Chat`, `-it`, `-hf` behind it.

        Raises `UsageError` with near names for an unknown one, with the choices where a short name means
        several models of different sizes, and for a model that is not covered."""
        key = self._key_of(name.strip())
        if key is None:
            raise self._unknown(name)
        if kind := self._cells[key]["uncovered"]:
            raise uncovered(key, kind)
        if key not in self._made:
            self._made[key] = model_of_cells(key, self._cells[key])
        return self._made[key]

    def weights_in(self, name: str, precision: LlmPrecision) -> Weights:
        """What an engine loads where the weights of a model are to be in a format."""
        key = self._key_of(name)
        is_own = key and self._cells[key]["own_precision"] == precision
        if is_own or precision in SIXTEEN_BIT or precision in name.casefold():
            return Weights(name)
        kind, alike = precision.rpartition("-")[2], dict[str, str]()
        for entry in sorted(self._cells, reverse=True):
            alike[_bare(entry)] = entry
        if published := alike.get(_bare(name) + kind):
            return Weights(published)
        tuned = alike.get(f"{_bare(name)}instruct{kind}", "")
        return Weights(name, made=precision in MADE_ON_LOAD, known=False, tuned=tuned)

    def _key_of(self, name: str) -> str | None:
        """The name in the table, exact names first, then ever looser ones."""
        if name in self._cells or names_a_file(name) or "," in name:
            return name if name in self._cells else None
        organisation, _, own = name.rpartition("/")
        for index, key in ((self._by_name, _loose(own)), (self._by_stem, _stem(own))):
            alike = index.get(key, ())
            whole = [entry for entry in alike if _loose(entry) == _loose(name)] if organisation else []
            choices = whole or list(alike)
            if len(choices) > 1 and not self._are_one(choices):
                raise _ambiguous(name, choices)
            if choices:
                return min(choices, key=lambda choice: (_bare(choice) != _bare(name), len(choice), choice))
        longer = [entry for entry in self._cells if _words(entry)[: len(_words(own))] == _words(own)]
        if not longer or not self._are_one(longer, _NO_SIZES + _OF_FORMATS):
            return None
        return min(longer, key=lambda entry: ("instruct" not in entry.casefold(), len(entry), entry))

    def _are_one(self, names: Iterable[str], but: tuple[str, ...] = _NO_SIZES) -> bool:
        """True if they have the same facts `but` for some: names, and where they are from."""
        facts = [{**self._cells[name], **dict.fromkeys(but)} for name in names]
        return all(entry == facts[0] for entry in facts)

    @cached_property
    def _by_name(self) -> Mapping[str, list[str]]:
        return _grouped(self._cells, _loose)

    @cached_property
    def _by_stem(self) -> Mapping[str, list[str]]:
        return _grouped(self._cells, _stem)

    def _unknown(self, name: str) -> UsageError:
        for kind, refused, hint in _UNCOVERED:
            if re.search(kind, name, re.IGNORECASE):
                why = Message(refused.text, model=name)
                return UsageError(why, field="model", hint=hint, code="uncovered_model")
        part = _loose(name.rpartition("/")[2])
        starts = [part[:size] for size in range(len(part), _FAMILY - 1, -1)]
        start = next((each for each in starts if any(own.startswith(each) for own in self._by_name)), part)
        near = (own for own in self._by_name if part in own or own.startswith(start))
        within = [entry for own in near for entry in self._by_name[own]]
        words = re.findall(r"[a-z]+|[0-9.]+b?", name.rpartition("/")[2].casefold())
        # 'llama-70b' is first of all a Llama of any version with 70B.
        versions = sorted(
            (entry for entry in self._cells if _is_version(entry, words)),
            key=lambda entry: [float(number) for number in re.findall(r"\d+(?:\.\d+)?", entry)],
            reverse=True,
        )
        error = unknown_name("language model", name, self._cells, field="model")
        if len(part) > 2 and (versions or within):
            error.suggestions = tuple(versions[:_MOST_CHOICES]) or _shortest(within)
            error.hint = Message("did you mean {names}?", names=" or ".join(error.suggestions))
        elif not error.suggestions:
            error.hint = Message(
                "name it as `advisor networks --task generation` does, or give {config} FILE, its "
                "config.json",
                config=FieldName("config"),
            )
        return error


def _is_version(entry: str, words: Sequence[str]) -> bool:
    """True if a model is called by the words, with nothing but numbers between or behind them."""
    own = re.findall(r"[a-z]+|[0-9.]+b?", entry.rpartition("/")[2].casefold())
    own = own[own[0] == "meta" :]
    return [word for word in own if word in words or not word.replace(".", "").isdigit()] == list(words)


def _shortest(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=lambda name: (len(name), name))[:_MOST_CHOICES])


def _ambiguous(name: str, choices: Iterable[str]) -> UsageError:
    several = _shortest(choices)
    error = UsageError(
        "several language models are called '{name}'",
        name=name,
        field="model",
        hint=Message("name one of {names}", names=list(several)),
        code="ambiguous_name",
    )
    error.suggestions = several
    return error


def _grouped(names: Iterable[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for name in names:
        result.setdefault(key(name.rpartition("/")[2]), []).append(name)
    return result


def checkpoint_of(asked: str, known: str) -> str:
    """The name by which an engine loads a model: as it was asked for with its organisation, since tuned
    checkpoints share the facts of a `known` one; else the known one's, with the suffix that was asked for."""
    asked = asked.strip()
    if "/" in asked:
        return known if _loose(asked) == _loose(known) else asked
    more = _bare(asked).removeprefix(_bare(known))
    is_tuned = more in _SUFFIXES and _bare(asked) == _bare(known) + more
    return f"{known}-{more if len(more) < 3 else more.title()}" if is_tuned else known


def _bare(name: str) -> str:
    return _loose(name.rpartition("/")[2]).removeprefix(_PREFIX)


def _loose(name: str) -> str:
    """The name's letters in lower case and digits, with dots between digits kept: 2.5 is not 25."""
    return re.sub(r"[-_ ]+", "", name.casefold())


def _words(name: str) -> list[str]:
    """The parts of a model's own name, for those that add a size or a date to it."""
    return re.split(r"[-_ ]+", name.rpartition("/")[2].casefold())


def _stem(name: str) -> str:
    """The name without the parts in which checkpoints of one model differ."""
    stem = _loose(name).removeprefix(_PREFIX)
    for suffix in _SUFFIXES:
        stem = stem.removesuffix(suffix)
    return stem


@cache
def bundled_language_models() -> LanguageModels:
    """The models that ship."""
    return LanguageModels({name: cells for cells in table_cells() for name in cells["names"].split(";")})
