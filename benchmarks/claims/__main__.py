"""Prints all claims of the source articles beside what is found here, as one JSON document.

python -m benchmarks.claims --json [--only A01,A11] [--quick] [--work DIR] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from advisor.errors import AdvisorError
from advisor.files import write_whole
from advisor.sweeps.machine.environment import describe_machine
from benchmarks.claims.answers import answer, document
from benchmarks.claims.evidence import Evidence, MissingTrialsError
from benchmarks.claims.formats import formats_document, vcpus_needed
from benchmarks.claims.read_ahead import read_ahead, require_same
from benchmarks.claims.tables import markdown
from benchmarks.claims.trials import FULL, QUICK
from benchmarks.claims.words import read_claims
from benchmarks.claims.work import Work

READ_AHEAD = "read-ahead"
_ROWS_OF_FORMATS = ("A01", "A02")


def main() -> None:
    """Measure what is not measured yet, and tell all claims beside what is found."""
    asked = _arguments()
    size = QUICK if asked.quick else FULL
    work = Work(asked.work / size.name, size, retry_failed=asked.retry_failed)
    evidence = Evidence(work, measure=not asked.no_measuring)
    try:
        told = _told(evidence, work, asked)
    except AdvisorError as error:
        sys.exit(f"claims: {error}")
    except KeyboardInterrupt:
        sys.exit("claims: interrupted; the same command goes on where this one stopped")
    text = json.dumps(told, indent=1)
    if asked.out:
        write_whole(asked.out, text + "\n")
    if asked.markdown:
        write_whole(asked.markdown, markdown(told))
    print(text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.claims", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document (always so)")
    parser.add_argument("--only", nargs="+", default=[], help="claims, as A01 A11 or A01,A11")
    parser.add_argument("--quick", action="store_true", help="a smoke run; its figures say nothing")
    parser.add_argument("--work", type=Path, default=Path(".claims"), help="where data and trials are kept")
    parser.add_argument("--out", type=Path, help="write the JSON to a file, too")
    parser.add_argument("--markdown", type=Path, help="write docs/internals/claims.md")
    parser.add_argument(
        "--read-ahead",
        type=int,
        metavar="KIB",
        help="set the disk's read-ahead meanwhile (root): 128 is Linux's default",
    )
    parser.add_argument("--retry-failed", action="store_true", help="measure failed trials again")
    parser.add_argument("--no-measuring", action="store_true", help="tell what is stored, measure nothing")
    asked = parser.parse_args()
    asked.only = [one.upper() for part in asked.only for one in part.split(",") if one]
    unknown = sorted(set(asked.only) - set(read_claims()))
    if unknown:
        parser.error(f"no claim {', '.join(unknown)}; known: A01 to A17, B01 .. E08")
    return asked


def _told(evidence: Evidence, work: Work, asked: argparse.Namespace) -> dict[str, Any]:
    """The document; while it measures, the disk's read-ahead is as asked."""
    if asked.no_measuring:
        return _document(evidence, work, asked.only)
    with read_ahead(work.folder, asked.read_ahead) as kib:
        require_same(work.once(READ_AHEAD, lambda: {"kib": kib})["kib"], kib)
        return _document(evidence, work, asked.only)


def _document(evidence: Evidence, work: Work, only: list[str]) -> dict[str, Any]:
    findings = answer(evidence, only)
    machine = describe_machine()
    return {
        "schema": "advisor.claims/1",
        "date": datetime.now(UTC).date().isoformat(),
        "size": work.size.name,
        "machine": {"cpu": machine.get("cpu_model"), "cpus": len(os.sched_getaffinity(0))},
        "read_ahead_kib": work.results().get(READ_AHEAD, {}).get("kib"),
        "trials": len(work.rows()),
        "conversions": sum(key.startswith("conversion") for key in work.results()),
        "claims": document(findings),
        **_formats(evidence, work, only),
    }


def _formats(evidence: Evidence, work: Work, only: list[str]) -> dict[str, Any]:
    """Cached against cold, and vCPUs by format; empty where no row asked needs them."""
    if only and not set(only) & set(_ROWS_OF_FORMATS):
        return {"formats": [], "vcpus_needed": []}
    try:
        return {"formats": formats_document(evidence), "vcpus_needed": vcpus_needed(evidence)}
    except MissingTrialsError as error:
        work.tell(f"formats are not told: {error}")
        return {"formats": [], "vcpus_needed": []}


if __name__ == "__main__":
    main()
