"""The frame of every page: language, theme, links and headers."""

from __future__ import annotations

import re
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
        themes = (query.get("theme"), cookies.get("theme"))
        self.theme = next((theme for theme in themes if theme in THEMES), None)
        # A form sends every field: those left empty say nothing.
        stripped = ((name, value.strip()) for name, value in query.multi_items() if name not in LOOKS)
        self.words = [(name, value) for name, value in stripped if value]
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
        """A template filled in with the frame and `values`. A language or theme that was switched is kept in
        a cookie; neither is secret, and scripts switch themes too."""
        query, path, t = self.request.query_params, self.request.url.path, self.texts
        caller = visit_of(self.request).caller
        other = next(language for language in LANGUAGES if language != t.language)
        # Without a script nobody knows what the system prefers: dark is offered first.
        theme = "light" if self.theme == "dark" else "dark"
        common = {
            "t": t,
            "theme": self.theme,
            "place": "/" + path.split("/")[1],
            "navigation": NAVIGATION,
            "here": self.here,
            "same": self.same,
            "words": dict(self.words),
            "wrong": {},
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
        response = HTMLResponse(render(template, common | values), status)
        response.headers["Vary"] = "Accept-Language, Cookie"
        response.headers["Cache-Control"] = "private, no-cache"
        response.headers["Content-Language"] = t.language
        for name, value in (("lang", t.language), ("theme", self.theme)):
            if name in query and value:
                response.set_cookie(name, value, max_age=_A_YEAR, samesite="lax")
        return response


def link(path: str, fields: Mapping[str, object] | Iterable[tuple[str, object]]) -> str:
    """A path with a query, which may be empty."""
    pairs = list(fields.items() if isinstance(fields, Mapping) else fields)
    query = urlencode(pairs, safe=":,./@", doseq=True)
    return f"{path}?{query}" if query else path
