"""Suite `cheapest`: is the cheapest candidate found that reaches a target?

Exact and overspend are counted with the choice by the median, `met` with the choice by `lower` at
the product's default confidence; both without trials, and with a verifying trial of close calls.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.cheapest_lambda import lambda_answers
from benchmarks.accuracy.cheapest_profet import profet_answers
from benchmarks.accuracy.figures import NothingToScore, SuiteResult, figures
from benchmarks.accuracy.transfer_runs import joined_rows, transfer_runs


def run(train: Path, score: Path) -> SuiteResult:
    """Percentages by anchor; the headline starts from the fastest instance, as MODEL's does."""
    by_anchor, skipped = profet_answers(train, score)
    if not by_anchor:
        raise NothingToScore("no workload can be carried from one priced instance to another")
    others: dict[str, Any] = {}
    try:
        found, notes = lambda_answers(train, score)
        others = {**found, **_headline(found)}
        skipped += notes
    except NothingToScore as reason:
        skipped.append(str(reason))
    done = transfer_runs(train, score, profiled=True)
    anchor = list(by_anchor)[-1]
    runs = tuple(one for one in done.runs if one.anchor == anchor)
    rows = joined_rows(runs, [np.exp(one.answer.log_seconds) for one in runs])
    return SuiteResult(
        suite="cheapest",
        main=figures("zero_shot", *rows),
        extra={
            "from": anchor,
            **_headline(by_anchor[anchor]),
            "by_anchor": by_anchor,
            "lambda_tf": others,
        },
        skipped=skipped,
    )


def _headline(policies: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Exact and overspend by the median, met by `lower`; without and with trials."""
    document: dict[str, Any] = {}
    for name, ending in (("without_trials", ""), ("with_trials", "_with_trial")):
        if f"median{ending}" not in policies:
            continue
        median, lower = policies[f"median{ending}"], policies[f"lower{ending}"]
        document[name] = {
            "questions": median["questions"],
            "exact_percent": median["exact_percent"],
            "overspend_percent": median["overspend_percent"],
            "met_percent": lower["met_percent"],
            "trials_per_question": max(median["trials_per_question"], lower["trials_per_question"]),
        }
    return document
