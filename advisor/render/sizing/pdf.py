"""A report as PDF: its HTML, set by WeasyPrint, with bookmarks and alternative texts."""

from __future__ import annotations

import contextlib
import html
import io
import logging
import re
import warnings
from collections.abc import Mapping
from typing import Any

from advisor.errors import UsageError
from advisor.render.sizing.fonts import require_fonts
from advisor.render.sizing.html import MISSING, report_html

_NOT_TEXT = re.compile(r"<style>.*?</style>|<img[^>]*>|<[^>]*>", re.DOTALL)


def report_pdf(document: Mapping[str, Any], language: str) -> bytes:
    """The whole file; the same bytes for the same document, fonts and versions.

    Raises `UsageError` with the way out where WeasyPrint, Pango or a font is missing.
    """
    setter = _weasyprint()
    page = report_html(document, language)
    require_fonts(html.unescape(_NOT_TEXT.sub(" ", page)))
    fetcher = setter.urls.URLFetcher(allowed_protocols={"data"})
    made = setter.HTML(string=page, url_fetcher=fetcher).write_pdf(pdf_variant="pdf/ua-1")
    return bytes(made)


def _weasyprint() -> Any:
    # It tells of style sheets' rules for screens, which are none of its business.
    logging.getLogger("weasyprint").setLevel(logging.ERROR)
    try:
        # It prints where Pango is missing, and warns where no font is; both are told in one line.
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from PIL import ImageFile

            # Importing it lets Pillow take images that are cut off, for the whole process.
            whole_only = ImageFile.LOAD_TRUNCATED_IMAGES
            import weasyprint

            ImageFile.LOAD_TRUNCATED_IMAGES = whole_only
    except ModuleNotFoundError as error:
        raise UsageError(MISSING.format(format="PDF")) from error
    except OSError as error:
        raise UsageError(
            "PDF reports need Pango: apt-get install libpango-1.0-0 libpangoft2-1.0-0 "
            "libharfbuzz-subset0 (brew install pango), or take the html format"
        ) from error
    return weasyprint
