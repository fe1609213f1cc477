"""The PDF: full pages, bookmarks, fonts inside; or one line that says why there is none."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pypdf
import pypdfium2
import pytest
from PIL import ImageFile

from advisor.errors import UsageError
from advisor.render import html as page_module
from advisor.render.formats import report_html, report_pdf
from advisor.render.i18n.catalogue import LANGUAGES
from tests.advisor.render.sizing.reports import golden_report


def _short(document):
    """Two workloads of five: a page costs 0.2 s."""
    return {**document, "workloads": document["workloads"][:2]}


@pytest.fixture(scope="module")
def made(pango):
    return report_pdf(_short(golden_report()), "zh-CN")


def _titles(outline):
    for item in outline:
        if isinstance(item, list):
            yield from _titles(item)
        else:
            yield item.title


@pytest.mark.smoke
@pytest.mark.usefixtures("pango")
def test_bookmarks_lead_to_every_workload(made):
    reader = pypdf.PdfReader(io.BytesIO(made))
    names = {section["name"] for section in _short(golden_report())["workloads"]}
    assert names <= set(_titles(reader.outline))
    assert "费用" in "".join(page.extract_text() for page in reader.pages)
    assert reader.trailer["/Root"]["/MarkInfo"]["/Marked"]
    assert reader.trailer["/Root"]["/Lang"] == "zh-CN"


def _python(code, **environment):
    """A process of Python that ran the code."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env={**os.environ, **environment}
    )


@pytest.mark.usefixtures("pango")
@pytest.mark.slow
def test_another_process_makes_the_same_bytes(made):
    code = (
        "import sys; from tests.advisor.render.sizing import test_pdf as t;"
        "sys.stdout.buffer.write(t.report_pdf(t._short(t.golden_report()), 'zh-CN'))"
    )
    assert _python(code, PYTHONHASHSEED="7").stdout == made


def _in_a_world_without(fonts, tmp_path, text):
    """What is said of `text` where only the fonts of a folder are installed."""
    config = tmp_path / "fonts.conf"
    config.write_text(
        '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>'
        f"<dir>{fonts}</dir><cachedir>{tmp_path}/cache</cachedir></fontconfig>"
    )
    code = f"from advisor.render.html import require_fonts; require_fonts({text!r})"
    return _python(code, FONTCONFIG_FILE=str(config)).stderr.decode()


@pytest.mark.usefixtures("pango")
def test_who_sets_a_page_still_refuses_images_that_are_cut_off():
    assert page_module._weasyprint()
    assert not ImageFile.LOAD_TRUNCATED_IMAGES


@pytest.mark.usefixtures("pango")
def test_a_missing_font_is_told_before_anything_is_drawn(tmp_path):
    """Pango would end the process, or draw boxes."""
    latin = "/usr/share/fonts/truetype/dejavu"
    if not Path(latin).exists():
        pytest.skip("no DejaVu fonts here (fonts-dejavu-core)")
    assert "no fonts are installed" in _in_a_world_without(tmp_path / "none", tmp_path, "a")
    chinese = _in_a_world_without(latin, tmp_path, "a 中文")
    assert "no installed font has 中文" in chinese
    assert "fonts-wqy-microhei" in chinese
    assert _in_a_world_without(latin, tmp_path, "abc 0,9 🎉") == ""


@pytest.mark.parametrize(
    ("error", "way_out"), [(OSError("cannot load library 'libpango-1.0-0'"), "apt-get install libpango")]
)
def test_what_is_missing_is_told_in_one_line(monkeypatch, capsys, error, way_out):
    class Finder:
        @staticmethod
        def find_spec(name, *_):
            if name == "weasyprint":
                sys.stdout.write("many words of its own")
                raise error

    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    monkeypatch.delitem(sys.modules, "weasyprint", raising=False)
    with pytest.raises(UsageError) as raised:
        report_pdf(golden_report(), "en")
    assert way_out in str(raised.value.hint)
    assert "\n" not in str(raised.value)
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("pango")
def test_every_page_has_something_on_it(made):
    """Drawn as a reader's program would, in grey: some ink, and never a page full of it."""
    with pypdfium2.PdfDocument(made) as document:
        assert len(document) > 4
        for page in document:
            grey = page.render(scale=0.4, grayscale=True).to_numpy()
            ink = float((grey < 200).mean())
            assert 0.002 < ink < 0.4
            assert grey[:, :10].min() > 200, "something runs over the left margin"
            assert grey[:, -10:].min() > 200, "something runs over the right margin"


def _within(box, kind):
    for child in getattr(box, "children", ()):
        if type(child).__name__ == kind:
            yield child
        yield from _within(child, kind)


@pytest.mark.usefixtures("pango")
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_text_is_broken_in_a_column_narrower_than_four_em(language):
    page = report_html(_short(golden_report()), language)
    pages = page_module._weasyprint().HTML(string=page).render().pages
    cells = [cell for page in pages for cell in _within(page._page_box, "TableCellBox")]
    assert len(cells) > 300
    broken = [cell for cell in cells if len(list(_within(cell, "LineBox"))) > 1]
    assert broken
    assert [cell for cell in broken if cell.width < 4 * cell.style["font_size"]] == []
