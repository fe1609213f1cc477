"""/v1/reports: the answer to a recommendation question as a file in one of several formats."""

from __future__ import annotations

from datetime import date
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.answers.reporting.formats import FORMATS, ExportRequest, file_name, format_named
from advisor.errors import UsageError
from advisor.questions import commands
from advisor.questions.commands import AnyRecommend
from advisor.render.i18n.catalogue import LANGUAGES
from advisor.service.answers import context_of, json_answer, threads_of
from advisor.service.problems import Problem
from advisor.service.questions import question_in_body, question_in_query
from advisor.service.visits import needs
from advisor.store.keys import Scope

router = APIRouter(prefix="/v1/reports", tags=["reports"], dependencies=[needs(Scope.READ)])


# The language and date of a report.
Looks = tuple[str, date | None]


@router.get("")
async def formats() -> Response:
    """Which formats there are."""
    return json_answer(
        {
            "schema": "advisor.render-formats/1",
            "formats": [
                {
                    "format": name,
                    "media_type": kind.media_type,
                    "extension": kind.extension,
                    "about": kind.about,
                    "link": f"{router.prefix}/{name}",
                }
                for name, kind in FORMATS.items()
            ],
        }
    )


@router.post("/{format}")
async def posted(format: str, request: Request) -> Response:
    """The answer to the question of /v1/recommend, as a file."""
    looks, _ = _looks(format, request.scope["query_string"])
    return await _file(request, format, await question_in_body(request, commands.RECOMMEND), looks)


@router.get("/{format}")
async def linked(format: str, request: Request) -> Response:
    """The same by a link, so that a page can offer it: the words are query parameters."""
    looks, query = _looks(format, request.scope["query_string"])
    return await _file(request, format, question_in_query(commands.RECOMMEND, query), looks)


def _looks(name: str, query: bytes) -> tuple[Looks, bytes]:
    """The looks in a query, and the query without them. Only reports have any. `Problem` 404 for an unknown
    format, and 422 for an unknown language or day."""
    try:
        kind = format_named(name)
    except UsageError as error:
        raise Problem(404, "unknown-format", error.message, hint=error.hint) from error
    if not kind.report:
        return (LANGUAGES[0], None), query
    pairs = parse_qsl(query.decode("ascii", "replace"), keep_blank_values=True)
    looks = {name: text for name, text in pairs if name in ("language", "as_of")}
    wanted = looks.get("language") or LANGUAGES[0]
    language = next((name for name in LANGUAGES if name.lower() == wanted.lower()), None)
    if language is None:
        hint = f"there are: {', '.join(LANGUAGES)}"
        raise Problem(422, "invalid", "there is no such language", field="language", hint=hint)
    try:
        day = date.fromisoformat(looks["as_of"]) if looks.get("as_of") else None
    except ValueError:
        hint = "write it as 2026-11-22"
        raise Problem(422, "invalid", "as_of is no day", field="as_of", hint=hint) from None
    rest = urlencode([(name, text) for name, text in pairs if name not in looks])
    return (language, day), rest.encode()


async def _file(request: Request, name: str, question: AnyRecommend, looks: Looks) -> Response:
    kind = FORMATS[name]
    wanted = ExportRequest(context_of(request), question, *looks)
    content = await threads_of(request).run(kind.write, wanted, slow=True)
    # Letters and digits only, so that a file name can neither end the header nor name a folder.
    model, task = (
        "".join(letter for letter in text if letter.isascii() and letter.isalnum())[:40]
        for text in (question.model_text, question.task)
    )
    disposition = f'attachment; filename="{file_name(f"{model}-{task}", name)}"'
    return Response(content, media_type=kind.media_type, headers={"Content-Disposition": disposition})
