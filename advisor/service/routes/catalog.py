"""/v1/catalog, /v1/networks and /v1/gpus: what is known, with ETags that outlive a process."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.answers.context import Context
from advisor.answers.listing import (
    gpus_document_of,
    listed_networks,
    networks_document,
    page_of,
    query_of,
    shown_type,
)
from advisor.errors import UsageError
from advisor.questions.fields import client_text
from advisor.questions.listings import Gpus, InstanceDetails, Networks, Offers
from advisor.questions.question import Question
from advisor.questions.reading import from_link, parameters_of
from advisor.service.answers import (
    Document,
    cache_headers,
    context_of,
    document_json,
    etag_of,
    json_answer,
    not_modified,
    threads_of,
)
from advisor.service.auth import needs
from advisor.service.bodies import question_in_link
from advisor.service.openapi import SHOWN_TYPE, Example, described, refusals
from advisor.service.problems import Problem, unknown_path
from advisor.store.keys import Scope

router = APIRouter(prefix="/v1", tags=["catalogue"], dependencies=[needs(Scope.READ)])
_TEXT = {"schema": {"type": "string"}}
_CACHE = {"ETag": {"description": "Of these very bytes.", **_TEXT}, "Cache-Control": _TEXT}
_LINK = {"Link": {"description": "first, prev and next page.", **_TEXT}}
# Of the lists that examples show.
_FIRST_TWO = 0, 2


class _Page(NamedTuple):
    """A part of a list, and how many the whole list has."""

    document: Document
    total: int


def _offers(context: Context, question: Offers, first: int, count: int) -> _Page:
    page = page_of(context.catalog, query_of(question), first, count)
    return _Page(page.document(context.catalog), page.total)


def _networks(context: Context, question: Networks, first: int, count: int) -> _Page:
    networks = listed_networks(context.model, question.search)
    return _Page(networks_document(context.model, networks[first : first + count]), len(networks))


def _offers_example(context: Context) -> Document:
    return _offers(context, from_link(Offers, b"cloud=aws&gpu=T4"), *_FIRST_TWO).document


def _networks_example(context: Context) -> Document:
    return _networks(context, Networks(search="resnet"), *_FIRST_TWO).document


def _type_example(context: Context) -> Document:
    return shown_type(context.catalog, SHOWN_TYPE, from_link(InstanceDetails, b"region=us-east-1"))


def _gpus_example(context: Context) -> Document:
    return gpus_document_of(context.catalog, from_link(Gpus, b"gpu=T4,L4"))


def documented(
    schema: str, kind: type[Question], example: Example, *more: int, **headers: Any
) -> dict[str, Any]:
    """OpenAPI's part of a route that can be cached, and may also refuse with `more`."""
    responses = described(schema, schema, example) | (refusals(*more) if more else {})
    responses[200]["headers"] = {**_CACHE, **headers}
    responses[304] = {"description": "It is as the client has it.", "headers": _CACHE}
    return {"responses": responses, "openapi_extra": {"parameters": parameters_of(kind)}}


@router.get("/catalog", **documented("Catalog", Offers, _offers_example, **_LINK))
async def list_offers(request: Request) -> Response:
    """Priced offers, cheapest first, a page at a time; `Link` says where the next one is."""
    return await _page(request, "catalog", Offers, _offers)


@router.get("/networks", **documented("Networks", Networks, _networks_example, **_LINK))
async def list_networks(request: Request) -> Response:
    """The networks that can be named, a page at a time, and what is known of each."""
    return await _page(request, "networks", Networks, _networks)


@router.get("/catalog/{instance_type}", **documented("InstanceType", InstanceDetails, _type_example, 404))
async def show_type(request: Request, instance_type: str) -> Response:
    """All that is known of a type, and its price in each region."""
    question, catalog = question_in_link(request, InstanceDetails), context_of(request).catalog
    try:
        name = catalog.name_of(client_text(instance_type, "instance_type"), question.cloud)
    except UsageError as error:
        raise unknown_path(error.message, error.hint) from None
    return await _cached(request, f"type {name}", question, partial(shown_type, catalog, name, question))


