"""What is delivered, and how a delivery fails."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from advisor.errors import DeliveryError

SCHEMA = "advisor.delivery/1"


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A file of a parcel: its name without a folder, its media type, its bytes."""

    name: str
    media_type: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A report, or what changed between two of them.

    `text` is what a person reads first, `document` what a program reads; `day` (YYYY-MM-DD) is
    the document's. The first of `files` is the parcel where a target has place for one only.
    """

    kind: str
    title: str
    text: str
    day: str
    document: Mapping[str, Any]
    files: tuple[Enclosure, ...]

    @property
    def id(self) -> str:
        """The same for the same content: whoever gets it twice can tell."""
        seal = hashlib.sha256(json.dumps(self.message(""), sort_keys=True).encode())
        for one in self.files:
            seal.update(one.name.encode() + b"\0" + one.content)
        return f"advisor-{seal.hexdigest()[:32]}"

    def message(self, name: str) -> dict[str, Any]:
        """`advisor.delivery/1`: what a webhook gets under the id `name`."""
        return {
            "schema": SCHEMA,
            "id": name,
            "kind": self.kind,
            "title": self.title,
            "text": self.text,
            "document": dict(self.document),
        }

    def dated(self, template: str) -> str:
        """A path or key with the document's day in place of `{date}`."""
        return template.replace("{date}", self.day)


class PassingTroubleError(DeliveryError):
    """It may work in a while; `wait_seconds` where the other side says how long."""

    def __init__(self, message: str, *, wait_seconds: float | None = None) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds


class Target(Protocol):
    """Where a parcel goes. `label` names it to people, without anything secret."""

    @property
    def label(self) -> str:
        """As shown in messages, logs and documents."""

    def check(self) -> None:
        """`UsageError` for what can be known before the parcel is made."""

    def send(self, parcel: Parcel) -> None:
        """Once; `PassingTroubleError` where another try may help, else `DeliveryError`."""
