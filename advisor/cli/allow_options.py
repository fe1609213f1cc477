"""Options of `advisor serve` on what clients may name beyond the words of the advisor itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from advisor.domain.references import is_own
from advisor.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., Any])
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def allow_options(command: Command) -> Command:
    """Add the options to a command; it receives them as `allow_data` and `allow_code`."""
    data = click.option(
        "--allow-data", multiple=True, metavar="NAME=PATH",
        help="Data set that sweeps may read, under the name that clients use. Repeatable.",
    )  # fmt: skip
    code = click.option(
        "--allow-code", multiple=True, metavar="NAME=FILE.py:BUILD",
        help="Network file that clients may have measured, under a name. Repeatable.",
    )  # fmt: skip
    return data(code(command))


def allowed_settings(allow_data: tuple[str, ...], allow_code: tuple[str, ...]) -> dict[str, Any]:
    """The options as `Settings` takes them; `UsageError` for what is not there, or no data set."""
    return {
        "allowed_data": dict(_data(text) for text in allow_data),
        "allowed_code": dict(_code(text) for text in allow_code),
    }


def _data(text: str) -> tuple[str, str]:
    from sweeps.datasets.opening import profile_folder

    name, path = _named(text, "--allow-data", "photos=/data/photos")
    folder = Path(path).absolute()
    profile_folder(folder)  # refuses what holds no samples
    return name, str(folder)


def _code(text: str) -> tuple[str, str]:
    name, reference = _named(text, "--allow-code", "mynet=/nets/mynet.py:build")
    file = Path(reference.rpartition(":")[0] or reference).absolute()
    if not is_own(reference) or not file.is_file():
        raise UsageError(f"--allow-code {text}: there is no file {file}; write FILE.py:FUNCTION")
    return name, str(Path(reference).absolute())


def _named(text: str, flag: str, example: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (equals and value and _NAME.fullmatch(name)):
        raise UsageError(f"{flag} takes a name and what it stands for, as {example}, not '{text}'")
    return name, value
