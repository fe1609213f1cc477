"""Describes each service route to OpenAPI beyond what the framework knows: its question and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from advisor.answers.reporting.formats import FORMATS
from advisor.questions import commands, language, listings, network
from advisor.questions.fields import Schema
from advisor.questions.question import ByTask, Kinds, Question, tasks_of
from advisor.questions.reading import parameters_of
from advisor.render.i18n.catalogue import LANGUAGES
from advisor.runs.questions import ScheduleRequest
from advisor.runs.stored_rows import MeasurementExport, MeasurementPage, ScheduleDetails
from advisor.runs.sweep_questions import NewSweep

JSON, _JSONL = "application/json", "application/x-ndjson"
# The names of the questions' schemas.
QUESTIONS: Mapping[type[Question], str] = {
    network.Recommend: "RecommendNetwork",
    network.Predict: "PredictNetwork",
    network.Compare: "CompareNetwork",
    network.MemoryQuestion: "MemoryOfNetwork",
    language.RecommendGeneration: "RecommendGeneration",
    language.PredictGeneration: "PredictGeneration",
    language.CompareGeneration: "CompareGeneration",
    language.MemoryGeneration: "MemoryOfGeneration",
    language.RecommendFinetuning: "RecommendFinetuning",
    language.PredictFinetuning: "PredictFinetuning",
    language.CompareFinetuning: "CompareFinetuning",
    language.MemoryFinetuning: "MemoryOfFinetuning",
    listings.Gpus: "GpusQuestion",
    listings.Offers: "CatalogQuestion",
    listings.InstanceDetails: "TypeQuestion",
    NewSweep: "NewSweep",
    ScheduleRequest: "NewSchedule",
}
BY_TASK: Mapping[ByTask[Any], str] = {
    commands.RECOMMEND: "RecommendQuestion",
    commands.PREDICT: "PredictQuestion",
    commands.COMPARE: "CompareQuestion",
    commands.MEMORY: "MemoryQuestion",
}
Responses = dict[int, dict[str, Any]]


class Described(NamedTuple):
    """A route: its responses, the question's fields in a link (`parameters`) or a body, and a summary and a
    name that replace the framework's."""

    responses: Responses
    parameters: list[Schema] = []  # noqa: RUF012
    body: Mapping[str, Any] | None = None
    summary: str = ""
    name: str = ""


def reference(schema: str) -> dict[str, str]:
    """A reference to a schema of the OpenAPI document."""
    return {"$ref": f"#/components/schemas/{schema}"}


def described_problem(status: int, when: str) -> Responses:
    """The response for a problem with this status."""
    content = {"application/problem+json": {"schema": reference("Problem")}}
    return {status: {"description": when, "content": content}}


def schema_by_task(kinds: ByTask[Any]) -> Schema:
    """A schema for a question of any task: one of the tasks' schemas. If all of them require `task`, that
    field is the discriminator."""
    references = {kind: reference(QUESTIONS[kind])["$ref"] for kind in kinds.kinds}
    schema: Schema = {"title": kinds.title, "oneOf": [{"$ref": each} for each in references.values()]}
    if all(kind.fields["task"].required for kind in kinds.kinds):
        mapping = {task: references[kind] for kind in kinds.kinds for task in tasks_of(kind)}
        schema["discriminator"] = {"propertyName": "task", "mapping": mapping}
    return schema


def _answer(schema: str, *, status: int = HTTPStatus.OK, about: str = HTTPStatus.OK.phrase) -> Responses:
    return {status: {"description": about, "content": {JSON: {"schema": reference(schema)}}}}


def _file(schemas: Mapping[str, Any]) -> Responses:
    """A file response with the given media types."""
    content = {kind: {"schema": schema} for kind, schema in schemas.items()}
    return {HTTPStatus.OK: {"description": "The file.", "content": content}}


def _body(kinds: Kinds[Any], example: Mapping[str, Any]) -> dict[str, Any]:
    name = BY_TASK[kinds] if isinstance(kinds, ByTask) else QUESTIONS[kinds]
    content = {"schema": reference(name), "example": dict(example)}
    return {"required": True, "content": {JSON: content}}


_TEXT = {"type": "string"}
_CACHE = {
    "ETag": {"description": "Of these very bytes.", "schema": _TEXT},
    "Cache-Control": {"schema": _TEXT},
}
_LINK = {"Link": {"description": "first, prev and next page.", "schema": _TEXT}}


def _cached(schema: str, kind: type[Question], **headers: Any) -> Described:
    responses = _answer(schema)
    responses[200]["headers"] = {**_CACHE, **headers}
    responses[304] = {"description": "It is as the client has it.", "headers": _CACHE}
    return Described(responses, parameters_of(kind))


class _Asked(NamedTuple):
    """A question that can be sent in a body or in a link."""

    kind: Kinds[Any]
    schema: str
    about: str
    example: Mapping[str, Any]


