"""Answers as files: the bytes that the command prints, named and typed."""

import time

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from advisor.answers.reporting.formats import FORMATS
from advisor.cli.recommend import recommend as command
from advisor.cli.report import report as report_command
from advisor.render.exporting import COMPOSE
from advisor.render.exporting import FORMATS as EXPORTS
from advisor.service.app import create_app
from advisor.service.settings import Settings

QUESTION = {"task": "inference", "model": "googlenet", "target_throughput": 500}
FLAGS = ["--task=inference", "--model=googlenet", "--target-throughput=500"]


@pytest.fixture(scope="module")
def client():
    with TestClient(create_app(Settings(rate_limit=0.0)), base_url="http://localhost") as client:
        while client.get("/readyz").status_code != 200:
            time.sleep(0.05)
        yield client


OF_NETWORKS = [name for name, one in FORMATS.items() if not one.report and name != COMPOSE]


@pytest.mark.parametrize("form", OF_NETWORKS)
def test_each_format_is_what_the_command_prints(client, form):
    answer = client.get(f"/v1/reports/{form}", params=QUESTION)
    flag = f"--export={form}" if form in EXPORTS else f"--output={form}"
    assert answer.text == CliRunner().invoke(command, [*FLAGS, flag]).stdout
    kind = FORMATS[form]
    assert answer.headers["content-type"] == kind.media_type
    disposition = answer.headers["content-disposition"]
    assert disposition.startswith('attachment; filename="googlenet-inference')
    assert disposition.endswith(f'.{kind.extension}"')
    assert client.post(f"/v1/reports/{form}", json=QUESTION).text == answer.text


def test_the_formats_are_listed_and_others_are_not_found(client):
    listed = client.get("/v1/reports").json()["formats"]
    assert [one["format"] for one in listed] == list(FORMATS)
    assert client.get("/v1/reports/docx", params=QUESTION).status_code == 404


def _reported(*flags):
    """The bytes of the command's report."""
    said = [*FLAGS[:2], "--target-throughput=500", "--date=2026-11-22", *flags]
    done = CliRunner().invoke(report_command, said)
    assert done.exit_code == 0, done.output
    return done.stdout_bytes


LOOKS = {"language": "zh-CN", "as_of": "2026-11-22"}


@pytest.mark.parametrize("form", ["html", "report-md", "report-csv", "report-json"])
def test_a_report_is_what_the_command_writes(client, form):
    answer = client.get(f"/v1/reports/{form}", params=QUESTION | LOOKS)
    assert answer.is_success, answer.text
    name = form.removeprefix("report-")
    wanted = _reported(f"--format={name}", "--language=zh-CN").decode()
    assert answer.text == wanted
    posted = client.post(f"/v1/reports/{form}", params=LOOKS, json=QUESTION)
    assert posted.content == answer.content


def test_a_pdf_comes_whole_and_typed(client, pango):
    answer = client.get("/v1/reports/pdf", params=QUESTION | {"as_of": "2026-11-22"})
    assert answer.headers["content-type"] == "application/pdf"
    assert answer.headers["content-disposition"].endswith('"googlenet-inference.pdf"')
    assert answer.content.startswith(b"%PDF-")
    assert answer.content.rstrip().endswith(b"%%EOF")


@pytest.mark.parametrize(
    ("looks", "field"), [({"language": "tlh"}, "language"), ({"as_of": "yesterday"}, "as_of")]
)
def test_a_report_that_cannot_look_like_this_is_refused(client, looks, field):
    answer = client.get("/v1/reports/html", params=QUESTION | looks)
    assert answer.status_code == 422
    assert answer.json()["field"] == field


def test_other_files_have_no_language(client):
    answer = client.get("/v1/reports/csv", params=QUESTION | {"language": "en"})
    assert answer.status_code == 422


def test_nothing_is_exported_where_no_offer_meets_the_target(client):
    answer = client.get("/v1/reports/terraform", params={**QUESTION, "target_throughput": 5e9})
    assert answer.status_code == 422
    assert answer.json()["type"].endswith("no-offer")
    assert client.get("/v1/reports/json", params={**QUESTION, "target_throughput": 5e9}).is_success


def test_a_file_is_named_by_letters_alone(client):
    answer = client.get("/v1/reports/csv", params={**QUESTION, "model": 'x"\r\n/../y'})
    assert answer.status_code == 422
