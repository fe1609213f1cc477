"""GPU names as people write them: 'RTX8000' and 'quadro rtx 8000' are one card."""

from __future__ import annotations

import re
from collections.abc import Iterable

from advisor.errors import UsageError, unknown_name

_BRANDS = re.compile(r"\b(nvidia|amd|tesla|quadro|geforce)\b")


def sheet_names(asked: str, known: Iterable[str]) -> list[str]:
    """Every data sheet that is meant: 'A100' is each A100, 'A100-SXM4-80GB' one of them.

    Brands, blanks, hyphens and case do not matter. `UsageError` with the near names for others.
    """
    names = sorted(known)
    wanted = _plain(asked)
    exact = [name for name in names if _plain(name) == wanted]
    kinds = [name for name in names if wanted and _plain(name.partition("-")[0]) == wanted]
    if not (exact or kinds):
        raise unknown_name("GPU", asked, names)
    return exact or kinds


def sheet_name(asked: str, known: Iterable[str]) -> str:
    """The one data sheet that is meant; `UsageError` where several are, or none."""
    names = sheet_names(asked, known)
    if len(names) > 1:
        raise UsageError(f"'{asked}' is sold as {', '.join(names)}; name one of them")
    return names[0]


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", _BRANDS.sub("", name.casefold()))
