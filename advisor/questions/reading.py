"""Reads questions from options, JSON and links, and writes them back with defaults filled in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from advisor.domain import ANY, DiskChoice, Range
from advisor.domain.words import ANY_MARKET
from advisor.domain.workload import DatasetProfile
from advisor.errors import Faults, UsageError, unknown_name
from advisor.messages import Message, option_name
from advisor.questions.fields import Choice, Names, Schema, comma_parts, error_in
from advisor.questions.language import ServingQuestion, TuningQuestion
from advisor.questions.network import AUTO, NetworkQuestion
from advisor.questions.question import (
    CONTRADICTION,
    ByTask,
    Field,
    Kinds,
    Question,
    distinct,
    kind_for,
    kinds_of,
    tasks_of,
)
from advisor.questions.spec import SpecQuestion

Q = TypeVar("Q", bound=Question)
MOST_LINK_WORDS = 200


class UnreadableError(UsageError):
    """A body that is not a JSON object, or a link whose query cannot be read."""


def from_texts(kinds: Kinds[Q], texts: Mapping[str, Sequence[str]], noun: str = "field") -> Q:
    """A question from texts by field, as in a plan; several texts of a field with one value are joined by
    commas. Raises `UsageError`."""
    kind = kind_for(kinds, ",".join(texts["task"]) if "task" in texts else None, texts)
    fields, values, faults = kind.fields, dict[str, Any](), Faults()
    for name, given in texts.items():
        with faults.collected():
            field = fields.get(name)
            if field is None or field.where == "http":
                raise unknown_name(noun, name, fields, field=name)
            values[name] = field.kind.from_texts(given, name)
    faults.raise_any()
    return _question(kind, values, kinds)


def from_fields(kinds: Kinds[Q], values: Mapping[str, Any]) -> Q:
    """A question from values that are already parsed; `UsageError` for a missing field."""
    return _question(kind_for(kinds, values.get("task"), values), values, kinds)


def from_values(kinds: Kinds[Q], values: Mapping[str, Any]) -> Q:
    """A question from a client's JSON values by field; null leaves a field out. `UsageError` names the
    field."""
    given = [name for name, value in values.items() if value is not None]
    kind = kind_for(kinds, values.get("task"), given)
    fields, every = _client_fields(kind), _every_client_field(kinds)
    read = {}
    for name, value in values.items():
        if name not in (every if value is None else fields):
            raise _unknown_field(name, fields)
        if value is not None:
            read[name] = fields[name].kind.from_json(value, name)
    return _question(kind, read, kinds, client=True)


def from_json(kind: Kinds[Q], body: bytes) -> Q:
    """A question from a JSON body; `UnreadableError` where that is not JSON."""
    try:
        values = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableError(
            "the body is no JSON: {why}", why=str(error), hint="send one JSON object in UTF-8, without NaN"
        ) from None
    if not isinstance(values, dict):
        raise UsageError("the body must be an object", hint='send fields like {"task": "inference"}')
    return from_values(kind, values)


def from_link(kind: Kinds[Q], query: bytes) -> Q:
    """A question from the query of a link; `UnreadableError` where it cannot be read."""
    try:
        pairs = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            encoding="utf-8",
            errors="strict",
            max_num_fields=MOST_LINK_WORDS,
        )
    except ValueError:
        raise UnreadableError(
            "the query of the link cannot be read", hint="write it as name=value, in UTF-8"
        ) from None
    return from_pairs(kind, pairs)


def from_pairs(kinds: Kinds[Q], pairs: Iterable[tuple[str, str]]) -> Q:
    """A question from the names and texts of a link."""
    texts = dict[str, list[str]]()
    for name, text in pairs:
        texts.setdefault(name, []).append(text)
    kind = kind_for(kinds, next(iter(texts.get("task", ())), None), texts)
    fields = _client_fields(kind)
    for name in texts:
        if name not in fields:
            raise _unknown_field(name, fields)
    read = {name: fields[name].kind.from_link(given, name) for name, given in texts.items()}
    return _question(kind, read, kinds, client=True)


def options_of(question: Question) -> list[str]:
    """The words of a command line that asks this: ['--task', 'inference', ..]. Fields at their defaults are
    left out."""
    words: list[str] = []
    for name, texts in texts_of(question).items():
        option = option_name(name)
        if isinstance(value := getattr(question, question.fields[name].attribute), bool):
            words.append(option if value else f"--no-{option[2:]}")
        else:
            words += [word for text in texts for word in (option, text)]
    return words


def texts_of(question: Question) -> dict[str, tuple[str, ...]]:
    """Each field that is not at its default, in texts for `from_texts`."""
    texts = {}
    for field in question.fields.values():
        value = getattr(question, field.attribute)
        if field.where != "http" and question.differs(field):
            values = value if field.kind.repeats else (value,)
            texts[field.name] = tuple("true" if each is True else field.kind.text_of(each) for each in values)
    return texts


def schema_of(kind: type[Question]) -> Schema:
    """JSON Schema of a question's body; null leaves a field out."""
    fields = _client_fields(kind)
    return {
        "title": str(kind.__doc__).splitlines()[0],
        "type": "object",
        "properties": {name: _property_schema(field) for name, field in fields.items()},
        "required": [name for name, field in fields.items() if _is_required(field)],
        "additionalProperties": False,
    }


