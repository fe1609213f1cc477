"""The frame of every page: language, theme, headers, templates and files.

The address of a file holds a hash of all files, so that a new release is a new address and modules may
import each other by relative names.
"""

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

from advisor.messages import Message, Spell
from advisor.render.blocks import plain, translated
from advisor.render.html import environment as shared_environment
from advisor.render.html import shown
from advisor.render.i18n.catalogue import LANGUAGE_TEXTS, LANGUAGES, REPORT_TEXTS, Texts, texts_in
from advisor.service.visits import visit_of
from advisor.units import format_mib

FOLDER = Path(__file__).with_name("static")
_TYPES = {".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
# They stand in the page itself: the first paint of a first visit waits for no second request.
_STYLES = ("app.css", "answer.css")
_MOST_CHARACTERS = 80
_FOR_A_YEAR = "public, max-age=31536000, immutable"

router = APIRouter(include_in_schema=False)


@cache
def files() -> dict[str, bytes]:
    """Contents by path under `static/`; licences and the like are not served."""
    paths = sorted(path for path in FOLDER.rglob("*") if path.suffix in _TYPES)
    return {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in paths}


@cache
def styles() -> Markup:
    """The style sheets, as the text of the page's one `style`."""
    return Markup("".join((FOLDER / name).read_text() for name in _STYLES))


def styles_source() -> str:
    """The source in a Content-Security-Policy that allows this text and no other."""
    digest = hashlib.sha256(styles().encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@cache
def version() -> str:
    """Twelve hex digits of all names and contents."""
    digest = hashlib.sha256()
    for name, content in files().items():
        digest.update(name.encode() + b"\0" + content)
    return digest.hexdigest()[:12]


def static_path(name: str) -> str:
    """The path of a file; `KeyError` for one that is not there."""
    files()[name]
    return f"/static/{version()}/{name}"


@router.get("/static/{_version}/{name:path}")
def static_file(_version: str, name: str) -> Response:
    """A file of the page; the version is for browsers, any of them gets today's file."""
    if name not in files():
        raise HTTPException(404, "no such file")
    kind = _TYPES[Path(name).suffix]
    return Response(files()[name], media_type=kind, headers={"Cache-Control": _FOR_A_YEAR})


TEMPLATES = Path(__file__).with_name("templates")


def render(template: str, values: Mapping[str, Any]) -> str:
    """A template as text; a name that it misses is an error, never a gap."""
    return environment().get_template(template).render(values)


@cache
def environment() -> Environment:
    """One for the process: templates are compiled once."""
    made = shared_environment(TEMPLATES)
    made.filters |= {"moment": moment, "mib": format_mib, "plain": plain, "cut": cut}
    made.globals |= {"static": static_path, "styles": styles, "translated": _translated}
    return made


def moment(text: str | None, zone: str = " UTC") -> str:
    """'2026-11-21 22:30 UTC': to the minute; '' where it has not come."""
    return f"{text[:16].replace('T', ' ')}{zone}" if text else ""


def cut(name: str) -> str:
    """A name as far as a page has room for it; imports have them at any length."""
    return name if len(name) <= _MOST_CHARACTERS else f"{name[:_MOST_CHARACTERS]}…"


@pass_context
def _translated(context: Context, text: object) -> Markup:
    """A sentence in the page's language; English is marked where nothing else is."""
    texts: Texts = context["t"]
    return shown(translated(text if isinstance(text, Message) else str(text), texts, spelled(texts)))


def spelled(texts: Texts) -> Spell:
    """Fields by the names that the page has for them."""

    def spell(field: str) -> str:
        label = texts.known(f"field.{field}", "")
        return texts("field.named", field=label) if label else field

    return spell


TEXTS = Path(__file__).with_name("texts") / "page.json"
NAMES = {"en": "English", "zh-CN": "中文"}
_SPOKEN = {"en": "en", "zh": "zh-CN"}
_ACCEPTED = re.compile(r"([A-Za-z-]+)\s*(?:;\s*q\s*=\s*([01](?:\.[0-9]*)?))?[^,]*")


def page_texts(language: str) -> Texts:
    """The texts of reports and of the page in one of `LANGUAGES`."""
    return texts_in(language, REPORT_TEXTS, LANGUAGE_TEXTS, TEXTS)


def chosen_language(words: str | None, remembered: str | None, accepted: str | None) -> str:
    """`?lang=`, else the cookie, else the best of Accept-Language, else English.

    What names no language that is spoken here is passed over; 'zh', 'zh-Hans-CN' and 'ZH-cn' are one."""
    # Most wanted first; what has no weight counts 1, and 0 is not wanted at all.
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
# Of whoever runs the service, below every page.
OPERATORS = (("/measurements", "nav.measurements"), ("/sweeps", "nav.sweeps"))
# Where the answer of a page stands that is sent ahead of it.
ANSWER = "<!--answer-->"
THEMES = ("light", "dark")
# Parameters that say how a page looks, not what it answers.
LOOKS = ("lang", "theme", "part")
_A_YEAR = 365 * 24 * 3600


class Frame:
    """One request as a page sees it: `words` are its parameters without blanks and looks."""

    def __init__(self, request: Request) -> None:
        self.request = request
        query, cookies = request.query_params, request.cookies
        accepted = request.headers.get("accept-language")
        self.texts: Texts = page_texts(chosen_language(query.get("lang"), cookies.get("lang"), accepted))
        themes = (query.get("theme"), cookies.get("theme"))
        self.theme = next((theme for theme in themes if theme in THEMES), None)
        # A form sends every field: those left empty say nothing.
        stripped = ((name, value.strip()) for name, value in query.multi_items() if name not in LOOKS)
        self.words = [(name, value) for name, value in stripped if value]
        self.is_part = query.get("part") in ("answer", "inner")
        self.is_example = False

    def here(self, path: str, **changed: object) -> str:
        """A link in the same language: the cookie knows it, and a copied address says it too."""
        looks = {"lang": self.texts.language} if "lang" in self.request.query_params else {}
        return link(path, changed | looks)

    def same(self, path: str, **changed: object) -> str:
        """A link to the same question with other words; None takes a word out."""
        merged = {**dict(self.words), **changed}
        return self.here(path, **{name: value for name, value in merged.items() if value is not None})

    def text(self, template: str, **values: Any) -> str:
        """A template filled in with the frame and `values`."""
        query, path, t = self.request.query_params, self.request.url.path, self.texts
        caller = visit_of(self.request).caller
        other = next(language for language in LANGUAGES if language != t.language)
        # Without a script nobody knows what the system prefers: dark is offered first.
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
            "session": caller is not None and caller.by == "session",  # may log out
            "docs_href": "/openapi.json",
            "other_language": {
                "code": other,
                "name": NAMES[other],
                "href": link(path, [*self.words, ("lang", other)]),
            },
            "next_theme": {"name": theme, "href": link(path, [*self.words, ("theme", theme)])},
        }
        return render(template, common | values)

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """A page of `text`; a switched language or theme is kept in a cookie that scripts may read."""
        return self._dressed(HTMLResponse(self.text(template, **values), status))

    def streamed(self, head: str, answer: Awaitable[str], tail: str) -> Response:
        """A page whose answer comes later than what stands before it."""
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
    """Sent in two parts, and not compressed: that would keep the first one back."""

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
    """A path with a query, which may be empty."""
    pairs = list(fields.items() if isinstance(fields, Mapping) else fields)
    query = urlencode(pairs, safe=":,./@", doseq=True)
    return f"{path}?{query}" if query else path
