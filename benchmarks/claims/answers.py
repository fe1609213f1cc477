"""All claims with what is found about each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from advisor.errors import AdvisorError, MeasuringError
from advisor.records import asdict
from benchmarks.claims import (
    rows_a2,
    rows_a3,
    rows_a4,
    rows_a5,
    rows_disks,
    rows_memory,
    rows_text,
    rows_vcpus,
)
from benchmarks.claims.evidence import Evidence, MissingTrialsError
from benchmarks.claims.words import Finding, Kind, not_measured, read_claims

Row = Callable[[Evidence], Finding]
_MEASURED = (rows_vcpus, rows_text, rows_memory, rows_disks)
_KNOWN = (rows_a5, rows_a4, rows_a2, rows_a3)


def finders() -> dict[str, Row]:
    """The function behind each claim, in the order of the claims."""
    found: dict[str, Row] = {}
    for claim in read_claims():
        name = claim.lower()
        measured = [getattr(one, name) for one in _MEASURED if hasattr(one, name)]
        known = [getattr(one, name) for one in _KNOWN if hasattr(one, name)]
        found[claim] = measured[0] if measured else _without_evidence(known[0])
    return found


def answer(evidence: Evidence, only: Iterable[str]) -> dict[str, Finding]:
    """Findings of the claims asked for, all of them where none is named."""
    known = finders()
    chosen = list(only) or list(known)
    return {claim: _found(known[claim], evidence) for claim in chosen}


def document(findings: Mapping[str, Finding]) -> list[dict[str, Any]]:
    """Claims and findings side by side, as JSON."""
    claims = read_claims()
    return [
        {
            **asdict(claims[claim]),
            "how": told_kind(finding),
            "verdict": finding.verdict.value,
            "ours": finding.ours,
            "why": finding.why,
            "scale": finding.scale,
            "numbers": dict(finding.numbers),
        }
        for claim, finding in findings.items()
    ]


def told_kind(finding: Finding) -> str:
    """'measured at 1/4 scale', 'modelled', ..."""
    scaled = finding.scale > 1 and finding.kind is Kind.MEASURED
    return f"{finding.kind} at 1/{finding.scale} scale" if scaled else finding.kind.value


def _found(row: Row, evidence: Evidence) -> Finding:
    """A row that cannot be told says why, and the others go on."""
    try:
        return row(evidence)
    except MissingTrialsError as error:
        return not_measured(str(error))
    except MeasuringError:
        raise  # this machine cannot measure now: true of every row
    except AdvisorError as error:
        return not_measured(f"failed: {error}")


def _without_evidence(row: Callable[[], Finding]) -> Row:
    return lambda _evidence: row()
