"""Serving options as columns: rates and times under a load, counts of instances, and cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from advisor.domain import Span, Spec
from advisor.domain.language import MOST_SEQUENCES, GenerationCandidate, ServingRates, most_sequences
from advisor.domain.words import PERCENTILES, REQUEST_TIMES, KvPrecision, LlmEngine, LlmPrecision, ServingBind
from advisor.engine.columns import Booleans, Floats, Integers, Level, OptionTable, option_columns
from advisor.engine.limits import Limit
from advisor.engine.tasks.serving.options import ServingOption
from advisor.models.language.deployments import Traffic
from advisor.models.language.serving import BINDS, ServingPredictor
from advisor.models.language.serving.rates import ServingRates as PredictedRates
from advisor.questions.fields import TimeLimit
from advisor.questions.language import ServingQuestion

# Sequences in flight that are predicted for one replica, besides the most that its KV cache holds.
GRID = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, MOST_SEQUENCES)


def deciding_level(request: ServingQuestion) -> Level:
    """The level that must keep target and limits: the bound, or the median where misses have a cost."""
    aims = request.targets or request.time_limits
    return Level.MEDIAN if aims and not request.is_sure else Level.SURE


def traffic_of(request: ServingQuestion) -> Traffic:
    """The traffic of a question, as the predictor takes it."""
    return Traffic(
        request.prompt_tokens,
        request.output_tokens,
        request.prefix_share,
        input_sigma=request.input_spread,
        output_sigma=request.output_spread,
        burstiness=request.burstiness,
        tower_tokens=request.tower_tokens,
        think_seconds=request.think_seconds,
    )


class Rates(NamedTuple):
    """Rates of one replica under loads of shape (...); the first axis of rates and times is `Level`. `output`
    is output tokens per second, times are seconds; nan where there is no such load, or where the replica
    cannot carry it. `binds` holds values of `ServingBind`; `tails` (12, ...) are the ratios of TTFT, TPOT and
    time of a request at each of `PERCENTILES` to their means."""

    concurrency: Floats
    output: Floats
    ttft: Floats
    tpot: Floats
    binds: NDArray[np.str_]
    calibrated: Booleans
    tails: Floats

    def e2e(self, output_tokens: float) -> Floats:
        """Seconds of a whole request: first and further tokens, each at the same level."""
        return self.ttft + (output_tokens - 1) * self.tpot

    def limited(self, limit: TimeLimit, output_tokens: float) -> Floats:
        """The time that `limit` limits, in its unit."""
        means = self.e2e(output_tokens) if limit.reason == "e2e" else getattr(self, limit.reason)
        return np.asarray(limit.unit * means * self.tail(limit.reason, limit.percentile))

    def tail(self, time: str, percentile: int | None) -> Any:
        """The ratio of a time's percentile to its mean; 1 for no percentile."""
        if percentile is None:
            return 1.0
        return self.tails[len(PERCENTILES) * REQUEST_TIMES.index(time) + PERCENTILES.index(percentile)]

    def beside(self, other: Rates) -> Rates:
        """These loads (n,), followed by others."""
        return Rates(*(np.concatenate(pair, axis=-1) for pair in zip(self, other, strict=True)))

    def shaped(self, shape: tuple[int, ...]) -> Rates:
        """These loads with all columns reshaped to `shape`."""
        columns: tuple[Any, ...] = self
        return Rates(*(column.reshape(*column.shape[:-1], *shape) for column in columns))

    def take(self, index: tuple[Integers, ...]) -> Rates:
        """Some of the loads."""
        columns: tuple[Any, ...] = self
        loads, places = self.concurrency.ndim, (slice(None), *index)
        return Rates(*(column[index if column.ndim == loads else places] for column in columns))


def users_of(request: ServingQuestion, rates: Rates, level: Level) -> Floats:
    """The users of a replica under loads: those in flight and those that think (Little's law)."""
    thinking = request.think_seconds / request.output_tokens * np.nan_to_num(rates.output[level])
    return np.asarray(rates.concurrency + thinking)


