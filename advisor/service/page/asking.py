"""The words of an address -> the words of a question.

The API's own forms read them, so that page, API and command line take and refuse the same. What a
page has besides (where a list goes on) is no word of the question, and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from advisor.service.forms.form import Form
from advisor.service.problems import Problem

# Words of which an address may have several, divided by commas too.
_LISTS = ("instance",)


def read_form(form: Form, asked: Mapping[str, str]) -> dict[str, Any]:
    """Words as the answers take them; `Problem` for the first that cannot be read."""
    pairs = [
        (name, one)
        for name, text in asked.items()
        if name in form.words
        for one in (text.split(",") if _is_list(form, name) else [text])
        if one.strip()
    ]
    return form.from_query(urlencode(pairs).encode("ascii"))


def _is_list(form: Form, name: str) -> bool:
    """`compare` takes several instances, `predict` one."""
    return name in _LISTS and form.words[name].answer == "instances"


# What messages call a word that its own name is no part of.
_TOLD_AS = {
    "unknown network": "model",
    "no rates of": "model",
    "model names a file": "model",
    "unknown disk": "disk",
    "unknown GPU": "gpu",
    "no GPU is like": "gpu",
    "unknown region": "region",
    "unknown cloud": "cloud",
    "unknown market": "market",
    "unknown instance": "instance",
    "cannot run this": "instance",
    "capability": "gpu",
}


def field_of(error: Exception, asked: Mapping[str, str]) -> str | None:
    """Which field a message is about; None where it is about the question as a whole."""
    if isinstance(error, Problem) and error.more.get("field"):
        return str(error.more["field"])
    message = str(error)
    for start, name in _TOLD_AS.items():
        if start in message:
            return name
    named = [name for name in asked if f"--{name.replace('_', '-')}" in message]
    return named[0] if named else None
