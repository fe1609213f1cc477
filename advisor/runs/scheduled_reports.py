"""The report after a scheduled run: made from the schedule's plan, compared with the last one, and sent.

A separate process does it (`advisor schedule report NUMBER`), so that a failure cannot change how the run
ended. The last report of a schedule is kept on this machine, in the folder of its logs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from advisor.answers.reporting.saved import Input, read_saved
from advisor.errors import AdvisorError, UsageError, one_line
from advisor.files import state_folder, write_whole
from advisor.render.diff import difference
from advisor.render.diff_text import difference_markdown, headline
from advisor.render.formats import report_format
from advisor.runs.delivery.letter import Attachment, Letter, attachment, difference_message, report_message
from advisor.runs.delivery.sending import Outbox, deliver_to
from advisor.runs.processes import ADVISOR, answer_of, command_process, failure
from advisor.store.records import Reporting, Run, Schedule

# A plan of fifty workloads takes 20 s; a machine may be busy, and targets slow.
_LONGEST_SECONDS = 3600.0
_LANGUAGE = "en"
_LAST = "last-report.json"

Say = Callable[[str], None]
# Makes `advisor.report/1` from the path of a plan.
DocumentOf = Callable[[str], dict[str, Any]]


def report_in_process(run: Run, failed: str, log: Path) -> dict[str, Any]:
    """The run's `sizing_report`, made in a child process; `failed` is why the run failed, or empty."""
    command = [*ADVISOR, "schedule", "report", str(run.number), "--failed", failed]
    own_log = log.with_suffix(".sending.log")
    try:
        with command_process(command, str(log.parent), own_log) as process:
            code = process.wait(_LONGEST_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        return report_lost(str(error))
    document = answer_of(own_log) or {}
    if code == 0 and "deliveries" in document:
        return document
    return report_lost(failure(code, own_log))


def report_lost(why: str) -> dict[str, Any]:
    """The `sizing_report` entry of a report that could not be made."""
    return {"headline": None, "changed": None, "deliveries": [], "error": one_line(why)}


def report_after(schedule: Schedule, document_of: DocumentOf, say: Say, failed: str = "") -> dict[str, Any]:
    """Make the report, send it or the changes, and return the run's `sizing_report`. `failed` (why the run
    failed) begins the message. Bad plans and targets raise nothing: the errors are in the result."""
    if schedule.reporting is None:
        raise UsageError("schedule '{name}' has no --report", name=schedule.name)
    folder = state_folder() / "schedules" / f"{schedule.name}-{schedule.number}"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        # Read the JSON back, since the next comparison reads it too: what is sent is what is compared.
        content = report_format("json").content(document_of(schedule.reporting.plan), _LANGUAGE)
        document = read_saved(Input(_LAST, content))
        kind = report_format(schedule.reporting.format)
        file = attachment(f"report-{document['as_of']}", kind, kind.content(document, _LANGUAGE))
    except (AdvisorError, OSError) as error:
        say(str(error))
        return report_lost(str(error))
    before = None
    # There may be no last report, or one that this version cannot read.
    with suppress(OSError, UsageError):
        before = read_saved(Input(_LAST, (folder / _LAST).read_bytes()))
    changes = None if before is None else difference(before, document)
    deliveries: list[dict[str, Any]] = []
    if changes is None or changes["changed"] or failed or not schedule.reporting.only_changes:
        message = _message(document, file, changes)
        if failed:
            reason = one_line(f"The run of schedule '{schedule.name}' failed: {failed}")
            message = replace(message, text=f"{reason}\n\n{message.text}")
        deliveries = _deliveries(message, schedule.reporting, say)
    write_whole(folder / _LAST, content)
    return {
        "headline": headline(changes) if changes else None,
        "changed": changes["changed"] if changes else None,
        "deliveries": deliveries,
        "error": None,
    }


def _message(document: Mapping[str, Any], file: Attachment, changes: Mapping[str, Any] | None) -> Letter:
    """The changes with the report attached; without an earlier report, the report alone."""
    if changes is None:
        return report_message(document, file)
    name = f"report-diff-{document['as_of']}"
    text, as_json = difference_markdown(changes), json.dumps(changes, indent=1, ensure_ascii=False)
    as_text = Attachment(f"{name}.md", "text/markdown; charset=utf-8", text.encode())
    as_file = Attachment(f"{name}.json", "application/json", as_json.encode())
    return difference_message(changes, [file, as_text, as_file])


def _deliveries(message: Letter, reporting: Reporting, say: Say) -> list[dict[str, Any]]:
    """Send to each target and return the results; after a passing failure the daemon sends again later."""
    documents = []
    for target in reporting.send:
        delivery = deliver_to(message, target, say=say)
        state = "arrived" if delivery.arrived else "failed"
        if delivery.transient:
            Outbox().keep(message, target)
            state = "kept"
        sent = {"target": delivery.label, "state": state, "attempts": delivery.attempts}
        documents.append({**sent, "error": delivery.error or None})
    return documents
