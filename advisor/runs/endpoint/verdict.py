"""Targets and limits of a question, held against the figures of one load. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from advisor.domain.language import GenerationCandidate, GenerationRequest
from advisor.domain.serving_verification import Criterion
from advisor.sweeps.endpoint.anchors import RUN_SIGMA, TTFT_RUN_SIGMA
from advisor.sweeps.endpoint.records import Load

# Two-sided 95 % of a normal distribution.
_SPREAD = 1.96
# More of the requests than this may not fail.
_MOST_FAILED = 0.01
# So much less than the offered rate may be answered by chance: a Poisson process has as many
# standard deviations of its count.
_CHANCE = 3.0

Figures = Mapping[str, Any]


def load_of(request: GenerationRequest, candidate: GenerationCandidate) -> Load:
    """What one of the candidate's instances has to bear."""
    count = candidate.spec.count
    if request.users is not None:
        return Load(concurrency=math.ceil(request.users / count))
    if request.target_requests_per_second is not None:
        return Load(requests_per_second=request.target_requests_per_second / count)
    return Load(concurrency=max(1, round(candidate.rates.concurrency / count)))


def criteria_of(
    request: GenerationRequest, candidate: GenerationCandidate, figures: Figures
) -> tuple[Criterion, ...]:
    """The target first, then each limit, then that requests are answered at all."""
    found = []
    count = candidate.spec.count
    if (tokens := request.target_output_tokens_per_second) is not None:
        name = "output_tokens_per_second"
        found.append(_criterion(name, tokens / count, figures[name], RUN_SIGMA, is_least=True))
    if request.target_requests_per_second is not None:
        found.append(_keeps_up(figures))
    for name, limit, sigma in (
        ("ttft_seconds", _seconds(request.max_ttft_ms), TTFT_RUN_SIGMA),
        ("tpot_seconds", _seconds(request.max_tpot_ms), RUN_SIGMA),
        ("e2e_seconds", request.max_e2e_seconds, RUN_SIGMA),
    ):
        if limit is not None:
            found.append(_criterion(name, limit, figures[name], sigma, is_least=False))
    return (*found, _answered(figures))


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _criterion(
    name: str, limit: float, figure: Figures | None, run_sigma: float, *, is_least: bool
) -> Criterion:
    """By the mean: its error within the run, and what another run would differ by."""
    if figure is None or figure["standard_error"] is None:
        measured = None if figure is None else figure["mean"]
        return Criterion(name=name, limit=limit, is_least=is_least, measured=measured, lower=None, upper=None)
    mean = figure["mean"]
    half = _SPREAD * math.hypot(figure["standard_error"], run_sigma * mean)
    return Criterion(
        name=name,
        limit=limit,
        is_least=is_least,
        measured=mean,
        lower=max(0.0, mean - half),
        upper=mean + half,
    )


def _keeps_up(figures: Figures) -> Criterion:
    """A Poisson load is borne where answers end as often as requests begin, chance apart."""
    wanted, seconds = figures["requests_per_second_wanted"], figures["window_seconds"]
    rate = figures["requests_per_second"]
    name = "requests_per_second"
    if rate is None or seconds <= 0:
        return Criterion(name=name, limit=wanted, is_least=True, measured=None, lower=None, upper=None)
    count = wanted * seconds
    limit = max(0.0, count - _CHANCE * math.sqrt(count)) / seconds
    capped = figures["generator"]["is_capped"]
    measured = 0.0 if capped else rate["mean"]
    return Criterion(name=name, limit=limit, is_least=True, measured=measured, lower=measured, upper=measured)


def _answered(figures: Figures) -> Criterion:
    requests = figures["requests"]
    total = requests["failed"] + requests["ok"]
    share = requests["failed"] / total if total else None
    return Criterion(
        name="failed_share", limit=_MOST_FAILED, is_least=False, measured=share, lower=share, upper=share
    )