_ASKED = {
    "recommend": _Asked(
        commands.RECOMMEND,
        "Recommendation",
        "The cheapest instance and disk that will really reach a throughput.",
        {"task": "inference", "model": "googlenet", "target_throughput": 500},
    ),
    "predict": _Asked(
        commands.PREDICT,
        "AnyPrediction",
        "What one instance will reach, how sure that is, and what holds it back.",
        {
            "task": "inference",
            "model": "googlenet",
            "instance": "g4dn.xlarge",
            "disk": "gp3:500GiB",
            "vcpus": 8,
            "curve": {"vcpus": [2, 4]},
        },
    ),
    "compare": _Asked(
        commands.COMPARE,
        "AnyComparison",
        "How much faster, and at what cost: instances, or GPUs by themselves.",
        {"task": "training", "model": "resnet50", "instance": ["g4dn.xlarge", "g5.xlarge"]},
    ),
    "memory": _Asked(
        commands.MEMORY,
        "AnyMemory",
        "GPU memory of a network: its parts, the GPUs it fits, the largest batch.",
        {"model": "resnet50", "batch_size": 64, "gpu": "T4,L4"},
    ),
}
_BY_LINK = "By a link: the fields are query parameters."


def _file_schema(kind: str) -> dict[str, Any]:
    """Text, except for binary files; any value for JSON and YAML, which clients parse."""
    if kind.endswith(("json", "yaml")):
        return {}
    return _TEXT if kind.startswith("text/") else {"type": "string", "format": "binary"}


_REPORT = _file(
    {kind: _file_schema(kind) for kind in sorted({f.media_type.partition(";")[0] for f in FORMATS.values()})}
)
_FORMAT = {"name": "format", "in": "path", "required": True, "schema": {**_TEXT, "enum": list(FORMATS)}}
# Query parameters of reports only; they are not fields of the question.
_LOOKS = [
    {
        "name": "language",
        "in": "query",
        "required": False,
        "description": "What a sizing report is written in.",
        "schema": {"type": "string", "enum": list(LANGUAGES), "default": LANGUAGES[0]},
    },
    {
        "name": "as_of",
        "in": "query",
        "required": False,
        "description": "The day of a sizing report; today, where it is left out.",
        "schema": {"type": "string", "format": "date"},
    },
]
_SWEEP = {
    "networks": ["googlenet"],
    "tasks": "inference",
    "vcpus": [0.5, 1, 2],
    "memory": "2GiB",
    "disks": "gp3",
    "accelerator": "emulated:T4",
}
_PLAN = {"description": "The plan, with `dry_run`.", "content": {JSON: {"schema": {"type": "object"}}}}
_SCHEDULE = {"cron": "0 3 * * 1", "timezone": "Europe/Berlin", "name": "weekly", "sweep": {"preset": "small"}}
# Routes by method and path.
ROUTES: Mapping[tuple[str, str], Described] = {
    **{
        ("post", f"/v1/{name}"): Described(
            _answer(asked.schema), body=_body(asked.kind, asked.example), summary=asked.about, name=name
        )
        for name, asked in _ASKED.items()
    },
    **{
        ("get", f"/v1/{name}"): Described(
            _answer(asked.schema),
            parameters_of(asked.kind),
            summary=f"{asked.about} {_BY_LINK}",
            name=f"{name}_by_link",
        )
        for name, asked in _ASKED.items()
    },
    ("get", "/v1/catalog"): _cached("Catalog", listings.Offers, **_LINK),
    ("get", "/v1/networks"): _cached("Networks", listings.Networks, **_LINK),
    ("get", "/v1/catalog/{instance_type}"): _cached("InstanceType", listings.InstanceDetails),
    ("get", "/v1/gpus"): _cached("Gpus", listings.Gpus),
    ("get", "/healthz"): Described(_answer("Health")),
    ("get", "/readyz"): Described(_answer("Health")),
    ("get", "/metrics"): Described(
        {200: {"description": "Counters and histograms.", "content": {"text/plain": {"schema": _TEXT}}}}
    ),
    ("get", "/v1/measurements"): Described(_answer("Measurements"), parameters_of(MeasurementPage)),
    ("get", "/v1/measurements/export"): Described(
        _file(dict.fromkeys((_JSONL, "text/csv"), _TEXT)), parameters_of(MeasurementExport)
    ),
    ("post", "/v1/measurements/import"): Described(
        _answer("MeasurementsImport")
        | _answer("MeasurementsImport", status=207, about="Some lines were bad; the others are kept."),
        body={"required": True, "content": {_JSONL: {"schema": _TEXT}}},
    ),
    ("get", "/v1/sweeps"): Described(_answer("SweepJobs")),
    ("post", "/v1/sweeps"): Described(
        {200: _PLAN}
        | _answer("SweepJob", status=202, about="It was started; see Location.")
        | described_problem(409, "Another sweep runs on this machine; `sweep` names it."),
        body=_body(NewSweep, _SWEEP),
    ),
    ("get", "/v1/sweeps/{sweep_id}"): Described(_answer("SweepJob")),
    ("delete", "/v1/sweeps/{sweep_id}"): Described(_answer("SweepJob") | _answer("SweepJob", status=202)),
    ("get", "/v1/schedules"): Described(_answer("Schedules")),
    ("post", "/v1/schedules"): Described(
        _answer("Schedule")
        | _answer("Schedule", status=201)
        | described_problem(409, "Another schedule has that name."),
        body=_body(ScheduleRequest, _SCHEDULE),
    ),
    ("get", "/v1/schedules/{name}"): Described(_answer("Schedule"), parameters_of(ScheduleDetails)),
    ("post", "/v1/reports/{format}"): Described(
        _REPORT, _LOOKS, _body(commands.RECOMMEND, _ASKED["recommend"].example)
    ),
    ("get", "/v1/reports/{format}"): Described(
        _REPORT, [_FORMAT, *_LOOKS, *parameters_of(commands.RECOMMEND)]
    ),
}
