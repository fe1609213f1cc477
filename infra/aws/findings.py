"""Findings of the checks before a launch, each with its remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from advisor.errors import AdvisorError, CloudError
from advisor.infra.aws.errors import Refused
from advisor.infra.aws.permissions import mend_of


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that a launch needs. `mend` is the command or the policy that mends it; `stops`
    says whether nothing can be launched before."""

    check: str
    ok: bool
    text: str
    mend: str = ""
    stops: bool = True


def good(check: str, text: str) -> Finding:
    """Nothing is missing."""
    return Finding(check=check, ok=True, text=text)


def missing(check: str, text: str, mend: str) -> Finding:
    """Something is, and this mends it."""
    return Finding(check=check, ok=False, text=text, mend=mend)


def not_checked(check: str, error: AdvisorError) -> Finding:
    """It could not be asked for."""
    mend = mend_of(error) if isinstance(error, Refused) else "ask again later"
    return Finding(check=check, ok=False, text=str(error), mend=mend)


def without(check: str, text: str, error: Exception) -> Finding:
    """It could not be asked for, and a launch can do without."""
    mend = mend_of(error) if isinstance(error, Refused) else "ask again later"
    return Finding(check=check, ok=False, text=f"{text} ({error})", mend=mend, stops=False)


def refuse_missing(findings: Iterable[Finding]) -> None:
    """`CloudError` with each thing that stops a launch, and what mends it."""
    stopping = [finding for finding in findings if finding.stops and not finding.ok]
    if stopping:
        raise CloudError("nothing was launched: {reasons}", reasons=findings_text(stopping))


def findings_text(findings: Sequence[Finding]) -> str:
    """One after the other, each with its mend."""
    return "; ".join(f"({finding.check}) {finding.text.rstrip('.')}: {finding.mend}" for finding in findings)
