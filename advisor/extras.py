"""The command that installs an extra for this Python, from the source of the installed advisor."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Collection
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from advisor.messages import Message

PACKAGE = "instance-sizing-advisor"
ROOT = Path(__file__).resolve().parents[1]
_EXTRA = re.compile(r"(?:;|and)\s*extra\s*==\s*[\"']([\w-]+)[\"']")


def install_command(*extras: str) -> str:
    """The shell command that installs `extras`: "/venv/bin/python -m pip install -e '/src[zoo]'".

    Its source is the checkout, or else where pip found the advisor (`direct_url.json`, PEP 610). If that
    is unknown or gone, it installs the extras' requirements by name, as the advisor is on no index."""
    has_pip = any(metadata.distributions(name="pip"))  # find_spec("pip") breaks the import of setuptools
    pip = [sys.executable, "-m", "pip", "install"]
    if not has_pip:
        pip = ["uv", "pip", "install", "--python", sys.executable]
    brackets = f"[{','.join(extras)}]" if extras else ""
    try:
        return shlex.join([*pip, *_from_origin(brackets, extras)])
    except metadata.PackageNotFoundError:
        return shlex.join([*pip, f"{PACKAGE}{brackets}"])


def install_hint(*extras: str) -> Message:
    """A hint to install the missing `extras`; the command comes last, so that it is easy to copy."""
    return Message("install it: {command}", command=install_command(*extras))


def core_and(extras: Collection[str]) -> list[str]:
    """The requirements of the installed advisor and of `extras`, such as 'PyYAML>=6'. Raises
    `PackageNotFoundError` if the advisor is not installed as a package."""
    return [text for text in metadata.requires(PACKAGE) or () if _extra(text) in (None, *extras)]


def _from_origin(brackets: str, extras: Collection[str]) -> list[str]:
    if (ROOT / "constraints.txt").is_file():  # a checkout
        return ["-e", f"{ROOT}{brackets}"]
    url, vcs = _origin()
    if url.startswith("file:"):
        path = Path(url2pathname(urlsplit(url).path))
        if path.exists():
            return [f"{path}{brackets}"]
    elif url:
        return [f"{PACKAGE}{brackets} @ {vcs}{url}"]
    return [_EXTRA.sub("", text).strip() for text in core_and(extras) if _extra(text)] or [PACKAGE]


def _origin() -> tuple[str, str]:
    """The URL from which pip installed the advisor ('' for an index), and its prefix, as 'git+' or ''."""
    origin = json.loads(metadata.distribution(PACKAGE).read_text("direct_url.json") or "{}")
    vcs = origin.get("vcs_info", {}).get("vcs")
    return origin.get("url", ""), f"{vcs}+" if vcs else ""


def _extra(requirement: str) -> str | None:
    match = _EXTRA.search(requirement)
    return match[1] if match else None
