"""/v1/reports: an answer as a file, in the formats that there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.errors import UsageError
from advisor.operations.answering.ground import Ground
from advisor.operations.answering.recommending import recommended
from advisor.operations.answering.reports import FORMATS, Format, format_named
from advisor.operations.answering.words import Words
from advisor.service.access import Scope, needs
from advisor.service.answers import ground_of, json_answer
from advisor.service.asking import body_in, slowly
from advisor.service.forms.questions import RECOMMEND
from advisor.service.openapi.examples import QUESTIONS
from advisor.service.openapi.parts import body_of, refusals
from advisor.service.problems import Problem

router = APIRouter(prefix="/v1/reports", tags=["reports"], dependencies=[needs(Scope.READ)])
_KINDS = sorted({one.media_type.partition(";")[0] for one in FORMATS.values()})


def _schema_of(kind: str) -> dict[str, Any]:
    """Text, but for what clients read as the values that it stands for."""
    return {} if kind.endswith(("json", "yaml")) else {"type": "string"}


_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file.",
        "content": {kind: {"schema": _schema_of(kind)} for kind in _KINDS},
    },
    **refusals(),
    404: refusals(404)[404],
}
_FORMAT = {
    "name": "format", "in": "path", "required": True,
    "schema": {"type": "string", "enum": list(FORMATS)},
}  # fmt: skip


@router.get("", responses=refusals())
async def formats() -> Response:
    """Which formats there are."""
    return json_answer(
        {
            "schema": "advisor.report-formats/1",
            "formats": [
                {"format": name, "media_type": one.media_type, "extension": one.extension,
                 "about": one.about, "link": f"{router.prefix}/{name}"}
                for name, one in FORMATS.items()
            ],
        }
    )  # fmt: skip


@router.post(
    "/{format}", responses=_FILE, openapi_extra=body_of(RECOMMEND.name, QUESTIONS["recommend"])
)
async def posted(format: str, request: Request) -> Response:
    """The answer to the question of /v1/recommend, as a file."""
    kind = _format(format)
    return await _file(format, kind, request, RECOMMEND.from_json(await body_in(request)))


@router.get(
    "/{format}", responses=_FILE,
    openapi_extra={"parameters": [_FORMAT, *RECOMMEND.parameters()]},
)  # fmt: skip
async def linked(format: str, request: Request) -> Response:
    """The same by a link, so that a page can offer it: the words are query parameters."""
    kind = _format(format)
    return await _file(format, kind, request, RECOMMEND.from_query(request.scope["query_string"]))


async def _file(name: str, kind: Format, request: Request, words: Words) -> Response:
    text = await slowly(_written, ground_of(request), words, kind)
    tool = "" if name == kind.extension else f"-{name}"
    file = f"{_word(words, 'network')}-{_word(words, 'task')}{tool}.{kind.extension}"
    return Response(
        text, media_type=kind.media_type,
        headers={"Content-Disposition": f'attachment; filename="{file}"'},
    )  # fmt: skip


def _written(ground: Ground, words: Words, kind: Format) -> str:
    return kind.write(recommended(ground, words))


def _word(words: Mapping[str, Any], name: str) -> str:
    """For a file's name: nothing in it that steers a header or a folder."""
    return "".join(one for one in str(words.get(name) or "") if one.isascii() and one.isalnum())[
        :40
    ]


def _format(name: str) -> Format:
    try:
        return format_named(name)
    except UsageError as error:
        raise Problem(404, "unknown-format", str(error)) from error
