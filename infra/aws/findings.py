"""What was looked at before a launch, and what mends what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from advisor.errors import AdvisorError, CloudError
from infra.aws.errors import Refused
from infra.aws.permissions import mend_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a launch needs. `mend` is the command or the policy that mends it; `stops`
    says whether nothing can be launched before."""

    check: str
    ok: bool
    told: str
    mend: str = ""
    stops: bool = True


def good(check: str, told: str) -> Finding:
    """Nothing is missing."""
    return Finding(check=check, ok=True, told=told)


def missing(check: str, told: str, mend: str) -> Finding:
    """Something is, and this mends it."""
    return Finding(check=check, ok=False, told=told, mend=mend)


def not_checked(check: str, error: AdvisorError) -> Finding:
    """It could not be asked for."""
    mend = mend_of(error) if isinstance(error, Refused) else "ask again later"
    return Finding(check=check, ok=False, told=str(error), mend=mend)


def without(check: str, told: str, error: Exception) -> Finding:
    """It could not be asked for, and a launch can do without."""
    mend = mend_of(error) if isinstance(error, Refused) else "ask again later"
    return Finding(check=check, ok=False, told=f"{told} ({error})", mend=mend, stops=False)


def refuse_missing(findings: Iterable[Finding]) -> None:
    """`CloudError` with each thing that stops a launch, and what mends it."""
    stopping = [finding for finding in findings if finding.stops and not finding.ok]
    if stopping:
        raise CloudError("nothing was launched: {reasons}", reasons=in_words(stopping))


def in_words(findings: Sequence[Finding]) -> str:
    """One after the other, each with its mend."""
    return "; ".join(
        f"({finding.check}) {finding.told.rstrip('.')}: {finding.mend}" for finding in findings
    )
