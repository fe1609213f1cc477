"""What the machine's files are called is nobody's concern who asks from elsewhere.

Documents and messages of the command line name whole paths, for the person before the machine. Over
HTTP a file of the user's folders, of the database or of the installation is told by its last name.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from advisor.places import state_folder, user_folder

_PACKAGE = str(Path(__file__).parents[2])
# The end of a path in a sentence, a quotation or a URL.
_REST = r"(?P<rest>[^\s'\"`;,)?]*)"
_SQLITE = re.compile(r"sqlite(?:\+\w+)?:///(?P<path>/[^?]+)")


def without_paths(value: Any) -> Any:
    """The document with such paths cut to their last name; its other parts are the same objects."""
    if isinstance(value, str):
        return without_paths_in(value)
    if isinstance(value, Mapping):
        return {key: without_paths(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_paths(one) for one in value]
    return value


def without_paths_in(text: str) -> str:
    """A sentence, likewise."""
    return _roots(*_told()).sub(_last_name, text) if "/" in text else text


def _told() -> tuple[str, ...]:
    """The folders, as the environment tells them now."""
    database = _SQLITE.match(os.environ.get("ADVISOR_DATABASE_URL", ""))
    beside = (str(Path(database["path"]).parent),) if database else ()
    home = os.environ.get("HOME", "")
    return (str(user_folder()), str(state_folder()), home, sys.prefix, _PACKAGE, *beside)


@lru_cache(maxsize=8)
def _roots(*folders: str) -> re.Pattern[str]:
    sorted_ones = sorted({one for one in folders if len(one) > 1}, key=len, reverse=True)
    return re.compile(f"(?P<root>{'|'.join(map(re.escape, sorted_ones))})(?=[/'\"\\s]|$){_REST}")


def _last_name(match: re.Match[str]) -> str:
    return Path(match["root"] + match["rest"]).name
