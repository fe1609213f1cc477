"""/v1/catalog, /v1/networks and /v1/gpus: what is known, with ETags that outlive a process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.answers.gpus import gpus_document_of
from advisor.answers.ground import Ground
from advisor.answers.listing import page_of, query_of, shown_type
from advisor.answers.networks import listed_networks, networks_document
from advisor.errors import UsageError
from advisor.service.access import Scope, needs
from advisor.service.answers import (
    cache_headers,
    encoded_answer,
    etag_of,
    ground_of,
    not_modified,
    threads_of,
)
from advisor.service.forms.catalog import LIST, NETWORKS, TYPE
from advisor.service.forms.form import Form
from advisor.service.forms.questions import GPUS
from advisor.service.forms.words import some_shown
from advisor.service.openapi import described, refusals
from advisor.service.paging import first_of, link_header
from advisor.service.problems import unknown_path

router = APIRouter(prefix="/v1", tags=["catalogue"], dependencies=[needs(Scope.READ)])
_Fields = Mapping[str, Any]
_TEXT = {"schema": {"type": "string"}}
_CACHE = {"ETag": {"description": "Of these very bytes.", **_TEXT}, "Cache-Control": _TEXT}
_LINK = {"Link": {"description": "first, prev and next page.", **_TEXT}}


def documented(schema: str, form: Form, example: str, *more: int, **headers: Any) -> dict[str, Any]:
    """What OpenAPI says of a route that can be cached, and may also refuse with `more`."""
    responses = described(schema, example) | (refusals(*more) if more else {})
    responses[200]["headers"] = {**_CACHE, **headers}
    responses[304] = {"description": "It is as the client has it.", "headers": _CACHE}
    return {"responses": responses, "openapi_extra": {"parameters": form.parameters()}}


@router.get("/catalog", **documented("Catalog", LIST, "catalog", **_LINK))
async def list_offers(request: Request) -> Response:
    """Priced offers, cheapest first, a page at a time; `Link` says where the next one is."""
    return await _page(request, "catalog", LIST, _offers)


@router.get("/networks", **documented("Networks", NETWORKS, "networks", **_LINK))
async def list_networks(request: Request) -> Response:
    """The networks that can be named, a page at a time, and what is known of each."""
    return await _page(request, "networks", NETWORKS, _networks)


@router.get("/catalog/{instance_type}", **documented("InstanceType", TYPE, "catalog_type", 404))
async def show_type(request: Request, instance_type: str) -> Response:
    """All that is known of a type, and its price in each region."""
    fields = TYPE.from_query(request.scope["query_string"])
    try:
        name = some_shown(instance_type, "instance_type")
        fields["instance_type"] = ground_of(request).catalog.name_of(name, fields["cloud"])
    except UsageError as error:
        raise unknown_path(error.message, error.hint) from None
    return await _document(request, "type", fields, _type)


@router.get("/gpus", **documented("Gpus", GPUS, "gpus"))
async def list_gpus(request: Request) -> Response:
    """GPUs by rate, memory, bandwidth, link, power and price."""
    return await _document(request, "gpus", GPUS.from_query(request.scope["query_string"]), _gpus)


def _offers(ground: Ground, fields: _Fields, first: int, count: int) -> tuple[bytes, int]:
    page = page_of(ground.catalog, query_of(fields), first, count)
    return msgspec.json.encode(page.document(ground.catalog)), page.total


def _networks(ground: Ground, fields: _Fields, first: int, count: int) -> tuple[bytes, int]:
    networks = listed_networks(ground.model, fields["search"])
    document = networks_document(ground.model, networks[first : first + count])
    return msgspec.json.encode(document), len(networks)


def _type(ground: Ground, fields: _Fields) -> bytes:
    return msgspec.json.encode(shown_type(ground.catalog, fields))


def _gpus(ground: Ground, fields: _Fields) -> bytes:
    return msgspec.json.encode(gpus_document_of(ground.catalog, fields))


async def _page(
    request: Request, kind: str, form: Form, work: Callable[..., tuple[bytes, int]]
) -> Response:
    """A page of a list, with the links to the next ones and the number of all."""
    fields, ground = form.from_query(request.scope["query_string"]), ground_of(request)
    etag = _etag(ground, kind, fields)
    if unchanged := not_modified(request, etag):
        return unchanged
    # Cursors are of one list: of this catalogue, and of these filters.
    edition = _etag(ground, "cursor", {**fields, "cursor": None, "limit": None})[1:9]
    first, count = first_of(fields["cursor"], edition), int(fields["limit"])
    content, total = await threads_of(request).run(work, ground, fields, first, count)
    headers = {"Link": link_header(request, first, count, total, edition)}
    return encoded_answer(
        content, headers={**cache_headers(etag), **headers, "X-Total-Count": str(total)}
    )


async def _document(
    request: Request, kind: str, fields: _Fields, work: Callable[[Ground, _Fields], bytes]
) -> Response:
    """The answer, or 304 before it is computed where the client has it."""
    ground = ground_of(request)
    etag = _etag(ground, kind, fields)
    if unchanged := not_modified(request, etag):
        return unchanged
    content = await threads_of(request).run(work, ground, fields)
    return encoded_answer(content, headers=cache_headers(etag))


def _etag(ground: Ground, kind: str, fields: _Fields) -> str:
    """Of all that decides the answer's bytes: the catalogue, the model, and the question."""
    question = msgspec.json.encode(fields, enc_hook=repr, order="sorted").decode()
    return etag_of(ground.catalog.fingerprint, ground.model.id, kind, question)
