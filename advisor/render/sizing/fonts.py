"""Whether a font is installed for every letter of a text: a PDF carries its fonts with it.

Without any font, Pango ends the process; without one for a script, it draws empty boxes. Fontconfig
is asked beforehand, by the same library that Pango asks.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import unicodedata
from collections.abc import Iterable
from typing import Any

from advisor.errors import UsageError

_SHOWN = 6


def require_fonts(text: str) -> None:
    """Raise `UsageError` where no installed font has some letter of `text`.

    Signs that are no letters (emoji, dingbats) may be drawn as a box: nothing is misread.
    """
    letters = sorted({one for one in text if unicodedata.category(one)[0] in "LN"})
    missing = _without_font(letters)
    if not missing:
        return
    if "a" in missing or "0" in missing:
        raise UsageError(f"PDF: no fonts are installed; {_way_out('fonts-dejavu-core')}")
    some = "".join(missing[:_SHOWN])
    raise UsageError(f"PDF: no installed font has {some}; {_way_out('fonts-wqy-microhei')}")


def _way_out(package: str) -> str:
    return f"install one (apt-get install {package}), or take the html format"


def _without_font(letters: Iterable[str]) -> list[str]:
    library = _fontconfig()
    if library is None:
        return []
    library.FcInit()
    return [one for one in letters if not _fonts_with(library, ord(one))]


def _fontconfig() -> Any:
    """None where only Pango finds it (then Pango's word must do)."""
    name = ctypes.util.find_library("fontconfig")
    if name is None:
        return None
    library = ctypes.CDLL(name)
    pointer = ctypes.c_void_p
    for function, takes, gives in (
        ("FcPatternCreate", [], pointer),
        ("FcCharSetCreate", [], pointer),
        ("FcObjectSetCreate", [], pointer),
        ("FcCharSetAddChar", [pointer, ctypes.c_uint32], ctypes.c_int),
        ("FcPatternAddCharSet", [pointer, ctypes.c_char_p, pointer], ctypes.c_int),
        ("FcFontList", [pointer, pointer, pointer], ctypes.POINTER(ctypes.c_int)),
        ("FcFontSetDestroy", [ctypes.POINTER(ctypes.c_int)], None),
        ("FcCharSetDestroy", [pointer], None),
        ("FcPatternDestroy", [pointer], None),
        ("FcObjectSetDestroy", [pointer], None),
    ):
        called = getattr(library, function)
        called.argtypes, called.restype = takes, gives
    return library


def _fonts_with(library: Any, letter: int) -> int:
    """How many installed fonts have it."""
    pattern, letters = library.FcPatternCreate(), library.FcCharSetCreate()
    wanted = library.FcObjectSetCreate()
    library.FcCharSetAddChar(letters, letter)
    library.FcPatternAddCharSet(pattern, b"charset", letters)
    found = library.FcFontList(None, pattern, wanted)
    count = int(found[0]) if found else 0  # nfont is the first field of FcFontSet
    library.FcFontSetDestroy(found)
    library.FcObjectSetDestroy(wanted)
    library.FcCharSetDestroy(letters)
    library.FcPatternDestroy(pattern)
    return count
