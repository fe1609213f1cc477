"""What stands behind `--send`, as a target."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping

from advisor.errors import UsageError
from advisor.runs.delivery.bucket import bucket_target
from advisor.runs.delivery.folder import file_target
from advisor.runs.delivery.mail import mail_target
from advisor.runs.delivery.parcel import Target
from advisor.runs.delivery.webhook import hook_target

KINDS = (
    "file:PATH, s3://BUCKET/KEY, https://.., smtp://HOST:PORT?to=ADDRESS, or env:NAME for a "
    "variable that holds one of these"
)
_MAKERS: Mapping[str, Callable[[str], Target]] = {
    "file": file_target,
    "s3": bucket_target,
    "https": hook_target,
    "http": hook_target,
    "smtp": mail_target,
    "smtps": mail_target,
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


def parse_target(text: str) -> Target:
    """The target of these words; `UsageError` says how they are written."""
    kind, colon, rest = text.strip().partition(":")
    if kind == "env" and colon:
        return _of_variable(rest)
    return _plain(text.strip())


def checked_words(texts: Iterable[str]) -> tuple[str, ...]:
    """The words of targets that another machine may send to: their shape is checked, and not what
    that machine has to have (variables, folders)."""
    words = tuple(text.strip() for text in texts)
    for word in words:
        kind, _, rest = word.partition(":")
        if kind == "env":
            _checked_name(rest)
        else:
            _plain(word)
    return words


def target_label(text: str) -> str:
    """What is shown of a target's words: nothing that may be a secret."""
    if text.startswith("env:"):
        return text
    try:
        return _plain(text).label
    except UsageError:
        return text.partition(":")[0] + ":.."


def _plain(text: str) -> Target:
    kind, colon, _ = text.partition(":")
    maker = _MAKERS.get(kind.casefold())
    if not colon or maker is None:
        raise UsageError(f"--send takes {KINDS}, not '{_shown(text)}'")
    try:
        return maker(text)
    except ValueError as error:
        raise UsageError(f"--send '{kind}:..' cannot be read ({error}); it takes {KINDS}") from None


def _of_variable(name: str) -> Target:
    _checked_name(name)
    text = os.environ.get(name, "").strip()
    if not text:
        raise UsageError(f"--send env:{name}: the variable {name} is not set")
    return _plain(text)


def _checked_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError("--send env:NAME takes the name of an environment variable")


def _shown(text: str) -> str:
    """Words that may be a mistyped secret are not repeated as a whole."""
    return text if len(text) <= 20 and "@" not in text else f"{text[:8]}.."
