"""`advisor report diff` and `--send` as a user types them."""

import copy
import io
import json
import sys
from pathlib import Path

import pytest

from tests.advisor.render.sizing.reports import golden_report
from tests.advisor.runs.delivery.servers import hook, postbox

DIFF = ("report", "diff")
BROKEN = (
    "",
    "[]",
    "{}",
    '{"schema": "advisor.report/1"}',
    '{"schema": "advisor.report/9"}',
    "[" * 100_000,
    "NaN",
)


@pytest.fixture
def saved(tmp_path):
    """October's and November's report."""
    old = golden_report()
    new = copy.deepcopy(old)
    new["workloads"][0]["recommendation"]["recommendation"]["price"]["total_usd_per_hour"] *= 0.5
    new["as_of"] = "2026-12-22"
    for name, item in (("old", old), ("new", new)):
        (tmp_path / f"{name}.json").write_text(json.dumps(item))
    return str(tmp_path / "old.json"), str(tmp_path / "new.json")


def test_differences_end_with_0_unless_the_code_is_asked_for(ask, saved, shown):
    """As git diff."""
    old, new = saved
    assert "became 50 % cheaper" in shown(*DIFF, old, new)
    assert ask(*DIFF, old, new, "--exit-code")[0] == 1
    assert ask(*DIFF, old, old, "--exit-code")[0] == 0


def test_an_error_is_never_taken_for_a_change(ask, saved, tmp_path):
    """1 means changed: a file that cannot be read, or an --out that cannot be written, is 2 or
    128."""
    old, new = saved
    assert ask(*DIFF, old, str(tmp_path / "none.json"), "--exit-code")[0] == 2
    out = str(tmp_path / "no" / "folder" / "out.txt")
    assert ask(*DIFF, old, new, "--exit-code", "--out", out)[0] in (2, 128)


def test_the_formats_tell_the_same(saved, shown, tmp_path):
    old, new = saved
    assert json.loads(shown(*DIFF, old, new, "-o", "json"))["changed"] is True
    assert shown(*DIFF, old, new, "-o", "md", "--out", tmp_path / "d.md") == ""
    assert (tmp_path / "d.md").read_text().startswith("# What changed from 2026-11-22")


def test_one_side_may_come_from_stdin(ask, saved, monkeypatch):
    old, new = saved
    content = Path(old).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert ask(*DIFF, "-", new)[0] == 0
    assert ask(*DIFF, "-", "-")[0] == 2


@pytest.mark.parametrize("content", BROKEN)
def test_what_is_no_report_is_refused_in_one_line(said, saved, content, tmp_path):
    broken = tmp_path / "broken.json"
    broken.write_text(content)
    err = said(*DIFF, saved[0], broken)
    assert err.count("\n") == 1
    assert "broken.json" in err


def test_a_difference_goes_to_a_webhook_and_by_mail(ask, saved):
    """Both at once; on a terminal only where it went is told."""
    with hook() as server, postbox() as box:
        to = f"smtp://127.0.0.1:{box.port}?to=team@example.com&from=advisor@example.com"
        code, out, err = ask(*DIFF, *saved, "--send", server.url, "--send", to)
    message = json.loads(server.got[0][2])
    assert (message["kind"], message["document"]["schema"]) == ("report-diff", "advisor.report-diff/1")
    assert "became 50 % cheaper" in message["text"]
    assert b"report-diff-2026-12-22.txt" in box.got[0][2]
    assert (code, out) == (0, "")
    assert f"sent to http://127.0.0.1:{server.server_port}/.." in err
    assert "secret-path" not in err


def test_a_report_is_sent_in_its_format_and_never_tells_the_target(shown, saved, tmp_path):
    """The command in the report leaves the target out: its address may be a secret."""
    with hook() as server:
        sends = ("--send", f"file:{tmp_path}/sent-{{date}}.xlsx", "--send", server.url)
        assert shown("report", "--from", saved[0], *sends) == ""
    assert (tmp_path / "sent-2026-11-22.xlsx").read_bytes().startswith(b"PK")
    assert b"secret-path" not in server.got[0][2]
    assert json.loads(server.got[0][2])["document"] == golden_report()


def test_a_question_that_is_sent_tells_no_target_either(shown, tmp_path, monkeypatch):
    location = tmp_path / "secret-place.json"
    question = ["--task", "inference", "--model", "googlenet", "--target-throughput", "500"]
    shown("report", *question, "--format", "json", f"--send=file:{location}")
    document = json.loads(location.read_text())
    assert "secret-place" not in json.dumps(document)


def test_a_delivery_that_fails_is_told_and_what_was_written_stays(said, saved, tmp_path):
    out = tmp_path / "report.md"
    with hook([(404, {}, b"no such hook")]) as server:
        err = said("report", "--from", saved[0], "--out", out, "--send", server.url, code=1)
    assert "answered 404: no such hook" in err
    assert out.exists()


@pytest.mark.parametrize("target", ["ftp://x/y", "https://a:swordfish@b.example", "env:NOT_SET"])
def test_a_target_that_cannot_be_is_refused_before_the_work(said, saved, target):
    err = said("report", "--from", "/no/such/file", "--send", target)
    assert "--send" in err
    assert "swordfish" not in err