def time_span(values: Floats) -> Span:
    """The span of a time (3,) by `Level`; infinite for nan, a load that cannot be carried."""
    upper, median, lower = np.nan_to_num(values, nan=np.inf).tolist()
    return Span(lower=lower, median=median, upper=upper)


# Predictions by confidence: a column by traffic, kind of load (whether requests arrive by themselves), id of
# the deployment, and load.
Predicted = dict[float, dict[tuple[Traffic, bool, int, float], Any]]


class Replicas:
    """Predicts the distinct deployments of options (`ServedModel` makes each once) under a request's traffic.
    `held` is the number of mean requests that each holds at once. Predictions are kept, since all bounds come
    together and searches for counts return to the same loads."""

    def __init__(
        self,
        request: ServingQuestion,
        options: Sequence[ServingOption],
        predictor: ServingPredictor,
        predicted: Predicted,
    ) -> None:
        distinct = {id(option.deployment): option for option in options}
        self._numbers = {key: number for number, key in enumerate(distinct)}
        self._ids = list(distinct)
        self._deployments = [option.deployment for option in distinct.values()]
        most = [min(option.memory.largest_concurrency, MOST_SEQUENCES) for option in distinct.values()]
        self.held = np.array(most, dtype=float)
        self._predictor, self._confidence = predictor, request.confidence
        self._of_users = traffic_of(request)
        self._traffic = self._of_users._replace(think_seconds=0.0)
        self._known = predicted.setdefault(request.confidence, {})
        self.grid = self._on_grid()
        # The most requests per second (3, n) that each deployment answers.
        self.capacity = np.nan_to_num(self.grid.output).max(axis=2) / request.output_tokens

    def numbers(self, options: Sequence[ServingOption]) -> Integers:
        """The number of each option's deployment."""
        return np.array([self._numbers[id(option.deployment)] for option in options], dtype=np.intp)

    def with_users(self, replicas: Integers, users: Floats, within: Booleans) -> Rates:
        """Rates of deployments with so many users each; nan where these are not `within` the memory."""
        return self._under(replicas, users, within, self._of_users)

    def with_arrivals(self, replicas: Integers, requests_per_second: Floats, level: Level) -> Rates:
        """Rates of deployments to which requests arrive by themselves; nan beyond their capacity."""
        within = requests_per_second <= self.capacity[level, replicas]
        rates = self._under(replicas, requests_per_second, within, self._traffic, loaded=True)
        # The output is what the arriving requests need, up to the capacity.
        answered = np.minimum(requests_per_second, self.capacity[:, replicas]) * self._traffic.output_tokens
        return rates._replace(output=np.where(np.isnan(rates.tpot), np.nan, answered))

    def grid_of(self, replicas: Integers, *, arrives: bool) -> Rates:
        """Rates of deployments at the loads of the grid (n, k); with `arrives`, at the arrival rates that
        keep so many sequences in flight."""
        grid = self.grid.take((replicas,))
        if not arrives:
            return grid
        coming = grid.output[Level.MEDIAN] / self._traffic.output_tokens
        rows = np.repeat(replicas, coming.shape[1])
        return self.with_arrivals(rows, coming.ravel(), Level.MEDIAN).shaped(coming.shape)

    def _on_grid(self) -> Rates:
        """Rates (n, k) of all deployments at the loads of `GRID` that memory holds, then at the most."""
        steps = np.array(GRID, dtype=float)
        points = np.minimum(steps[None, :], self.held[:, None])
        new = np.ones(points.shape, dtype=bool)
        new[:, 1:] = points[:, 1:] > points[:, :-1]
        rows = np.repeat(np.arange(len(points)), len(steps))
        rates = self._under(rows, points.ravel(), new.ravel(), self._traffic)
        return rates._replace(concurrency=points.ravel()).shaped(points.shape)

    def _under(
        self, rows: Integers, loads: Floats, within: Booleans, traffic: Traffic, *, loaded: bool = False
    ) -> Rates:
        """The predicted rates of each load that is `within` what can be carried; nan for others."""
        some = np.flatnonzero(within)
        numbers, known = rows[some].tolist(), self._known
        keys = [
            (traffic, loaded, self._ids[number], load)
            for number, load in zip(numbers, loads[some].tolist(), strict=True)
        ]
        new = {key: number for key, number in zip(keys, numbers, strict=True) if key not in known}
        if new:
            ask = self._predictor.under_load if loaded else self._predictor.closed_loop
            deployments = [self._deployments[number] for number in new.values()]
            served = ask(deployments, traffic, np.array([load for *_, load in new]), self._confidence)
            known.update(zip(new, _columns(served).T, strict=True))
        columns = np.full((_COLUMNS, len(rows)), np.nan)
        columns[_PLACE:] = 0
        if keys:
            columns[:, some] = np.array([known[key] for key in keys]).T
        output, ttft, tpot = columns[:_PLACE].reshape(3, 3, len(rows))
        concurrency, binds, calibrated, *tails = columns[_PLACE:]
        concurrency[~within] = loads[~within]
        words = np.array(BINDS)[binds.astype(np.intp)]
        return Rates(concurrency, output, ttft, tpot, words, calibrated.astype(bool), np.array(tails))


