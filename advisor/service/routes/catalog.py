"""/v1/catalog, /v1/networks and /v1/gpus: what is known, with ETags that outlive a process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter, Request
from msgspec.structs import replace
from starlette.responses import Response

from advisor.answers.gpus import gpus_document_of
from advisor.answers.ground import Ground
from advisor.answers.listing import page_of, query_of, shown_type
from advisor.answers.networks import listed_networks, networks_document
from advisor.errors import UsageError
from advisor.questions.fields import client_text
from advisor.questions.models import Gpus, InstanceDetails, Networks, Offers, Question
from advisor.questions.reading import parameters_of
from advisor.service.access import Scope, needs
from advisor.service.answers import (
    cache_headers,
    etag_of,
    ground_of,
    json_answer,
    not_modified,
)
from advisor.service.asking import question_in_link, slowly
from advisor.service.openapi.parts import described, refusals
from advisor.service.paging import first_of, link_header
from advisor.service.problems import problem_of, unknown_path

router = APIRouter(prefix="/v1", tags=["catalogue"], dependencies=[needs(Scope.READ)])
_CACHE = {
    "ETag": {"description": "Of these very bytes.", "schema": {"type": "string"}},
    "Cache-Control": {"schema": {"type": "string"}},
}
_LINK = {"Link": {"description": "first, prev and next page.", "schema": {"type": "string"}}}


def documented(
    schema: str, kind: type[Question], example: str, *more: int, **headers: Any
) -> dict[str, Any]:
    """What OpenAPI tells of a route that can be cached, and may also refuse with `more`."""
    responses = described(schema, example) | (refusals(*more) if more else {})
    responses[200]["headers"] = {**_CACHE, **headers}
    responses[304] = {"description": "It is as the client has it.", "headers": _CACHE}
    return {"responses": responses, "openapi_extra": {"parameters": parameters_of(kind)}}


@router.get("/catalog", **documented("Catalog", Offers, "catalog", **_LINK))
async def list_offers(request: Request) -> Response:
    """Priced offers, cheapest first, a page at a time; `Link` says where the next one is."""
    question = question_in_link(Offers, request.scope["query_string"])
    ground = ground_of(request)
    etag = _etag(ground, "catalog", question)
    if unchanged := not_modified(request, etag):
        return unchanged
    edition = _etag(ground, "cursor", replace(question, cursor=None, limit=1))[1:9]
    first, count = first_of(question.cursor, edition), question.limit
    page = await slowly(page_of, ground.catalog, query_of(question), first, count)
    link = link_header(request, first, count, page.total, edition)
    return json_answer(
        page.document(ground.catalog),
        headers={**cache_headers(etag), "Link": link, "X-Total-Count": str(page.total)},
    )


@router.get(
    "/catalog/{instance_type}", **documented("InstanceType", InstanceDetails, "catalog_type", 404)
)
async def show_type(request: Request, instance_type: str) -> Response:
    """All that is known of a type, and its price in each region."""
    question = question_in_link(InstanceDetails, request.scope["query_string"])
    name = _known_type(ground_of(request), instance_type, question.cloud)
    return await _kept(
        request, f"type {name}", question, lambda at: shown_type(at.catalog, name, question)
    )


@router.get("/networks", **documented("Networks", Networks, "networks", **_LINK))
async def list_networks(request: Request) -> Response:
    """The networks that can be asked for, a page at a time, and what is known of each."""
    question = question_in_link(Networks, request.scope["query_string"])
    ground = ground_of(request)
    etag = _etag(ground, "networks", question)
    if unchanged := not_modified(request, etag):
        return unchanged
    edition = _etag(ground, "networks", Networks(search=question.search))[1:9]
    first, count = first_of(question.cursor, edition), question.limit
    found = await slowly(listed_networks, ground.model, question.search)
    document = await slowly(networks_document, ground.model, found[first : first + count])
    link = link_header(request, first, count, len(found), edition)
    return json_answer(
        document,
        headers={**cache_headers(etag), "Link": link, "X-Total-Count": str(len(found))},
    )


@router.get("/gpus", **documented("Gpus", Gpus, "gpus"))
async def list_gpus(request: Request) -> Response:
    """GPUs by rate, memory, bandwidth, link, power and price."""
    question = question_in_link(Gpus, request.scope["query_string"])
    return await _kept(request, "gpus", question, lambda at: gpus_document_of(at.catalog, question))


def _known_type(ground: Ground, text: str, cloud: str | None) -> str:
    """A type as the catalogue writes it; `Problem` 404 for a path of one that nobody knows."""
    try:
        return ground.catalog.name_of(client_text(text, "instance_type"), cloud)
    except UsageError as error:
        problem = problem_of(error)
        raise unknown_path(problem.detail, problem.way_out or "") from None


async def _kept(
    request: Request, kind: str, question: Question, answer: Callable[[Ground], Mapping[str, Any]]
) -> Response:
    """The answer, or 304 before it is computed where the client has it."""
    ground = ground_of(request)
    etag = _etag(ground, kind, question)
    if unchanged := not_modified(request, etag):
        return unchanged
    return json_answer(await slowly(answer, ground), headers=cache_headers(etag))


def _etag(ground: Ground, kind: str, question: Question) -> str:
    """Of all that decides the answer's bytes: the catalogue, the model, and what was asked."""
    return etag_of(ground.catalog.fingerprint, ground.model.id, kind, repr(question))
