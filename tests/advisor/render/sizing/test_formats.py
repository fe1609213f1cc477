"""One table of formats: what each is called, and that each takes the document alone."""

import copy
import json

import pytest

from advisor.errors import UsageError
from advisor.render.formats import REPORT_FORMATS, format_of_file, report_format
from tests.advisor.render.sizing.hostile import HOSTILE, renamed
from tests.advisor.render.sizing.reports import golden_report

TEXTS = ("md", "csv", "json")


def test_the_json_is_the_document():
    document = golden_report()
    assert json.loads(REPORT_FORMATS["json"].content(document)) == document


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("language", ["en", "zh-CN"])
def test_the_same_document_gives_the_same_bytes_and_stays_as_it_was(name, language):
    document = renamed(golden_report(), HOSTILE)
    before = copy.deepcopy(document)
    first = REPORT_FORMATS[name].content(document, language)
    assert REPORT_FORMATS[name].content(json.loads(json.dumps(before)), language) == first
    assert document == before


@pytest.mark.parametrize(("file", "name"), [("a.md", "md"), ("Team.CSV", "csv"), ("x.y.json", "json")])
def test_a_files_end_names_its_format(file, name):
    assert format_of_file(file) == name


@pytest.mark.parametrize("file", ["report", "report.docx", ".md", "report."])
def test_an_end_that_names_none_says_which_there_are(file):
    with pytest.raises(UsageError, match=r"--format.*\.md"):
        format_of_file(file)


def test_a_mistyped_format_gets_the_nearest():
    with pytest.raises(UsageError, match="did you mean json"):
        report_format("jsn")
