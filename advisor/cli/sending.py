"""`--send`: brings what was made to people, and says what arrived."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from advisor.cli.printing import tell
from advisor.errors import DeliveryError, UsageError

if TYPE_CHECKING:
    from advisor.runs.delivery.letter import Letter, Target

send_option = click.option(
    "--send",
    multiple=True,
    metavar="TARGET",
    help="Also send it: file:PATH, s3://BUCKET/KEY, https://.., smtp://HOST:PORT?to=ADDRESS, or "
    "env:NAME of a variable with one; repeatable. See docs/how-to/reports.md.",
)


def targets_of(send: Sequence[str]) -> tuple[Target, ...]:
    """The targets, checked before the long work; `UsageError` for those that cannot be."""
    if not send:
        return ()
    from advisor.runs.delivery.sending import checked_targets

    return checked_targets(send)


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
