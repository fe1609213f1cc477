"""Finds the steps of a run that count, and the error of its rate within and between runs.

Steady state: a change-point test on the logarithms of step times. The series is cut where the levels before
and after differ most in standard errors (the maximally selected two-sample statistic; Hawkins 1977, JASA
72:180-186). Values are first winsorised (Huber) at four deviations of the later half, so that a stall of any
length weighs like a slightly long step.

Within a run: overlapping batch means (Meketon and Schmeiser 1984, Winter Simulation Conference), the variance
to which the moving-block bootstrap of the mean converges (Kuensch 1989, Annals of Statistics 17:1217-1241),
without random draws. Between runs: each run is one value (Kalibera and Jones 2013, ISMM; pyperf), and the
spread of few runs is pooled with that of other trials' repeats (Smyth 2004, SAGMB 3:3)."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from advisor.domain import Measurement
from advisor.domain.results import mean_step_seconds, stall_indices

# With this threshold, a start is wrongly cut off in at most one of 200 series of 60 or more normal steps.
_CRITICAL = 4.5
_TOLERATED_WARMUP = 0.01
_TOLERATED_DRIFT = 0.05
_SMALLEST_DEVIATION = 0.002  # noise of timer and scheduler, in log seconds
_WINSOR_DEVIATIONS = 4.0
_SIGMA_OF_MAD = 1.4826
_EVEN_WITHIN = 0.10
# A fast start (batches prepared ahead, clocks before they are hot) may be cut up to half of the steps: that
# only lowers the rate. A slow start is time that a user pays for, unless it is short.
_LONGEST_FAST_START = 0.5
_LONGEST_SLOW_START = 0.2
_MOST_OF_START = 0.75


def is_steady(step_seconds: Sequence[float], period: int = 1) -> bool:
    """Return whether the level of step times never changes by more than 5 % and more than chance.

    Fewer than four steps are never steady."""
    if len(step_seconds) < 4:
        return False
    values = _levels(step_seconds, steps_together(step_seconds, period))
    return _change_index(values, _TOLERATED_DRIFT) is None


def count_warmup_steps(step_seconds: Sequence[float], period: int = 1, *, cold: bool = False) -> int:
    """The number of leading steps before steady state; all later steps count.

    The pipeline should already run when a series begins; in a `cold` series the first step loads kernels and
    fills queues, and is always warm-up. After that, steps before a level change are cut off repeatedly, as
    long as all of them are a short slow start (up to a fifth) or a fast one (up to half). So neither a stall
    (a single step or round) nor a slow phase of the run is ever warm-up. Changes below 1 % are ignored: they
    bias the rate by no more."""
    if cold and len(step_seconds) > 1:
        return 1 + count_warmup_steps(step_seconds[1:], period)
    size = steps_together(step_seconds, period)
    values = _levels(step_seconds, size)
    dropped = 0
    while cut := _start_length(values, dropped):
        dropped += cut
    return dropped * size


def _start_length(values: Sequence[float], dropped: int) -> int:
    """The number of values that may be cut off as a start after `dropped` ones; 0 for none."""
    rest = values[dropped:]
    level = _winsorised(rest)
    cut = _change_index(rest, _TOLERATED_WARMUP)
    while cut is not None:
        start, after = level[:cut], statistics.fmean(level[cut:])
        slow = sum(value > after + _TOLERATED_WARMUP for value in start)
        is_fast = statistics.fmean(start) < after
        # Most steps of a slow start are slow; a stall among normal steps is no start.
        is_start = cut > 1 and (is_fast or slow >= _MOST_OF_START * cut)
        longest = _LONGEST_FAST_START if is_fast else _LONGEST_SLOW_START
        if is_start and dropped + cut <= longest * len(values):
            return cut
        cut = _change_index(rest[:cut], _TOLERATED_WARMUP)  # a later change may hide an earlier one
    return 0


def _change_index(values: Sequence[float], tolerated: float) -> int | None:
    """The index where the level changes most; None if the change is chance or tolerated."""
    count = len(values)
    if count < 3:
        return None
    values = _winsorised(values)
    deviation, sums = _deviation(values), list(itertools.accumulate(values))
    best, best_cut, difference = 0.0, 0, 0.0
    for cut, before in enumerate(sums[:-1], 1):
        gap = abs(before / cut - (sums[-1] - before) / (count - cut))
        errors = gap / (deviation * math.sqrt(1 / cut + 1 / (count - cut)))
        if errors > best:
            best, best_cut, difference = errors, cut, gap
    return best_cut if best > _CRITICAL and difference > tolerated else None


def _deviation(values: Sequence[float]) -> float:
    """The standard deviation in the later half: by its median or by neighbours, the smaller one."""
    later = values[len(values) // 2 :]
    middle = statistics.median(later)
    around = _SIGMA_OF_MAD * statistics.median(abs(value - middle) for value in later)
    if len(later) > 2:
        steps = [abs(b - a) for a, b in itertools.pairwise(later)]
        around = min(around, _SIGMA_OF_MAD * statistics.median(steps) / math.sqrt(2))
    return max(around, _SMALLEST_DEVIATION)


def _levels(step_seconds: Sequence[float], size: int) -> list[float]:
    """The logarithms of the mean seconds of groups of `size` steps."""
    whole = len(step_seconds) - len(step_seconds) % size
    groups = [step_seconds[index : index + size] for index in range(0, whole, size)]
    return [math.log(max(statistics.fmean(group), 1e-9)) for group in groups]


def _winsorised(values: Sequence[float]) -> Sequence[float]:
    """The values, winsorised at four deviations from the median of the later half."""
    if len(values) < 3:
        return values
    later = values[len(values) // 2 :]
    middle = statistics.median(later)
    deviation = _SIGMA_OF_MAD * statistics.median(abs(value - middle) for value in later)
    reach = _WINSOR_DEVIATIONS * max(deviation, 5 * _SMALLEST_DEVIATION)
    return [min(max(value, middle - reach), middle + reach) for value in values]


def steps_together(step_seconds: Sequence[float], period: int) -> int:
    """The number of steps to group for tests: 1 if all steps but stalls lie within 10 % of their median, else
    a whole round of the loader, in which long and short steps alternate."""
    later = list(step_seconds[len(step_seconds) // 2 :])
    stalls = set(stall_indices(later, period))
    usual = [seconds for index, seconds in enumerate(later) if index not in stalls]
    middle = statistics.median(usual) if usual else 0.0
    if len(step_seconds) < 8 or all(abs(seconds - middle) <= _EVEN_WITHIN * middle for seconds in usual):
        return 1
    return max(1, min(max(2, period), len(step_seconds) // 6))


CONFIDENCE = 0.95


class RunSpread(Struct, frozen=True):
    """The spread between runs of a trial, in addition to the error within them: the standard deviation of the
    logs of their rates, and its degrees of freedom when used for another trial."""

    sigma: float
    degrees: int


# From two sweeps of 27 trials: half of the pairs differed by 1.7 %, which is 0.6745 * sqrt(2) * sigma; the
# degrees are a judgement. `python -m benchmarks.rates coverage --json` shows how often intervals hold on an
# emulated GPU (docs/internals/measuring.md); on a real one this is untested.
BETWEEN_RUNS = RunSpread(sigma=0.018, degrees=8)
# Enough blocks for a spread, each far longer than the dependence between steps.
_BLOCKS = 5


class RateInterval(Struct, frozen=True, kw_only=True):
    """A rate in samples per second, and the 95 % interval of the rate of the trial's next run.

    `standard_error` is that of the logarithm of `rate`, including the spread between runs. `relative_error`
    is half the 95 % interval of the measured runs' mean, as a share: the part that more steps would
    reduce."""

    lower: float
    rate: float
    upper: float
    standard_error: float
    relative_error: float


def rate_interval(measurement: Measurement, spread: RunSpread = BETWEEN_RUNS) -> RateInterval | None:
    """The interval of a measurement's rate over all good runs; None if one of them has too few steps.

    The variance between runs pools a prior (`spread`, and the error within a run) with the runs' variance, as
    a scaled inverse chi-square. The next run differs from the mean of n runs by sqrt(1 + 1/n) standard
    deviations; Student's t has the degrees of freedom of both."""
    rate, period = measurement.throughput_samples_per_second, measurement.trial.loader_period
    if rate is None:
        return None
    error = runs_error(measurement.run_steps, period, spread)
    if error is None:
        return None
    reach = students_quantile(error.degrees) * math.sqrt(error.variance * (1 + 1 / error.count))
    return RateInterval(
        lower=rate * math.exp(-reach),
        rate=rate,
        upper=rate * math.exp(reach),
        standard_error=error.standard_error,
        relative_error=students_quantile(error.freedom) * math.sqrt(error.within / error.count),
    )


