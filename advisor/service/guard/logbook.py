"""What of a visit goes to the audit log: every change, every refusal."""

from __future__ import annotations

import logging
import time

from advisor.errors import DataError
from advisor.service.access_keys import Scope
from advisor.service.audit import AuditLog, Value
from advisor.service.guard.origins import changes
from advisor.service.guard.refusals import Counted
from advisor.service.guard.visit import Visit

_REFUSED = (401, 403, 413, 421, 429)
_LOG = logging.getLogger("advisor.service")


class Logbook:
    """Writes visits down, for one worker process."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log
        self._refusals = Counted()

    def note(self, visit: Visit) -> None:
        """Write the visit down if it changed something, or was refused."""
        needed = visit.needed
        is_change = changes(visit.method) and needed not in (None, Scope.READ)
        if visit.refused or visit.status in _REFUSED:
            self._note_refusal(visit)
        elif is_change:
            self.write("request", visit)

    def write(self, event: str, visit: Visit, **more: Value) -> None:
        """A line about the visit. A log that cannot be written is told, and stops nobody: what was
        asked has happened by then."""
        caller, needed = visit.caller, visit.needed
        facts: dict[str, Value] = {
            "key": caller.key_id if caller else None,
            "name": (caller.name or caller.by) if caller else None,
            "address": visit.address,
            "method": visit.method,
            "route": visit.route,
            "status": visit.status or None,
            "subject": visit.subject,
            "scope": needed.value if needed else None,
            "reason": visit.refused or None,
        }
        self._append(event, facts | more)

    def _note_refusal(self, visit: Visit) -> None:
        if not self._refusals.may_write(time.monotonic()):
            return
        if left_out := self._refusals.left_out():
            self._append("refused-more", {"count": left_out})
        self.write("refused", visit)

    def _append(self, event: str, facts: dict[str, Value]) -> None:
        try:
            self._log.write(event, **facts)
        except DataError as error:
            _LOG.error("%s", error)
