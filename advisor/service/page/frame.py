"""What all pages share: language, theme, headers, templates and static files.

The URL of a static file contains a hash of all files. Therefore browsers fetch the files of a new release
anew, and modules may import each other by relative names."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Awaitable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from jinja2 import Environment, pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from advisor.messages import Message, Spell, format_mib
from advisor.render.blocks import plain, translated
from advisor.render.html import environment as shared_environment
from advisor.render.i18n.catalogue import LANGUAGE_TEXTS, LANGUAGES, REPORT_TEXTS, Texts, texts_in
from advisor.service.visits import visit_of

FOLDER = Path(__file__).with_name("static")
_TYPES = {".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
# Style sheets inside the page itself, so that the first paint waits for no second request.
_STYLES = ("app.css", "answer.css")
_MOST_CHARACTERS = 80
_FOR_A_YEAR = "public, max-age=31536000, immutable"

router = APIRouter(include_in_schema=False)


@cache
def files() -> dict[str, bytes]:
    """The contents of the served files by their paths under `static/` (scripts and images only)."""
    paths = sorted(path for path in FOLDER.rglob("*") if path.suffix in _TYPES)
    return {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in paths}


@cache
def styles() -> Markup:
    """The style sheets joined, as the text of the page's single `style` element."""
    return Markup("".join((FOLDER / name).read_text() for name in _STYLES))


def styles_source() -> str:
    """The source expression that allows just this `style` text in a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(styles().encode()).digest()).decode()}'"


@cache
def version() -> str:
    """Twelve hex digits of a hash of all static files' names and contents."""
    digest = hashlib.sha256()
    for name, content in files().items():
        digest.update(name.encode() + b"\0" + content)
    return digest.hexdigest()[:12]


def static_path(name: str) -> str:
    """The URL path of a static file. Raises `KeyError` if there is no such file."""
    files()[name]
    return f"/static/{version()}/{name}"


@router.get("/static/{_version}/{name:path}")
def static_file(_version: str, name: str) -> Response:
    """A static file. The version only serves browser caches: every version gets the current file."""
    if name not in files():
        raise HTTPException(404, "no such file")
    kind = _TYPES[Path(name).suffix]
    return Response(files()[name], media_type=kind, headers={"Cache-Control": _FOR_A_YEAR})


TEMPLATES = Path(__file__).with_name("templates")


@cache
def environment() -> Environment:
    """The Jinja environment of the process, which compiles each template once."""
    made = shared_environment(TEMPLATES)
    made.filters |= {"moment": moment, "mib": format_mib, "plain": plain, "cut": cut}
    made.globals |= {"static": static_path, "styles": styles, "translated": _translated}
    return made


def moment(text: str | None, zone: str = " UTC") -> str:
    """An ISO time as '2026-11-21 22:30 UTC', to the minute; '' for None."""
    return f"{text[:16].replace('T', ' ')}{zone}" if text else ""


def cut(name: str) -> str:
    """A name cut to the length that a page has room for; imported names may be of any length."""
    return name if len(name) <= _MOST_CHARACTERS else f"{name[:_MOST_CHARACTERS]}…"


@pass_context
def _translated(context: Context, text: object) -> str:
    """A sentence in the page's language, or in English if there is no translation."""
    texts: Texts = context["t"]
    return translated(text if isinstance(text, Message) else str(text), texts, spelled(texts))


def spelled(texts: Texts) -> Spell:
    """A function that gives a field's label on the page, as `Message.render` needs it."""

    def spell(field: str) -> str:
        label = texts.known(f"field.{field}", "")
        return texts("field.named", field=label) if label else field

    return spell


TEXTS = Path(__file__).with_name("texts") / "page.json"
NAMES = {"en": "English", "zh-CN": "中文"}
_SPOKEN = {"en": "en", "zh": "zh-CN"}
_ACCEPTED = re.compile(r"([A-Za-z-]+)\s*(?:;\s*q\s*=\s*([01](?:\.[0-9]*)?))?[^,]*")


def page_texts(language: str) -> Texts:
    """The texts of reports and of the pages in one of `LANGUAGES`."""
    return texts_in(language, REPORT_TEXTS, LANGUAGE_TEXTS, TEXTS)


def chosen_language(words: str | None, remembered: str | None, accepted: str | None) -> str:
    """The language of `?lang=`, else the cookie, else the best in Accept-Language, else English.

    Unsupported languages are skipped. 'zh', 'zh-Hans-CN' and 'ZH-cn' all mean Chinese."""
    # By falling weight. The weight defaults to 1, and 0 means "not acceptable" (RFC 9110, 12.5.4).
    weighed = [(float(weight or 1), tag) for tag, weight in _ACCEPTED.findall((accepted or "")[:400])]
    wanted = [tag for weight, tag in sorted(weighed, key=lambda pair: -pair[0]) if weight > 0]
    primaries = (tag.strip().lower().partition("-")[0] for tag in (words or "", remembered or "", *wanted))
    return next((_SPOKEN[primary] for primary in primaries if primary in _SPOKEN), LANGUAGES[0])