# Three bounds of rate, TTFT and TPOT; then sequences in flight, what binds, `calibrated`, and tails.
_PLACE = 9
_COLUMNS = _PLACE + 3 + len(REQUEST_TIMES) * len(PERCENTILES)


def _columns(served: PredictedRates) -> Floats:
    """The columns (24, n) that are kept of predictions: first rate, TTFT and TPOT, each by `Level`."""
    rate, ttft, tpot = served.output_tokens_per_second, served.ttft_seconds, served.tpot_seconds
    bounds = [
        *(rate.lower, rate.median, rate.upper),
        *(ttft.upper, ttft.median, ttft.lower),
        *(tpot.upper, tpot.median, tpot.lower),
    ]
    tails = (
        np.concatenate(served.tails) if served.tails else np.ones((_COLUMNS - _PLACE - 3, len(rate.median)))
    )
    return np.array([*bounds, served.in_flight, served.binds, served.calibrated, *tails], dtype=float)


# Beyond this share of the capacity, arriving requests wait for each other: mean TTFT is 1.5 times an idle
# server's below 60 % of its capacity, and 1.9 times above 80 % (TensorRT-LLM's open-loop tables).
_BUSY = 0.8


class ServingTable(OptionTable[ServingOption], frozen=True, kw_only=True):
    """Options as columns (n,), solved for a request, each with as many instances as it needs, or the most
    that are allowed. `rates` are those of one replica at its load, `most` at the largest load that keeps the
    limits; `limits` on load and times are in the order in which they are checked."""

    count: Integers
    rates: Rates
    most: Rates
    limits: tuple[Limit, ...]

    @property
    def at_once(self) -> Floats:
        """The number of replicas (or of their ranks) of all instances."""
        return np.asarray(self.count * [option.placement.batches for option in self.options], dtype=float)

    def busy(self, request: ServingQuestion) -> Floats:
        """The number of replicas under the load of `rates`, which rounds users up: some have fewer."""
        if request.users is None:
            return self.at_once
        return np.minimum(self.at_once, request.users / users_of(request, self.rates, Level.MEDIAN))

    def most_output(self, level: Level) -> Floats:
        """Output tokens per second of all instances at the largest load that keeps the limits."""
        return np.asarray(self.at_once * self.most.output[level])

    def beside(self, other: ServingTable) -> ServingTable:
        """These rows, followed by those of another table with the same limits."""
        columns = option_columns([*self.options, *other.options])
        return replace(
            self,
            **columns,
            count=np.concatenate([self.count, other.count]),
            rates=self.rates.beside(other.rates),
            most=self.most.beside(other.most),
            limits=tuple(own.beside(more) for own, more in zip(self.limits, other.limits, strict=True)),
        )

    def take(self, rows: Integers | Booleans) -> ServingTable:
        """Some of the rows."""
        some = np.arange(len(self))[rows]
        return replace(
            super().take(some),
            count=self.count[some],
            rates=self.rates.take((some,)),
            most=self.most.take((some,)),
            limits=tuple(limit.take(some) for limit in self.limits),
        )

    def candidate(
        self, request: ServingQuestion, row: int, predictor: ServingPredictor
    ) -> GenerationCandidate:
        """The row as a candidate."""
        option, index = self.options[row], (np.array(row),)
        deployment, placement = option.deployment, option.placement
        rates, most = self.rates.take(index), self.most.take(index)
        replicas, busy = float(self.at_once[row]), float(self.busy(request)[row])
        return GenerationCandidate(
            spec=Spec(offer=option.offer, disk=option.disk, count=int(self.count[row])),
            placement=placement,
            model=request.model,
            precision=LlmPrecision(deployment.precision),
            kv_precision=KvPrecision(deployment.kv_precision),
            engine=LlmEngine(deployment.engine),
            engine_version=predictor.engine_version(deployment.engine),
            input_tokens=request.prompt_tokens,
            output_tokens=request.output_tokens,
            memory=replace(
                option.memory,
                largest_concurrency=option.memory.largest_concurrency * placement.ranks * placement.nodes,
            ),
            rates=replace(rates_record(request, rates, busy), tails=tails_record(request, rates)),
            most=rates_record(request, most, replicas),
            ready=option.ready,
            binds=_binding(request, option, rates, float(most.output[Level.MEDIAN])),
            offered_requests_per_second=request.target_requests_per_second,
            calibrated=bool(rates.calibrated),
            extrapolation=predictor.unmeasured(deployment),
            notes=option.notes,
            withheld=predictor.withheld(deployment, float(rates.concurrency)),
            api_usd_per_million_tokens=request.api_usd_per_million_tokens,
            target_output_tokens_per_second=request.target_output_tokens_per_second,
        )


