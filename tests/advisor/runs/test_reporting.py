"""The report after a scheduled run: what changed, where it went, and that it breaks nothing."""

import json
import subprocess

import pytest

from advisor.errors import UsageError
from advisor.runs.jobs import execute
from advisor.runs.processes import ADVISOR
from advisor.runs.scheduled_reports import report_after
from advisor.store.records import Reporting, RunState
from tests.advisor.render.sizing.reports import golden_report
from tests.advisor.runs.delivery.servers import hook
from tests.advisor.runs.test_executing import running
from tests.advisor.store.schedules import due_run, schedule


def added(book, folder, send=(), **changes):
    """A run that is due, of a schedule that reports."""
    reporting = Reporting(plan="plan.yaml", send=tuple(send), **{"format": "md", **changes})
    return due_run(book, schedule(command=("fit",), folder=str(folder), reporting=reporting))


@pytest.fixture
def reports():
    """What reports on the plan are, one after another."""
    return []


def made_from(reports):
    def document_of(_plan):
        document = reports.pop(0)
        if isinstance(document, UsageError):
            raise document
        return document

    return document_of


def cheaper():
    new = golden_report()
    new["as_of"] = "2026-12-22"
    new["workloads"][0]["recommendation"]["recommendation"]["price"]["total_usd_per_hour"] *= 0.5
    return new


def test_the_first_report_is_sent_whole_and_the_next_one_as_what_changed(book, tmp_path, reports):
    reports += [golden_report(), cheaper()]
    with hook() as server:
        kept, _ = added(book, tmp_path, [server.url, f"file:{tmp_path}/"])
        first = report_after(kept, made_from(reports), print)
        second = report_after(kept, made_from(reports), print)
    assert first["headline"] is None
    assert [delivery["state"] for delivery in first["deliveries"]] == ["arrived", "arrived"]
    assert second["changed"] is True
    messages = [json.loads(body) for _, _, body in server.got]
    assert [message["kind"] for message in messages] == ["report", "report-diff"]
    assert "became 50 % cheaper" in messages[1]["text"]
    names = {file.name for file in tmp_path.iterdir() if file.name.startswith("report")}
    assert names == {
        "report-2026-11-22.md",
        "report-2026-12-22.md",
        "report-diff-2026-12-22.md",
        "report-diff-2026-12-22.json",
    }


def test_where_nothing_changed_nobody_is_bothered_if_so_asked(book, tmp_path, reports):
    reports += [golden_report(), golden_report(), golden_report()]
    with hook() as server:
        kept, _ = added(book, tmp_path, [server.url], only_changes=True)
        for _ in range(2):
            result = report_after(kept, made_from(reports), print)
        assert (result["changed"], result["deliveries"]) == (False, [])
        assert len(server.got) == 1
        result = report_after(kept, made_from(reports), print, failed="exit code 1: no disk")
    assert "The run of schedule 'weekly' failed: exit code 1: no disk" in json.loads(server.got[1][2])["text"]


def test_what_reached_nobody_is_sent_with_the_next_report(book, tmp_path, reports, monkeypatch):
    """A mail server that is away for an hour hides no change of prices."""
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    reports += [golden_report(), cheaper(), cheaper()]
    with hook([(200, {}, b""), *[(503, {}, b"")] * 8]) as server:
        kept, _ = added(book, tmp_path, [server.url], only_changes=True)
        states = [
            [sent["state"] for sent in report_after(kept, made_from(reports), print)["deliveries"]]
            for _ in range(3)
        ]
    assert states == [["arrived"], ["failed"], ["arrived"]]
    assert "became 50 % cheaper" in json.loads(server.got[-1][2])["text"]


def test_a_target_that_is_away_is_told(book, tmp_path, reports, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    reports += [golden_report()]
    with hook([(503, {}, b"")] * 9) as server:
        kept, _ = added(book, tmp_path, [server.url, "env:NOT_HERE"])
        result = report_after(kept, made_from(reports), lambda _line: None)
    assert [delivery["state"] for delivery in result["deliveries"]] == ["failed", "failed"]
    assert "NOT_HERE is not set" in result["deliveries"][1]["error"]
    assert [delivery["attempts"] for delivery in result["deliveries"]] == [8, 0]


def test_a_plan_that_went_bad_is_told(book, tmp_path, reports):
    reports += [UsageError("plan.yaml, line 3: unknown network 'alexnt'; did you mean alexnet?")]
    kept, _ = added(book, tmp_path, ["https://example.com/hook"])
    result = report_after(kept, made_from(reports), print)
    assert result["error"].startswith("plan.yaml, line 3")


def test_whatever_becomes_of_the_report_the_run_has_ended_as_it_has(book, tmp_path):
    """Even a defect in the report is told, and changes nothing else."""
    _, run = added(book, tmp_path, ["https://example.com/hook"])

    def report(kept, failed):
        return report_after(kept, lambda _plan: 1 / 0, lambda _line: None, failed)

    execute(book, run.number, follow=lambda _run: {}, report=report, started=running("print('{}')"))
    ended = book.runs.numbered(run.number)
    assert ended.state is RunState.DONE
    assert ended.report["sizing_report"]["error"] == "division by zero"


@pytest.mark.machine
@pytest.mark.slow
def test_a_real_run_reports(book, tmp_path, monkeypatch):
    """`advisor fit` fails where nothing was measured; the report is made and sent all the same."""
    (tmp_path / "plan.yaml").write_text(
        "workloads:\n- {task: inference, model: googlenet, target_throughput: 500}\n"
    )
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{tmp_path}/schedules.sqlite")
    with hook() as server:
        _, run = added(book, tmp_path, [server.url])
        subprocess.run([*ADVISOR, "schedule", "execute", str(run.number)], check=True)
    result = book.runs.numbered(run.number)
    assert result.state is RunState.FAILED
    answer = result.report["sizing_report"]
    assert (answer["error"], answer["deliveries"][0]["state"]) == (None, "arrived")
    message = json.loads(server.got[0][2])
    assert message["text"].startswith("The run of schedule 'weekly' failed: ")
    assert message["document"]["totals"]["answered"] == 1