def parameters_of(kinds: Kinds[Any]) -> list[Schema]:
    """OpenAPI's query parameters of a question, required only where every task requires them."""
    of_kinds = [_client_fields(kind) for kind in kinds_of(kinds)]
    parameters = []
    for name in _every_client_field(kinds):
        declared = [fields[name] for fields in of_kinds if name in fields]
        parameter = _parameter(declared[0])
        if isinstance(kinds, ByTask):
            needed = len(declared) == len(of_kinds) and all(map(_is_required, declared))
            parameter |= {"required": needed} | _merged_parameter(declared)
        parameters.append(parameter)
    return parameters


def merged_schema_of(kinds: Kinds[Any], *, without: Iterable[str]) -> Schema:
    """JSON Schema of a body for all tasks in one object, since many clients do not support `oneOf`."""
    of_kinds = kinds_of(kinds)
    properties, required = {}, []
    for parameter in parameters_of(kinds):
        name = parameter["name"]
        if name in without:
            continue
        having = [kind for kind in of_kinds if name in _client_fields(kind)]
        about = parameter["description"]
        if len(having) < len(of_kinds):
            about += f" Tasks: {', '.join(task for kind in having for task in tasks_of(kind))}."
        content = parameter.get("content", {}).get("application/json", parameter)
        properties[name] = content["schema"] | {"description": about}
        if parameter["required"]:
            required.append(name)
    schema: Schema = {"type": "object", "properties": properties, "required": required}
    return schema | {"additionalProperties": False}


def _merged_parameter(declared: Sequence[Field]) -> Schema:
    """The schema and description of a parameter that tasks declare differently; {} where they agree."""
    parameters = distinct(map(_parameter, declared))
    if len(parameters) < 2:
        return {}
    schemas = distinct(parameter["schema"] for parameter in parameters)
    about = " ".join(dict.fromkeys(parameter["description"] for parameter in parameters))
    only, *others = schemas
    return {"schema": {"anyOf": schemas} if others else only, "description": about}


def _client_fields(kind: type[Question]) -> dict[str, Field]:
    return {name: field for name, field in kind.fields.items() if field.where != "cli"}


def _every_client_field(kinds: Kinds[Any]) -> dict[str, Field]:
    return {name: field for kind in kinds_of(kinds) for name, field in _client_fields(kind).items()}


def _is_required(field: Field) -> bool:
    return field.required or field.required_of_clients


def _question(kind: type[Q], values: Mapping[str, Any], kinds: Kinds[Q], *, client: bool = False) -> Q:
    values = {name: value for name, value in values.items() if value is not None}
    for field in kind.fields.values():
        needed = field.required or (client and field.required_of_clients)
        if needed and field.name not in values:
            kind.refuse(values)
            raise error_in(field.name, "{field} is missing", hint=_missing_hint(field, kinds))
        if isinstance(field.kind, Names) and field.name in values:
            parts = (name for text in values[field.name] for name in comma_parts(text))
            values = {**values, field.name: tuple(parts)}
    attributes = {kind.fields[n].attribute: kind.fields[n].kind.normalized(v) for n, v in values.items()}
    try:
        kind.refuse_given(values)
        return kind(**attributes)
    except UsageError as error:
        error.code = error.code or CONTRADICTION
        raise


