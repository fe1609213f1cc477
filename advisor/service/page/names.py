"""`/names`: what a field may be called, by what was typed of it; fields ask while one types."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from advisor.answers.context import Context
from advisor.models.language.configs import bundled_language_models
from advisor.service.answers import context_of

# A list is read, not scrolled through.
MOST = 12
_LONGEST_SEARCH = 100
ANY_CLOUD = "any"
_NO_WORD = re.compile(r"[\W_]+")


def matching(names: Iterable[str], search: str) -> list[str]:
    """The names that have every word of `search` in them, whatever stands between the words: those that begin
    with it first, then short ones. No word matches all."""
    words = _NO_WORD.sub(" ", search.casefold()).split()
    joined, ranked = "".join(words), []
    for name in names:
        plain = name.casefold()
        bare = _NO_WORD.sub("", plain.rpartition("/")[2])
        if joined in bare or all(word in plain for word in words):
            ranked.append((bare != joined, not bare.startswith(joined), len(name), name))
    return [name for *_, name in sorted(ranked)]


LISTS: Mapping[str, Callable[[Context, str], Iterable[str]]] = {
    "networks": lambda context, _cloud: context.model.table.names,
    "models": lambda _context, _cloud: bundled_language_models().names(),
    "instances": lambda context, cloud: context.catalog.type_names(cloud),
    "gpus": lambda context, _cloud: sorted(context.catalog.rented_gpus),
}

router = APIRouter(include_in_schema=False)


@router.get("/names/{kind}")
def names(request: Request, kind: str, search: str = "", cloud: str = "any") -> Response:
    """`{"names": [..], "count": all that match}`, at most `MOST` of them; 404 for other lists. Instance types
    are those of a cloud, if one is named that is known."""
    if kind not in LISTS:
        raise HTTPException(404, "no such list")
    context = context_of(request)
    home = cloud if cloud in context.catalog.clouds else ANY_CLOUD
    matches = matching(LISTS[kind](context, home), search[:_LONGEST_SEARCH])
    return JSONResponse(
        {"names": matches[:MOST], "count": len(matches)}, headers={"Cache-Control": "private, max-age=60"}
    )
