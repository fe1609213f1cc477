"""Writes blocks as HTML, using templates shared with the service's page, and as PDF using WeasyPrint."""

from __future__ import annotations

import contextlib
import html
import io
import logging
import re
import shutil
import subprocess
import unicodedata
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.errors import UsageError
from advisor.messages import Message
from advisor.render.blocks import FILTERS, Column, Leaf, Look, Page, Part

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


_NOT_TEXT = re.compile(r"<style>.*?</style>|<img[^>]*>|<[^>]*>", re.DOTALL)


def pdf_of(page: str) -> bytes:
    """Return a page as PDF: the same bytes for the same page, fonts and versions. Raises `UsageError` with a
    hint if WeasyPrint, Pango or a font is missing."""
    weasyprint = _weasyprint()
    require_fonts(html.unescape(_NOT_TEXT.sub(" ", page)))
    fetcher = weasyprint.urls.URLFetcher(allowed_protocols={"data"})
    return bytes(weasyprint.HTML(string=page, url_fetcher=fetcher).write_pdf(pdf_variant="pdf/ua-1"))


def _weasyprint() -> Any:
    # It warns about CSS rules for screens, which do not matter on paper.
    logging.getLogger("weasyprint").setLevel(logging.ERROR)
    try:
        # It prints if Pango is missing and warns if no font is; both become one-line errors here.
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from PIL import ImageFile

            # Importing WeasyPrint makes Pillow accept truncated images in the whole process.
            whole_only = ImageFile.LOAD_TRUNCATED_IMAGES
            import weasyprint

            ImageFile.LOAD_TRUNCATED_IMAGES = whole_only
    except OSError as error:
        raise UsageError(
            "PDF reports need Pango",
            hint="apt-get install libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0 "
            "(brew install pango), or take the html format",
        ) from error
    return weasyprint


_SHOWN = 6


def require_fonts(text: str) -> None:
    """Raise `UsageError` if some letter or digit of `text` is in no installed font. Other characters (emoji,
    dingbats) may be drawn as a box, which cannot be misread."""
    letters = sorted({letter for letter in text if unicodedata.category(letter)[0] in "LN"})
    missing = _without_font(letters)
    if not missing:
        return
    hint = Message("install one (apt-get install {package}), or take the html format")
    if "a" in missing or "0" in missing:
        hint = Message(hint.text, package="fonts-dejavu-core")
        raise UsageError("PDF: no fonts are installed", hint=hint)
    raise UsageError(
        "PDF: no installed font has {letters}",
        letters="".join(missing[:_SHOWN]),
        hint=Message(hint.text, package="fonts-wqy-microhei"),
    )


def _without_font(letters: Sequence[str]) -> list[str]:
    """Return the letters that no font has, according to Fontconfig's `fc-list` (none if that is missing)."""
    program = shutil.which("fc-list")
    if program is None:
        return []
    listed = subprocess.run([program, "--format", "%{charset} "], capture_output=True, text=True, check=True)
    drawn: set[int] = set()
    for span in set(listed.stdout.split()):
        first, _, last = span.partition("-")
        drawn.update(range(int(first, 16), int(last or first, 16) + 1))
    return [letter for letter in letters if ord(letter) not in drawn]


TEMPLATES = Path(__file__).with_name("templates")
_CLASSES = {Look.NAME: "nowrap", Look.DAY: "nowrap", Look.LONG: "long"}


def page_html(page: Page, language: str) -> str:
    """Return a page as one self-contained HTML file."""
    style = (TEMPLATES / "report.css").read_text(encoding="utf-8")
    return environment().get_template("report.html").render(page=page, language=language, style=style)


def fragment_html(blocks: Sequence[Leaf | Part]) -> str:
    """Return blocks as HTML without a style, to embed in another page."""
    shared = environment().get_template("blocks.html").module
    return "".join(str(shared.block(block)) for block in blocks)  # type: ignore[attr-defined]


@cache
def environment(*folders: Path) -> Environment:
    """Return the templates of these folders and the shared ones; compiled once per process."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        auto_reload=False,
    )
    made.filters |= FILTERS
    made.filters |= {"cell": _cell, "look": _look, "kind": lambda block: type(block).__name__}
    return made


def _cell(record: Any, column: Column) -> Markup:
    from markupsafe import Markup, escape

    text = escape(column.text(record))
    if column.look is Look.LONG:
        text = text.replace(":", Markup(":<wbr>"))
    if column.link:
        text = Markup('<a href="{}">{}</a>').format(column.link(record), text)
    return text


def _look(column: Column) -> Markup:
    from markupsafe import Markup

    name = "number" if column.look.is_number else _CLASSES.get(column.look, "")
    return Markup(' class="{}"').format(name) if name else Markup("")
