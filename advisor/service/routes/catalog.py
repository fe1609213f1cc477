"""/v1/catalog, /v1/networks and /v1/gpus: what is known, with ETags that outlive a process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from fastapi import APIRouter, Request
from msgspec.structs import replace
from starlette.responses import Response

from advisor.answers.context import Context
from advisor.answers.gpus import gpus_document_of
from advisor.answers.listing import page_of, query_of, shown_type
from advisor.answers.networks import listed_networks, networks_document
from advisor.errors import UsageError
from advisor.questions.fields import client_text
from advisor.questions.models import Gpus, InstanceDetails, Networks, Offers, Question
from advisor.questions.reading import parameters_of
from advisor.service.access import Scope, needs
from advisor.service.answers import (
    cache_headers,
    context_of,
    encoded_answer,
    etag_of,
    not_modified,
    threads_of,
)
from advisor.service.bodies import question_in_link
from advisor.service.openapi import described, refusals
from advisor.service.paging import first_of, link_header
from advisor.service.problems import unknown_path

router = APIRouter(prefix="/v1", tags=["catalogue"], dependencies=[needs(Scope.READ)])
_TEXT = {"schema": {"type": "string"}}
_CACHE = {"ETag": {"description": "Of these very bytes.", **_TEXT}, "Cache-Control": _TEXT}
_LINK = {"Link": {"description": "first, prev and next page.", **_TEXT}}


def documented(
    schema: str, kind: type[Question], example: str, *more: int, **headers: Any
) -> dict[str, Any]:
    """What OpenAPI says of a route that can be cached, and may also refuse with `more`."""
    responses = described(schema, example) | (refusals(*more) if more else {})
    responses[200]["headers"] = {**_CACHE, **headers}
    responses[304] = {"description": "It is as the client has it.", "headers": _CACHE}
    return {"responses": responses, "openapi_extra": {"parameters": parameters_of(kind)}}


@router.get("/catalog", **documented("Catalog", Offers, "catalog", **_LINK))
async def list_offers(request: Request) -> Response:
    """Priced offers, cheapest first, a page at a time; `Link` says where the next one is."""
    return await _page(request, "catalog", Offers, _offers)


@router.get("/networks", **documented("Networks", Networks, "networks", **_LINK))
async def list_networks(request: Request) -> Response:
    """The networks that can be named, a page at a time, and what is known of each."""
    return await _page(request, "networks", Networks, _networks)


@router.get(
    "/catalog/{instance_type}", **documented("InstanceType", InstanceDetails, "catalog_type", 404)
)
async def show_type(request: Request, instance_type: str) -> Response:
    """All that is known of a type, and its price in each region."""
    question = question_in_link(request, InstanceDetails)
    try:
        name = client_text(instance_type, "instance_type")
        name = context_of(request).catalog.name_of(name, question.cloud)
    except UsageError as error:
        raise unknown_path(error.message, error.hint) from None
    return await _document(request, f"type {name}", question, partial(_type, name))


@router.get("/gpus", **documented("Gpus", Gpus, "gpus"))
async def list_gpus(request: Request) -> Response:
    """GPUs by rate, memory, bandwidth, link, power and price."""
    return await _document(request, "gpus", question_in_link(request, Gpus), _gpus)


def _offers(context: Context, question: Offers, first: int, count: int) -> tuple[bytes, int]:
    page = page_of(context.catalog, query_of(question), first, count)
    return msgspec.json.encode(page.document(context.catalog)), page.total


def _networks(context: Context, question: Networks, first: int, count: int) -> tuple[bytes, int]:
    networks = listed_networks(context.model, question.search)
    document = networks_document(context.model, networks[first : first + count])
    return msgspec.json.encode(document), len(networks)


def _type(name: str, context: Context, question: InstanceDetails) -> bytes:
    return msgspec.json.encode(shown_type(context.catalog, name, question))


def _gpus(context: Context, question: Gpus) -> bytes:
    return msgspec.json.encode(gpus_document_of(context.catalog, question))


async def _page(
    request: Request,
    name: str,
    kind: type[Offers] | type[Networks],
    work: Callable[..., tuple[bytes, int]],
) -> Response:
    """A page of a list, with the links to the next ones and the number of all."""
    question, context = question_in_link(request, kind), context_of(request)
    etag = _etag(context, name, question)
    if unchanged := not_modified(request, etag):
        return unchanged
    # Cursors are of one list: of this catalogue, and of these filters.
    edition = _etag(context, "cursor", replace(question, cursor=None, limit=1))[1:9]
    first, count = first_of(question.cursor, edition), int(question.limit)
    content, total = await threads_of(request).run(work, context, question, first, count)
    headers = {"Link": link_header(request, first, count, total, edition)}
    return encoded_answer(
        content, headers={**cache_headers(etag), **headers, "X-Total-Count": str(total)}
    )


async def _document(
    request: Request, name: str, question: Question, work: Callable[..., bytes]
) -> Response:
    """The answer, or 304 before it is computed where the client has it."""
    context = context_of(request)
    etag = _etag(context, name, question)
    if unchanged := not_modified(request, etag):
        return unchanged
    content = await threads_of(request).run(work, context, question)
    return encoded_answer(content, headers=cache_headers(etag))


def _etag(context: Context, name: str, question: Question) -> str:
    """Of all that decides the answer's bytes: the catalogue, the model, and the question."""
    return etag_of(context.catalog.fingerprint, context.model.id, name, repr(question))