def _missing_hint(field: Field, kinds: Kinds[Any]) -> Message:
    names = field.kind.names if isinstance(field.kind, Choice) else ()
    if field.name == "task" and isinstance(kinds, ByTask):
        names = kinds.tasks
    if names:
        return Message("add it: {names}. {help}", names=names, help=field.help)
    return Message("add it. {help}", help=field.help)


def _unknown_field(name: str, fields: Mapping[str, Field]) -> UsageError:
    import difflib  # only a mistyped name needs it

    shown = "".join(letter if letter.isprintable() else "?" for letter in name[:60])
    near = difflib.get_close_matches(name[:100], fields, n=1)
    hint = (
        Message("did you mean {name}?", name=near[0])
        if near
        else Message("there are: {names}", names=tuple(fields))
    )
    return UsageError("there is no field '{name}'", name=shown, hint=hint, field=shown, code="unknown_field")


def _property_schema(field: Field) -> Schema:
    schema = field.kind.schema() | {"description": _description(field)}
    if not _is_required(field):
        kinds = schema["type"]
        schema["type"] = [*([kinds] if isinstance(kinds, str) else kinds), "null"]
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
        schema |= _default_schema(field)
    return schema


def _parameter(field: Field) -> Schema:
    schema = field.kind.schema() | ({} if field.required else _default_schema(field))
    # OpenAPI puts parameters that are JSON text under "content".
    is_object = schema["type"] == "object"
    where = {"content": {"application/json": {"schema": schema}}} if is_object else {"schema": schema}
    return {
        "name": field.name,
        "in": "query",
        "required": _is_required(field),
        "description": _description(field),
        **where,
    }


def _description(field: Field) -> str:
    usual = f" Default: {field.usual}." if field.usual else ""
    return field.help + usual


def _default_schema(field: Field) -> Schema:
    """The default of a field in its schema; None and () have none in JSON."""
    value = field.default
    return {} if value in (None, ()) else {"default": str(value) if isinstance(value, str) else value}


_OF_THE_DECISION = ("listed_on", "fresh_on", "price_spread", "preferred", "writes_text")
_OF_DATASETS = ("name", "samples", "bytes_per_sample", "storage_format", "kind", "sample", "width", "height")
# Field -> its word in a document for None.
_LEFT_OPEN = {"market": ANY_MARKET, "precision": AUTO, "memory_format": AUTO}
_RANGES = ("compute_capability", "vcpus", "memory_mib")


def question_document(question: SpecQuestion) -> dict[str, Any]:
    """The document of a settled question: its own attributes first, then those of every spec."""
    words = _LEFT_OPEN if isinstance(question, NetworkQuestion) else {"market": ANY_MARKET}
    values = {name: getattr(question, name) for name in document_names(type(question))}
    return {
        "model" if name == "network" else name: words.get(name) if value is None else _json_value(name, value)
        for name, value in values.items()
    }


def question_from(document: Mapping[str, Any]) -> NetworkQuestion:
    """The question in a document about a network; `ValueError` or `KeyError` for any other document."""
    values = dict(document, network=document["model"])
    for name in _RANGES:
        values[name] = values.get(name) or ANY
    values |= {name: None for name, word in _LEFT_OPEN.items() if values.get(name) == word}
    values["vcpu_quota"] = tuple(dict(values.get("vcpu_quota", {})).items())
    values["disk"] = DiskChoice.from_text(values["disk"]) if values.get("disk") else None
    try:
        return msgspec.convert(values, NetworkQuestion, from_attributes=True)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def document_names(question: type[SpecQuestion]) -> list[str]:
    """The attributes in a question's document, its own before those of every spec."""
    kinds = (NetworkQuestion, ServingQuestion, TuningQuestion)
    kind = next(kind for kind in kinds if issubclass(question, kind))
    names = [
        name
        for name in kind.__struct_fields__
        if name not in _OF_THE_DECISION and (name not in kind.declared or kind.declared[name].in_document)
    ]
    return sorted(names, key=SpecQuestion.__struct_fields__.__contains__)


def _json_value(name: str, value: Any) -> Any:
    if isinstance(value, Range):
        return {"least": value.least, "most": value.most} if value.limits else None
    if isinstance(value, DatasetProfile):
        names = (*_OF_DATASETS, "steps", "guidance") if value.steps else _OF_DATASETS
        return {part: str(value.kind) if part == "kind" else getattr(value, part) for part in names}
    if name == "vcpu_quota":
        return dict(value)
    if isinstance(value, Enum | DiskChoice):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
