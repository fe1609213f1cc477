"""The words of an address -> the words of a question.

The API's own forms read them, so that page, API and command line take and refuse the same. What a
page has besides (where a list goes on) is no word of the question, and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from advisor.service.forms.form import Form

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