def _binding(
    request: ServingQuestion, option: ServingOption, rates: Rates, most_output: float
) -> ServingBind:
    """The bottleneck of an option: the load where requests arrive almost as fast as they are answered, memory
    where it holds fewer sequences than the engine allows, else what limits its step."""
    if request.target_requests_per_second is not None and rates.output[Level.MEDIAN] / most_output > _BUSY:
        return ServingBind.LOAD
    most = most_sequences(request.engine)
    held = min(option.memory.largest_concurrency, most)
    if held < most and float(rates.concurrency) >= held:
        return ServingBind.MEMORY
    return ServingBind(str(rates.binds))


def tails_record(request: ServingQuestion, rates: Rates) -> tuple[tuple[Span, ...], ...]:
    """The TTFT, TPOT and time of a request at each percentile, under one load."""
    means = {"ttft": rates.ttft, "tpot": rates.tpot, "e2e": rates.e2e(request.output_tokens)}
    return tuple(
        tuple(time_span(values * rates.tail(time, percentile)) for percentile in PERCENTILES)
        for time, values in means.items()
    )


def rates_record(request: ServingQuestion, rates: Rates, replicas: float) -> ServingRates:
    """The rates of all replicas from those of one; their errors are the same, so that bounds add."""
    lower, median, upper = np.nan_to_num(rates.output).tolist()  # nan: a load that cannot be carried
    output = Span(lower=lower, median=median, upper=upper)
    return ServingRates(
        concurrency=float(rates.concurrency) * replicas,
        output_tokens_per_second=output.times(replicas),
        requests_per_second=output.times(replicas / request.output_tokens),
        ttft_seconds=time_span(rates.ttft),
        tpot_seconds=time_span(rates.tpot),
        e2e_seconds=time_span(rates.e2e(request.output_tokens)),
    )
