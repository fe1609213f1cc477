"""/v1/catalog, /v1/networks and /v1/gpus: lists of what the advisor knows, cached by their ETags."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.answers import listing
from advisor.answers.context import Context
from advisor.errors import UsageError
from advisor.questions.fields import client_text
from advisor.questions.listings import Gpus, InstanceDetails, Networks, Offers
from advisor.questions.question import Question
from advisor.service import answers
from advisor.service.problems import Problem, unknown_path
from advisor.service.questions import question_in_link
from advisor.service.visits import needs
from advisor.store.keys import Scope

router = APIRouter(prefix="/v1", tags=["catalogue"], dependencies=[needs(Scope.READ)])
MOST_PLACES = 10**7


# A document, of a list one page, and the length of the whole list.
_Page = tuple[answers.Document, int | None]


def _offers(context: Context, question: Offers, first: int, count: int) -> _Page:
    page = listing.page_of(context.catalog, listing.query_of(question), first, count)
    return page.document(context.catalog), page.total


def _networks(context: Context, question: Networks, first: int, count: int) -> _Page:
    networks = listing.listed_networks(context.model, question.search)
    return listing.networks_document(context.model, networks[first : first + count]), len(networks)


@router.get("/catalog")
async def list_offers(request: Request) -> Response:
    """Priced offers, cheapest first, a page at a time; `Link` says where the next one is."""
    return await _page(request, "catalog", Offers, _offers)


@router.get("/networks")
async def list_networks(request: Request) -> Response:
    """The networks that can be named, a page at a time, and what is known of each."""
    return await _page(request, "networks", Networks, _networks)


@router.get("/catalog/{instance_type}")
async def show_type(request: Request, instance_type: str) -> Response:
    """All that is known of a type, and its price in each region."""
    question, catalog = question_in_link(request, InstanceDetails), answers.context_of(request).catalog
    try:
        name = catalog.name_of(client_text(instance_type, "instance_type"), question.cloud)
    except UsageError as error:
        raise unknown_path(error.message, error.hint) from None
    return await _answered(
        request, f"type {name}", question, lambda: (listing.shown_type(catalog, name, question), None)
    )


@router.get("/gpus")
async def list_gpus(request: Request) -> Response:
    """GPUs by rate, memory, bandwidth, link, power and price."""
    question, catalog = question_in_link(request, Gpus), answers.context_of(request).catalog
    return await _answered(
        request, "gpus", question, lambda: (listing.gpus_document_of(catalog, question), None)
    )


async def _page(
    request: Request,
    name: str,
    kind: type[Offers] | type[Networks],
    page: Callable[[Context, Any, int, int], _Page],
) -> Response:
    question: Any = question_in_link(request, kind)
    context = answers.context_of(request)
    # A cursor holds for one list only: this catalogue and these filters.
    whole_list = repr(question.replace(cursor=None, limit=1))
    edition = answers.etag_of(context.catalog.fingerprint, context.model.id, "cursor", whole_list)[1:9]
    first, count = _first_of(question.cursor, edition), int(question.limit)

    def headers(answered: answers.Answered) -> dict[str, str]:
        links = _links(request, edition, first, count, answered.total or 0)
        return {"Link": links, "X-Total-Count": str(answered.total)}

    return await _answered(request, name, question, partial(page, context, question, first, count), headers)


async def _answered(
    request: Request,
    name: str,
    question: Question,
    work: Callable[[], _Page],
    headers: Callable[[answers.Answered], dict[str, str]] = lambda _: {},
) -> Response:
    def computed() -> answers.Answered:
        document, total = work()
        return answers.Answered(answers.packed(answers.document_json(document)), total=total)

    return await answers.answer(
        request, name, question, partial(answers.threads_of(request).run, computed), headers
    )


def _first_of(cursor: str | None, edition: str) -> int:
    """The index at which the cursor's page begins. `Problem` 422 for a bad cursor or one of another list."""
    if cursor is None:
        return 0
    known, _, number = cursor.partition("-")
    if not (number.isascii() and number.isdecimal()) or len(number) > 8 or int(number) > MOST_PLACES:
        raise _no_cursor("cursor is none that a Link header gave")
    if known != edition:
        raise _no_cursor("cursor is of an older catalogue, or of another question")
    return int(number)


def _links(request: Request, edition: str, first: int, count: int, total: int) -> str:
    starts = {"first": 0}
    if first > 0:
        starts["prev"] = max(0, first - count)
    if first + count < total:
        starts["next"] = first + count
    links = {
        name: answers.link_with(request, f"{edition}-{start}" if start else None)
        for name, start in starts.items()
    }
    return ", ".join(f'<{link}>; rel="{name}"' for name, link in links.items())


def _no_cursor(why: str) -> Problem:
    return Problem(422, "invalid", why, field="cursor", hint="begin again without cursor")
