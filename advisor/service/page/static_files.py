"""What the page is made of besides HTML: read once, named by content, kept by browsers for a year.

The address holds a hash of all files, so that a new release is a new address and modules may import
each other by relative names.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.responses import Response

FOLDER = Path(__file__).with_name("static")
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FOR_A_YEAR = "public, max-age=31536000, immutable"

router = APIRouter(include_in_schema=False)


@cache
def files() -> dict[str, bytes]:
    """Contents by path under `static/`; licences and the like are not served."""
    found = sorted(path for path in FOLDER.rglob("*") if path.suffix in _TYPES)
    return {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in found}


@cache
def version() -> str:
    """Twelve hex digits of all names and contents."""
    told = hashlib.sha256()
    for name, content in files().items():
        told.update(name.encode() + b"\0" + content)
    return told.hexdigest()[:12]


def static_path(name: str) -> str:
    """Where a file is served; `KeyError` for one that is not there."""
    files()[name]
    return f"/static/{version()}/{name}"


@router.get("/static/{_version}/{name:path}")
def static_file(_version: str, name: str) -> Response:
    """A file of the page; the version is for browsers, any of them gets today's file."""
    if name not in files():
        raise HTTPException(404, "no such file")
    kind = _TYPES[Path(name).suffix]
    return Response(files()[name], media_type=kind, headers={"Cache-Control": _FOR_A_YEAR})
