"""Posted forms of the page: their fields, or a `Problem`."""

from __future__ import annotations

from urllib.parse import parse_qs

from fastapi import Request

from advisor.service.problems import Problem

# More than any form of ours has.
_MOST_FIELDS = 30


async def posted_fields(request: Request) -> dict[str, str]:
    """The fields that say something, without the blanks around them; of one that is there twice
    the first. `Problem` 400 for a form that has too many."""
    body = (await request.body()).decode("utf-8", "replace")
    try:
        posted = parse_qs(body, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise Problem(400, "unreadable", f"a form has {_MOST_FIELDS} fields at most",
                      way_out="send the fields of the page's own form") from None  # fmt: skip
    return {name: values[0].strip() for name, values in posted.items() if values[0].strip()}