class RunsError(Struct, frozen=True):
    """The error of `count` runs of one trial: the `variance` of the log of a run's mean step, with its
    `degrees` of freedom; `within` is the part from within a run, with its `freedom`."""

    count: int
    variance: float
    degrees: int
    within: float
    freedom: int

    @property
    def standard_error(self) -> float:
        """The standard error of the log of the mean over the runs."""
        return math.sqrt(self.variance / self.count)


def runs_error(
    runs: Sequence[Sequence[float]], period: int = 1, spread: RunSpread = BETWEEN_RUNS
) -> RunsError | None:
    """The error of runs with these step seconds; None if one of them has too few steps."""
    errors = [mean_error(run, period) for run in runs]
    known = [error for error in errors if error is not None]
    if not known or len(known) < len(errors):
        return None
    logs = [math.log(mean_step_seconds(run)) for run in runs]
    count, middle = len(logs), statistics.fmean(logs)
    within = statistics.fmean(error.relative**2 for error in known)
    degrees = spread.degrees + count - 1
    prior = spread.degrees * (spread.sigma**2 + within)
    variance = (prior + sum((log - middle) ** 2 for log in logs)) / degrees
    freedom = sum(error.degrees for error in known)
    return RunsError(count, variance, degrees, within, freedom)


def run_intervals(measurement: Measurement) -> list[RateInterval | None]:
    """The interval of each single run that has steps."""
    runs = [run for run in measurement.run_steps if run]
    return [rate_interval(replace(measurement, step_seconds=tuple(run), repeats=())) for run in runs]


