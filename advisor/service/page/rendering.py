"""The templates, filled in with texts and numbers as the product prints them, and the page's files.

The address of a file holds a hash of all files, so that a new release is a new address and modules may import
each other by relative names.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from jinja2 import Environment, pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.responses import Response

from advisor.messages import Message
from advisor.render.blocks import translated
from advisor.render.html import environment as shared_environment
from advisor.render.html import shown
from advisor.render.i18n.catalogue import Texts
from advisor.render.i18n.filters import plain
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
    """A sentence in the page's language, with fields by the names that the page has for them; English is
    marked where nothing else is."""
    texts: Texts = context["t"]

    def spell(field: str) -> str:
        label = texts.known(f"field.{field}", "")
        return texts("field.named", field=label) if label else field

    return shown(translated(text if isinstance(text, Message) else str(text), texts, spell))
