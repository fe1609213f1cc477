"""Messages to deliver: a report, or its changes since the last one, with files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from advisor.errors import DeliveryError, one_line
from advisor.messages import format_usd
from advisor.render.diff_text import difference_text, headline
from advisor.render.document import plain
from advisor.render.facts import covers_clouds, place_name
from advisor.render.formats import ReportFormat
from advisor.render.i18n.catalogue import report_texts
from advisor.render.views.totals import totals_sentences

SCHEMA = "advisor.delivery/1"
REPORT, DIFFERENCE = "report", "report-diff"
# Characters of a title in the subject of a mail, or in the first line of a message.
_MOST_TITLE = 100


class Attachment(Struct, frozen=True):
    """A file of a message: name without folder, media type, content."""

    name: str
    media_type: str
    content: bytes


class Letter(Struct, frozen=True, kw_only=True):
    """A report, or the changes between two reports.

    `text` is for people, `document` for programs; `day` (YYYY-MM-DD) is the day of the document."""

    kind: str
    title: str
    text: str
    day: str
    document: Mapping[str, Any]
    files: tuple[Attachment, ...]

    @property
    def id(self) -> str:
        """Id made from the content, by which a receiver recognises a second copy."""
        seal = hashlib.sha256(json.dumps(self.body(""), sort_keys=True).encode())
        for file in self.files:
            seal.update(file.name.encode() + b"\0" + file.content)
        return f"advisor-{seal.hexdigest()[:32]}"

    def body(self, name: str) -> dict[str, Any]:
        """The document `advisor.delivery/1` that a webhook gets, with the id `name`."""
        return {
            "schema": SCHEMA,
            "id": name,
            "kind": self.kind,
            "title": self.title,
            "text": self.text,
            "document": dict(self.document),
        }

    def placed(self, template: str) -> dict[str, Attachment]:
        """Files by their target path or key. A template for a folder (it ends with a slash, or is empty)
        takes all files, another one the first file; `{date}` becomes the document's day."""
        place = template.replace("{date}", self.day)
        if place and not place.endswith("/"):
            return {place: self.files[0]}
        return {place + file.name: file for file in self.files}


class TransientDeliveryError(DeliveryError):
    """A later attempt may succeed, after `wait_seconds` if the server named a time."""

    wait_seconds: float | None = None


def report_message(document: Mapping[str, Any], file: Attachment) -> Letter:
    """The message for an `advisor.report/1` document and its rendered file."""
    title = f"{_short(document['title'])} ({document['as_of']})"
    answers = [one_line(f"{workload['name']}: {_picked(workload)}") for workload in document["workloads"]]
    lines = [title, "", *answers]
    totals = document["totals"]
    if totals["answered"] and totals["workloads"] >= 2:
        lines += ["", " ".join(totals_sentences(document, report_texts("en")))]
    return Letter(
        kind=REPORT,
        title=title,
        text="\n".join(lines) + "\n",
        day=document["as_of"],
        document=plain(document),
        files=(file,),
    )


def difference_message(document: Mapping[str, Any], files: Sequence[Attachment]) -> Letter:
    """The message for an `advisor.report-diff/1` document and its files."""
    name, what = _short(document["new"]["title"] or ""), headline(document)
    return Letter(
        kind=DIFFERENCE,
        title=f"{name}: {what}" if name else what,
        text=difference_text(document),
        day=document["new"]["as_of"],
        document=document,
        files=tuple(files),
    )


def attachment(name: str, kind: ReportFormat, content: bytes) -> Attachment:
    """A report's file; the format's extension is added to a name without it."""
    end = f".{kind.extension}"
    return Attachment(name if name.endswith(end) else name + end, kind.media_type, content)


def _short(title: str) -> str:
    text = one_line(title)
    return text if len(text) <= _MOST_TITLE else f"{text[: _MOST_TITLE - 2]}.."


def _picked(workload: Mapping[str, Any]) -> str:
    answer = workload["answer"]
    spec = answer["spec"]
    if answer["status"] != "answered" or spec is None:
        return "nothing meets the target"
    count = "" if spec["count"] == 1 else f"{spec['count']} x "
    region = place_name(spec, clouds=covers_clouds(workload["recommendation"]))
    cost = f"{format_usd(spec['usd_per_hour'])} an hour"
    return f"{count}{spec['instance_type']} + {spec['disk']} in {region}, {cost}"