@router.get("/gpus", **documented("Gpus", Gpus, _gpus_example))
async def list_gpus(request: Request) -> Response:
    """GPUs by rate, memory, bandwidth, link, power and price."""
    question, catalog = question_in_link(request, Gpus), context_of(request).catalog
    return await _cached(request, "gpus", question, partial(gpus_document_of, catalog, question))


async def _page(
    request: Request,
    name: str,
    kind: type[Offers] | type[Networks],
    page: Callable[[Context, Any, int, int], _Page],
) -> Response:
    """A page of a list, with the links to the next ones and the number of all."""
    question: Any = question_in_link(request, kind)
    context = context_of(request)
    # Cursors are of one list: of this catalogue, and of these filters.
    edition = _etag(context, "cursor", question.replace(cursor=None, limit=1))[1:9]
    first, count = first_of(question.cursor, edition), int(question.limit)
    return await _cached(
        request,
        name,
        question,
        partial(page, context, question, first, count),
        partial(link_header, request, first, count, edition),
    )


async def _cached(
    request: Request,
    name: str,
    question: Question,
    work: Callable[[], Document | _Page],
    link: Callable[[int], str] | None = None,
) -> Response:
    """The answer, or 304 before it is computed where the client has it."""
    etag = _etag(context_of(request), name, question)
    if unchanged := not_modified(request, etag):
        return unchanged
    content, total = await threads_of(request).run(_json, work)
    headers = {"Link": link(total), "X-Total-Count": str(total)} if link else {}
    return json_answer(content, headers={**cache_headers(etag), **headers})


def _json(work: Callable[[], Document | _Page]) -> tuple[bytes, int]:
    result = work()
    page = result if isinstance(result, _Page) else _Page(result, 1)
    return document_json(page.document), page.total


def _etag(context: Context, name: str, question: Question) -> str:
    """The ETag of all that decides the answer's bytes: catalogue, model and question."""
    return etag_of(context.catalog.fingerprint, context.model.id, name, repr(question))


MOST_PLACES = 10**7


def first_of(cursor: str | None, edition: str) -> int:
    """The place a page begins at; `Problem` 422 for a cursor of another edition of the list, and for what is
    none."""
    if cursor is None:
        return 0
    try:
        text = base64.urlsafe_b64decode(cursor.encode("ascii") + b"==").decode("ascii")
        known, _, number = text.partition(":")
        first = int(number)
    except (ValueError, binascii.Error):
        raise _no_cursor("cursor is none that a Link header gave") from None
    if known != edition:
        raise _no_cursor("cursor is of an older catalogue, or of another question")
    if not 0 <= first <= MOST_PLACES:
        raise _no_cursor("cursor is none that a Link header gave")
    return first


def cursor_of(first: int, edition: str) -> str:
    """The cursor that `first_of` reads."""
    return base64.urlsafe_b64encode(f"{edition}:{first}".encode()).decode().rstrip("=")


def link_header(request: Request, first: int, count: int, edition: str, total: int) -> str:
    """`first`, `prev` and `next`, as far as there are such pages."""
    starts = {"first": 0}
    if first > 0:
        starts["prev"] = max(0, first - count)
    if first + count < total:
        starts["next"] = first + count
    links = (f'<{_url(request, start, edition)}>; rel="{name}"' for name, start in starts.items())
    return ", ".join(links)


def _url(request: Request, first: int, edition: str) -> str:
    """Relative to the service, so that it is right behind a proxy too."""
    words: list[tuple[str, Any]] = [
        pair
        for pair in parse_qsl(request.scope["query_string"].decode("ascii"), keep_blank_values=True)
        if pair[0] != "cursor"
    ]
    if first:
        words.append(("cursor", cursor_of(first, edition)))
    query = urlencode(words)
    return request.url.path + (f"?{query}" if query else "")


def _no_cursor(why: str) -> Problem:
    return Problem(422, "invalid", why, field="cursor", hint="begin again without cursor")