class MeanError(Struct, frozen=True):
    """The standard error of a run's mean step, as a share of the mean, and its degrees of freedom."""

    relative: float
    degrees: int

    @property
    def half_width(self) -> float:
        """Half of the 95 % interval, as a share."""
        return students_quantile(self.degrees) * self.relative


def mean_error(step_seconds: Sequence[float], period: int) -> MeanError | None:
    """The standard error of the mean of steps that may be correlated; None for fewer than five blocks.

    A block is about a fifth of the run, in whole rounds of the loader if steps come in bunches."""
    import numpy as np

    count = len(step_seconds)
    if not count:
        return None
    unit = steps_together(step_seconds, period)
    length = unit * max(1, count // (_BLOCKS * unit))
    blocks = count // length
    if blocks < _BLOCKS:
        return None
    sums = np.concatenate([[0.0], np.cumsum(step_seconds)])
    means, mean = (sums[length:] - sums[:-length]) / length, sums[-1] / count
    weight = length / ((count - length + 1) * (count - length))
    variance = weight * float(np.square(means - mean).sum())
    return MeanError(math.sqrt(variance) / float(mean), blocks - 1)


def students_quantile(degrees: int) -> float:
    """The 97.5 % quantile of Student's t, by Cornish and Fisher's expansion (Abramowitz and Stegun 26.7.5):
    within 0.3 % from four degrees of freedom on."""
    z, n = statistics.NormalDist().inv_cdf(0.5 + CONFIDENCE / 2), degrees
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    )


