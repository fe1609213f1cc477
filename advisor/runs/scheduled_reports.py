"""The report after a scheduled run: made from the schedule's plan, compared with the last one, and sent.

The last report of a schedule that reached somebody is kept on this machine, in the folder of its logs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from advisor.answers.reporting.saved import Input, read_saved
from advisor.errors import UsageError, one_line
from advisor.files import state_folder, write_whole
from advisor.render.diff import difference
from advisor.render.diff_text import difference_markdown, headline
from advisor.render.formats import report_format
from advisor.runs.delivery.letter import Attachment, Letter, attachment, difference_message, report_message
from advisor.runs.delivery.targets import deliver_to
from advisor.store.records import Schedule

_LANGUAGE = "en"
_LAST = "last-report.json"
# Sendings to a target, with pauses of two minutes in all: nobody waits for a schedule.
_ATTEMPTS = 8

Say = Callable[[str], None]
# Makes `advisor.report/1` from the path of a plan.
DocumentOf = Callable[[str], dict[str, Any]]


def report_after(schedule: Schedule, document_of: DocumentOf, say: Say, failed: str = "") -> dict[str, Any]:
    """Make the report, send it or the changes, and return the run's `sizing_report`. `failed` (why the run
    failed) begins the message. Nothing is raised: the errors are in the result."""
    try:
        return _sent(schedule, document_of, say, failed)
    except Exception as error:  # a defect, too, must not change how the run ended
        say(str(error))
        return {"headline": None, "changed": None, "deliveries": [], "error": one_line(str(error))}


def _sent(schedule: Schedule, document_of: DocumentOf, say: Say, failed: str) -> dict[str, Any]:
    assert schedule.reporting is not None
    folder = state_folder() / "schedules" / f"{schedule.name}-{schedule.number}"
    folder.mkdir(parents=True, exist_ok=True)
    # Read the JSON back, since the next comparison reads it too: what is sent is what is compared.
    content = report_format("json").content(document_of(schedule.reporting.plan), _LANGUAGE)
    document = read_saved(Input(_LAST, content))
    kind = report_format(schedule.reporting.format)
    file = attachment(f"report-{document['as_of']}", kind, kind.content(document, _LANGUAGE))
    before = None
    # There may be no last report, or one that this version cannot read.
    with suppress(OSError, UsageError):
        before = read_saved(Input(_LAST, (folder / _LAST).read_bytes()))
    changes = None if before is None else difference(before, document)
    deliveries = []
    if changes is None or changes["changed"] or failed or not schedule.reporting.only_changes:
        message = _message(document, file, changes)
        if failed:
            reason = one_line(f"The run of schedule '{schedule.name}' failed: {failed}")
            message = replace(message, text=f"{reason}\n\n{message.text}")
        deliveries = [
            deliver_to(message, target, say=say, attempts=_ATTEMPTS) for target in schedule.reporting.send
        ]
    # What reached nobody is compared again next time, so that its changes are sent then.
    if not deliveries or any(sent.arrived for sent in deliveries):
        write_whole(folder / _LAST, content)
    return {
        "headline": headline(changes) if changes else None,
        "changed": changes["changed"] if changes else None,
        "deliveries": [
            {
                "target": sent.label,
                "state": "arrived" if sent.arrived else "failed",
                "attempts": sent.attempts,
                "error": sent.error or None,
            }
            for sent in deliveries
        ],
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