NAVIGATION = (
    ("/", "nav.find"),
    ("/compare", "nav.compare"),
    ("/predict", "nav.predict"),
    ("/catalog", "nav.catalog"),
)
# Links for operators of the service, at the bottom of every page.
OPERATORS = (("/measurements", "nav.measurements"), ("/sweeps", "nav.sweeps"))
# The place of the answer in a template whose page is sent before the answer is ready.
ANSWER = "<!--answer-->"
THEMES = ("light", "dark")
# Query parameters about the look of a page, not about the question.
LOOKS = ("lang", "theme", "part")
_A_YEAR = 365 * 24 * 3600


class Frame:
    """One request for a page. `words` are its non-empty query parameters, stripped, without `LOOKS`."""

    def __init__(self, request: Request) -> None:
        self.request = request
        query, cookies = request.query_params, request.cookies
        accepted = request.headers.get("accept-language")
        self.texts: Texts = page_texts(chosen_language(query.get("lang"), cookies.get("lang"), accepted))
        themes = (query.get("theme"), cookies.get("theme"))
        self.theme = next((theme for theme in themes if theme in THEMES), None)
        # A form sends all fields; empty ones are ignored.
        stripped = ((name, value.strip()) for name, value in query.multi_items() if name not in LOOKS)
        self.words = [(name, value) for name, value in stripped if value]
        self.is_part = query.get("part") in ("answer", "inner")
        self.is_example = False

    def here(self, path: str, **changed: object) -> str:
        """A link that keeps `?lang=` if this URL has it, so that a copied URL keeps the language."""
        looks = {"lang": self.texts.language} if "lang" in self.request.query_params else {}
        return link(path, changed | looks)

    def same(self, path: str, **changed: object) -> str:
        """A link to the same question with some words changed; None removes a word."""
        merged = {**dict(self.words), **changed}
        return self.here(path, **{name: value for name, value in merged.items() if value is not None})

    def text(self, template: str, **values: Any) -> str:
        """The template filled in with the values that all pages share and with `values`."""
        query, path, t = self.request.query_params, self.request.url.path, self.texts
        caller = visit_of(self.request).caller
        other = next(language for language in LANGUAGES if language != t.language)
        # The server cannot know the system's theme, so dark is offered first.
        theme = "light" if self.theme == "dark" else "dark"
        common = {
            "t": t,
            "theme": self.theme,
            "path": path,
            "place": "/" + path.split("/")[1],
            "navigation": NAVIGATION,
            "operators": OPERATORS,
            "here": self.here,
            "same": self.same,
            "words": dict(self.words),
            "wrong": {},
            "waits": False,
            "inner": query.get("part") == "inner",
            "session": caller is not None and caller.authenticated_by == "session",  # may log out
            "docs_href": "/openapi.json",
            "other_language": {
                "code": other,
                "name": NAMES[other],
                "href": link(path, [*self.words, ("lang", other)]),
            },
            "next_theme": {"name": theme, "href": link(path, [*self.words, ("theme", theme)])},
        }
        return environment().get_template(template).render(common | values)

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """A response with the filled-in template. A language or theme in the URL is kept in a cookie."""
        return self._dressed(HTMLResponse(self.text(template, **values), status))

    def streamed(self, head: str, answer: Awaitable[str], tail: str) -> Response:
        """A page that is sent in two parts: `head` at once, the answer and `tail` when it is ready."""
        return self._dressed(_Streamed(head, answer, tail))

    def _dressed(self, response: Response) -> Response:
        response.headers["Vary"] = "Accept-Language, Cookie"
        response.headers["Cache-Control"] = "private, no-cache"
        response.headers["Content-Language"] = self.texts.language
        for name, value in (("lang", self.texts.language), ("theme", self.theme)):
            if name in self.request.query_params and value:
                response.set_cookie(name, value, max_age=_A_YEAR, samesite="lax")
        return response


class _Streamed(HTMLResponse):
    """A page sent in two parts. It is not compressed, because that would delay the first part."""

    def __init__(self, head: str, answer: Awaitable[str], tail: str) -> None:
        super().__init__()
        del self.headers["Content-Length"]
        self.headers["Content-Encoding"] = "identity"
        self._head, self._answer, self._tail = head, answer, tail

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self._head.encode(), "more_body": True})
        body = f"{await self._answer}{self._tail}".encode()
        await send({"type": "http.response.body", "body": body})


def link(path: str, fields: Mapping[str, object] | Iterable[tuple[str, object]]) -> str:
    """A path with the fields as its query; the path alone if there are no fields."""
    pairs = list(fields.items() if isinstance(fields, Mapping) else fields)
    query = urlencode(pairs, safe=":,./@", doseq=True)
    return f"{path}?{query}" if query else path
