"""GPU names as people write them: 'RTX8000' and 'quadro rtx 8000' are one card."""

from __future__ import annotations

import re
from collections.abc import Iterable

from advisor.errors import UsageError, unknown_name

_BRANDS = re.compile(r"\b(nvidia|amd|tesla|quadro|geforce)\b")


def sheet_name(asked: str, known: Iterable[str]) -> str:
    """The one data sheet that is meant.

    Brands, blanks, hyphens and case do not matter. Where a card is sold with several memories or
    links, the shortest name alone is not enough: `UsageError` lists them; or the near names.
    """
    names = sorted(known)
    wanted = _plain(asked)
    exact = [name for name in names if _plain(name) == wanted]
    if exact:
        return exact[0]
    variants = [name for name in names if wanted and _plain(name.partition("-")[0]) == wanted]
    if len(variants) == 1:
        return variants[0]
    if variants:
        raise UsageError(f"'{asked}' is sold as {', '.join(variants)}; name one of them")
    raise unknown_name("GPU", asked, names)


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", _BRANDS.sub("", name.casefold()))
