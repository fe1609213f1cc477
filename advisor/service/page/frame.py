"""The frame of every page: language, theme, links and headers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from starlette.responses import HTMLResponse, Response

from advisor.render.i18n.catalogue import LANGUAGE_TEXTS, LANGUAGES, REPORT_TEXTS, Texts, texts_in
from advisor.service.auth import visit_of
from advisor.service.page.rendering import render

TEXTS = Path(__file__).with_name("texts") / "page.json"
NAMES = {"en": "English", "zh-CN": "中文"}


def page_texts(language: str) -> Texts:
    """The texts of reports and of the page in one of `LANGUAGES`."""
    return texts_in(language, REPORT_TEXTS, LANGUAGE_TEXTS, TEXTS)


def chosen_language(words: str | None, remembered: str | None, accepted: str | None) -> str:
    """`?lang=`, else the cookie, else the best of Accept-Language, else English.

    What names no language that is spoken here is passed over.
    """
    tags = (words or "", remembered or "", *_by_preference(accepted or ""))
    return next(filter(None, map(_known, tags)), LANGUAGES[0])


def _known(tag: str) -> str | None:
    """'zh', 'zh-Hans-CN' and 'ZH-cn' are one language here; so are 'en' and 'en-GB'."""
    primary = tag.strip().lower().partition("-")[0]
    return {"en": "en", "zh": "zh-CN"}.get(primary)


def _by_preference(header: str) -> list[str]:
    """The tags of an Accept-Language header, most wanted first; q=0 is not wanted at all."""
    weighed = []
    for part in header[:400].split(","):
        tag, _, parameter = part.partition(";")
        weight = _weight(parameter)
        if tag.strip() and weight > 0:
            weighed.append((-weight, tag))
    return [tag for _, tag in sorted(weighed, key=lambda pair: pair[0])]


def _weight(parameter: str) -> float:
    name, _, value = parameter.strip().partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0


NAVIGATION = (
    ("/", "nav.find"),
    ("/language", "nav.language"),
    ("/predict", "nav.predict"),
    ("/compare", "nav.compare"),
    ("/measurements", "nav.measurements"),
    ("/sweeps", "nav.sweeps"),
)
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
        self.theme = _theme(query.get("theme")) or _theme(cookies.get("theme"))
        self.words = _stripped(query.multi_items())
        self.is_part = query.get("part") in ("answer", "inner")

    def here(self, path: str, **changed: object) -> str:
        """A link in the same language: the cookie knows it, and a copied address says it too."""
        looks = {"lang": self.texts.language} if "lang" in self.request.query_params else {}
        return link(path, changed | looks)

    def same(self, path: str, **changed: object) -> str:
        """A link to the same question with other words; None takes a word out."""
        merged = {**dict(self.words), **changed}
        return self.here(path, **{name: value for name, value in merged.items() if value is not None})

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """A template filled in with the frame and `values`."""
        html = render(template, self._common() | values)
        return self._sent(html, status)

    def _common(self) -> dict[str, Any]:
        path = self.request.url.path
        return {
            "t": self.texts,
            "theme": self.theme,
            "place": "/" + path.split("/")[1],
            "navigation": NAVIGATION,
            "here": self.here,
            "same": self.same,
            "words": dict(self.words),
            "wrong": {},
            "inner": self.request.query_params.get("part") == "inner",
            "session": _has_session(self.request),
            "docs_href": "/openapi.json",
            "other_language": self._other_language(path),
            "next_theme": self._next_theme(path),
        }

    def _other_language(self, path: str) -> dict[str, str]:
        code = next(language for language in LANGUAGES if language != self.texts.language)
        href = link(path, [*self.words, ("lang", code)])
        return {"code": code, "name": NAMES[code], "href": href}

    def _next_theme(self, path: str) -> dict[str, str]:
        """Without a script nobody knows what the system prefers: dark is offered first."""
        name = "light" if self.theme == "dark" else "dark"
        return {"name": name, "href": link(path, [*self.words, ("theme", name)])}

    def _sent(self, html: str, status: int) -> Response:
        response = HTMLResponse(html, status)
        response.headers["Vary"] = "Accept-Language, Cookie"
        response.headers["Cache-Control"] = "private, no-cache"
        response.headers["Content-Language"] = self.texts.language
        self._remember(response)
        return response

    def _remember(self, response: Response) -> None:
        """Keep a switched language or theme in a cookie; neither is secret, and scripts switch themes too."""
        query = self.request.query_params
        for name, value in (("lang", self.texts.language), ("theme", self.theme)):
            if name in query and value:
                response.set_cookie(name, value, max_age=_A_YEAR, samesite="lax")


def _has_session(request: Request) -> bool:
    """Whether somebody has logged in and may log out."""
    caller = visit_of(request).caller
    return caller is not None and caller.by == "session"


def link(path: str, fields: Mapping[str, object] | Iterable[tuple[str, object]]) -> str:
    """A path with a query, which may be empty."""
    pairs = list(fields.items() if isinstance(fields, Mapping) else fields)
    query = urlencode(pairs, safe=":,./@", doseq=True)
    return f"{path}?{query}" if query else path


def _theme(name: str | None) -> str | None:
    return name if name in THEMES else None


def _stripped(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """A form sends every field: those left empty say nothing."""
    stripped = ((name, value.strip()) for name, value in pairs if name not in LOOKS)
    return [(name, value) for name, value in stripped if value]
