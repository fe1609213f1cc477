"""Answers as files: the bytes that the command prints, named and typed."""

import pytest
from click.testing import CliRunner

from advisor.answers.reporting.formats import FORMATS
from advisor.cli.recommend import recommend as command
from advisor.cli.report import report as report_command
from advisor.render.export import EVERY_FORMAT as EXPORTS
from advisor.render.export import OF_SERVERS

QUESTION = {"task": "inference", "model": "googlenet", "target_throughput": 500}
FLAGS = ["--task=inference", "--model=googlenet", "--target-throughput=500"]
SERVING = {"task": "generation", "model": "meta-llama/Llama-3.1-8B", "users": 8, "allow_extrapolation": True}
SERVING_FLAGS = ["--task=generation", f"--model={SERVING['model']}", "--users=8", "--allow-extrapolation"]
OF_NETWORKS = [name for name, form in FORMATS.items() if not form.report and name not in OF_SERVERS]
OF_SERVING = ("json", "csv", "md", *OF_SERVERS, "skypilot", "terraform")


@pytest.mark.parametrize(
    ("form", "question", "flags", "name"),
    [
        *((form, QUESTION, FLAGS, "googlenet-inference") for form in OF_NETWORKS),
        *((form, SERVING, SERVING_FLAGS, "") for form in OF_SERVING),
    ],
)
def test_each_format_is_what_the_command_prints(service, form, question, flags, name):
    answer = service.post(f"/v1/reports/{form}", json=question)
    flag = f"--export={form}" if form in EXPORTS else f"--output={form}"
    assert answer.text == CliRunner().invoke(command, [*flags, flag]).stdout
    kind = FORMATS[form]
    assert answer.headers["content-type"] == kind.media_type
    disposition = answer.headers["content-disposition"]
    assert disposition.startswith(f'attachment; filename="{name}')
    assert disposition.endswith(f'.{kind.extension}"')
    assert service.get(f"/v1/reports/{form}", params=question).text == answer.text


def test_the_formats_are_listed_others_not_found_and_nothing_is_exported_without_an_offer(service):
    listed = service.get("/v1/reports").json()["formats"]
    assert [form["format"] for form in listed] == list(FORMATS)
    assert service.get("/v1/reports/docx", params=QUESTION).status_code == 404
    answer = service.get("/v1/reports/terraform", params={**QUESTION, "target_throughput": 5e9})
    assert answer.status_code == 422
    assert answer.json()["type"].endswith("no-offer")
    assert service.get("/v1/reports/json", params={**QUESTION, "target_throughput": 5e9}).is_success


LOOKS = {"language": "zh-CN", "as_of": "2026-11-22"}


WRITTEN = [(form, QUESTION, FLAGS) for form in ("html", "report-md", "report-csv", "report-json")]


@pytest.mark.parametrize(("form", "question", "flags"), [*WRITTEN, ("html", SERVING, SERVING_FLAGS)])
def test_a_report_is_what_the_command_writes(service, form, question, flags):
    answer = service.get(f"/v1/reports/{form}", params=question | LOOKS)
    assert answer.is_success, answer.text
    name = form.removeprefix("report-")
    said = [*flags, "--date=2026-11-22", f"--format={name}", "--language=zh-CN"]
    done = CliRunner().invoke(report_command, said)
    assert (answer.text, done.exit_code) == (done.stdout, 0)
    posted = service.post(f"/v1/reports/{form}", params=LOOKS, json=question)
    assert posted.content == answer.content


def test_a_pdf_comes_whole_and_typed(service, pango):
    answer = service.get("/v1/reports/pdf", params=QUESTION | {"as_of": "2026-11-22"})
    assert answer.headers["content-type"] == "application/pdf"
    assert answer.headers["content-disposition"].endswith('"googlenet-inference.pdf"')
    assert answer.content.startswith(b"%PDF-")
    assert answer.content.rstrip().endswith(b"%%EOF")


@pytest.mark.parametrize(
    ("looks", "field"), [({"language": "tlh"}, "language"), ({"as_of": "yesterday"}, "as_of")]
)
def test_a_report_that_cannot_look_like_this_is_refused(service, looks, field):
    answer = service.get("/v1/reports/html", params=QUESTION | looks)
    assert answer.status_code == 422
    assert answer.json()["field"] == field