# An interval that is checked after every step, until it is narrow enough, covers too rarely. Checked at most
# five times, at geometric times, it covers as often as it should (tests/sweeps/quality/test_rates.py).
_CHECKS = 5
# More steps are grouped into about so many whole rounds, so that a check takes about a millisecond.
_MOST_ROUNDS = 1024


class StoppingRule:
    """Decides after each step whether a run has measured enough.

    It has if there are at least `min_steps` steady steps that last `first_seconds`, do not drift, and have a
    mean known to `rel_error`. This is checked five times, first after `first_seconds`, and never after
    `last_seconds`."""

    def __init__(
        self, *, rel_error: float, min_steps: int, first_seconds: float, last_seconds: float, period: int = 1
    ) -> None:
        self._rel_error, self._min_steps, self._period = rel_error, min_steps, period
        self._least_seconds = first_seconds
        ratio = max(1.0, last_seconds / first_seconds) if first_seconds > 0 else 1.0
        self._times = [first_seconds * ratio ** (n / _CHECKS) for n in range(_CHECKS)]

    def is_met(self, step_seconds: Sequence[float], elapsed_seconds: float) -> bool:
        """Return whether the run may stop now; `step_seconds` are all steps so far, including warm-up."""
        if not self._times or elapsed_seconds < self._times[0]:
            return False
        if len(step_seconds) < self._min_steps:
            return False
        self._times = [time for time in self._times if time > elapsed_seconds]
        # Groups of whole rounds have no period.
        size = len(step_seconds) // (_MOST_ROUNDS * self._period) * self._period
        size, period = (size, 1) if size else (1, self._period)
        whole = range(0, len(step_seconds) - size + 1, size)
        together = [sum(step_seconds[first : first + size]) for first in whole]
        warmup = count_warmup_steps(together, period)
        steady, steady_seconds = together[warmup:], elapsed_seconds - sum(together[:warmup])
        if len(steady) * size < self._min_steps or steady_seconds < self._least_seconds:
            return False
        error = mean_error(steady, period) if is_steady(steady, period) else None
        return error is not None and error.half_width <= self._rel_error


MINUTE_SECONDS = 60.0
_LEAST_LATER_SECONDS = 30.0
_FEWEST_STEPS = 6


def sustained_rate(
    step_seconds: Sequence[float], samples_per_step: int, first_minute: Sequence[float] = ()
) -> dict[str, float]:
    """Samples per second of the cold first minute and of the last minute (or of all after the first, if
    shorter), and the seconds of the latter.

    `step_seconds` are all steps in order, including warm-up, which a burst at the start may resemble. They
    include the first minute, unless `first_minute` has the steps of one that does not count. A last minute of
    fewer than six steps or 30 s is left out, and with it a first minute that counts."""
    counts = not first_minute
    if counts:
        split = sum(end <= MINUTE_SECONDS for end in itertools.accumulate(step_seconds))
        whole, step_seconds = step_seconds, step_seconds[split:]
        if split < _FEWEST_STEPS or not _is_long_enough(step_seconds):
            return {}
        first_minute = whole[:split]
    rates = {"first_minute_samples_per_second": samples_per_step / mean_step_seconds(first_minute)}
    left = sum(step_seconds) - MINUTE_SECONDS
    begin = sum(end <= left for end in itertools.accumulate(step_seconds))
    if not _is_long_enough(last := step_seconds[begin:]):
        return {} if counts else rates
    return rates | {
        "sustained_samples_per_second": samples_per_step / mean_step_seconds(last),
        "sustained_over_seconds": sum(last),
    }


def first_minute_rate(measurement: Measurement) -> float | None:
    """Samples per second of a run's cold first minute; None if the run was not longer."""
    pace = measurement.environment.get("pace") or {}
    rate: float | None = pace.get("first_minute_samples_per_second")
    return rate


def _is_long_enough(step_seconds: Sequence[float]) -> bool:
    """Return whether these steps are long enough to compare their rate with that of a minute."""
    return len(step_seconds) >= _FEWEST_STEPS and sum(step_seconds) >= _LEAST_LATER_SECONDS
