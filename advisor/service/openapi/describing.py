"""The whole description, put together when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from advisor.answers.ground import Ground
from advisor.questions import models
from advisor.service.openapi.examples import example_of
from advisor.service.openapi.parts import EXAMPLE
from advisor.service.openapi.refusing import tell_refusals
from advisor.service.openapi.schemas import all_schemas

QUESTIONS = (
    models.Recommend,
    models.Predict,
    models.Compare,
    models.MemoryQuestion,
    models.Gpus,
    models.Offers,
    models.InstanceDetails,
)
_ABOUT = (
    "The cheapest cloud instance and disk that will really reach a throughput, with an interval "
    "and the bottleneck. The same words and the same answers as the command line's."
)


def description(app: FastAPI, ground: Ground | None) -> dict[str, Any]:
    """OpenAPI 3.1 of `app`; with a ground, its answers have examples."""
    whole = get_openapi(
        title=app.title, version=app.version, openapi_version="3.1.0", description=_ABOUT,
        routes=app.routes,
    )  # fmt: skip
    schemas = whole.setdefault("components", {}).setdefault("schemas", {})
    schemas |= all_schemas(QUESTIONS)
    tell_refusals(whole)
    for operation in _operations(whole):
        _tell_each_once(operation)
    for content in _contents(whole):
        name = content.pop(EXAMPLE, None)
        if name is not None and ground is not None:
            content["example"] = example_of(name, ground)
    return whole


def _tell_each_once(operation: dict[str, Any]) -> None:
    """Of a parameter that the framework found and a route describes, what the route says."""
    told = {(one["in"], one["name"]): one for one in operation.get("parameters", ())}
    if told:
        operation["parameters"] = list(told.values())


def _operations(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in whole["paths"].values():
        yield from path.values()


def _contents(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every media type of every answer."""
    for operation in _operations(whole):
        for response in operation.get("responses", {}).values():
            yield from response.get("content", {}).values()
