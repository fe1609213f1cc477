"""`--send`: brings what was made to people, and says what arrived."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from advisor.cli.printing import tell
from advisor.errors import DeliveryError, UsageError
from advisor.files import require_writable, write_whole

if TYPE_CHECKING:
    from advisor.runs.delivery.letter import Letter, Target

send_option = click.option(
    "--send",
    multiple=True,
    metavar="TARGET",
    help="Also send it: file:PATH, s3://BUCKET/KEY, https://.., smtp://HOST:PORT?to=ADDRESS, or "
    "env:NAME of a variable with one; repeatable. See docs/how-to/reports.md.",
)


class Destination(NamedTuple):
    """A file, or stdout, which `prints` what nobody else gets; and to whom it is sent."""

    path: Path | None
    prints: bool
    targets: tuple[Target, ...]

    @classmethod
    def of(cls, out: str | None, send: Sequence[str]) -> Destination:
        """Checked before the long work; `UsageError` for a place that cannot be written, or a
        target that cannot be sent to."""
        path = None if out in (None, "-") else Path(str(out))
        targets: tuple[Target, ...] = ()
        if send:
            from advisor.runs.delivery.sending import checked_targets

            targets = checked_targets(send)
        if path is not None:
            require_writable(path)
        return cls(path, path is None and not (targets and out is None), targets)

    def write(self, content: bytes) -> None:
        """The whole file, or all of it to stdout."""
        if self.path is not None:
            write_whole(self.path, content)
        elif self.prints:
            sys.stdout.buffer.write(content)


def format_of_targets(send: Sequence[str]) -> str:
    """The report's format by the end of the first file or key that is sent to; md without one."""
    from advisor.render.formats import format_of_file

    for text in send:
        if text.startswith(("file:", "s3:")) and not text.endswith("/"):
            with suppress(UsageError):
                return format_of_file(text.rpartition("/")[2])
    return "md"


def send_out(message: Letter, targets: Sequence[Target]) -> None:
    """To every target; `DeliveryError` names those that did not take it."""
    from advisor.runs.delivery.sending import deliver

    deliveries = deliver(message, targets, say=tell)
    for delivery in deliveries:
        if delivery.arrived:
            tell(f"sent to {delivery.label}")
    lost = [delivery.error for delivery in deliveries if not delivery.arrived]
    if lost:
        raise DeliveryError("; ".join(lost))
