"""Deployments with their requests as columns, and the seconds that follow for one set of logs.

Where requests come at a rate of their own (Poisson), how many are in flight follows from Little's law: rate x
seconds of a request, whose seconds grow with those in flight.

Percentiles of times follow from their means and from what requests differ in. A first token waits for prompts
of others. In a benchmark all start together and wait for up to all the others' prompts, each as likely as
another, and who does not wait before its first token waits between its tokens: so that the mean tells how
many do, and the longest wait is known. Long after the start of a closed loop, and where requests arrive by
themselves, they queue, which has an exponential tail. Lengths are log-normal around their means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.domain.words import PERCENTILES, LlmEngine
from advisor.models.bayes import Bounds, Floats
from advisor.models.language.deployments import Deployment, Traffic
from advisor.models.language.memory import card_gib, serving_memory, starting_sequences
from advisor.models.language.serving.seconds import (
    MOST_BUSY,
    Logs,
    Requests,
    RequestSeconds,
    closed_loop_seconds,
    open_loop_seconds,
    prompt_seconds,
    smooth_maximum_shares,
    step_parts,
)
from advisor.models.language.serving.work import work_of

# The normal distribution's quantile of each percentile.
_NORMAL = np.array([0.0, 1.2816, 1.6449, 2.3263])[:, None]
_BELOW = np.array(PERCENTILES)[:, None] / 100
# One request's own scatter around the mean of its like: engines schedule and sample beside it.
_SCATTER = 0.03
_LITTLE = 1e-12
Booleans = NDArray[np.bool_]


class Tails(NamedTuple):
    """Times at each of `PERCENTILES` over their means, each (4, n)."""

    ttft: Floats
    tpot: Floats
    e2e: Floats


# An interval is cut into so many parts at once, so often: fewer calls than halving it 30 times.
_PARTS, _CUTS = 32, 6


class Flow(NamedTuple):
    """The steady state of a rate of requests, each (n,); nan beyond capacity.

    `in_flight` counts requests that are worked on, `waiting_seconds` is spent before that, where as many are
    in flight as memory holds."""

    in_flight: Floats
    waiting_seconds: Floats


def open_loop(
    request_seconds: Callable[[Floats], Floats],
    rate: Floats,
    most_in_flight: Floats,
    burstiness: Floats | float = 1.0,
) -> Flow:
    """The flow of `rate` (n,) requests a second, found by cutting intervals.

    `request_seconds` returns the seconds of a request (n,) given the number in flight (.., n), including
    itself. An arriving request sees the mean number in flight (Poisson arrivals see time averages). If all
    `most_in_flight` (n,) places are taken it waits, by Sakasegawa's approximation of M/M/c (1977), and
    longer if requests arrive in bursts."""

    def short(in_flight: Floats) -> Booleans:
        return np.asarray(in_flight / request_seconds(in_flight + 1) < rate)

    high = _cut(short, np.zeros_like(rate), np.maximum(most_in_flight - 1, 0.0))
    capacity = most_in_flight / request_seconds(most_in_flight)
    busy = rate / capacity
    seconds = request_seconds(high + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        places = np.maximum(most_in_flight, 1.0)
        wait = seconds * busy ** (np.sqrt(2 * (places + 1)) - 1) / (places * (1 - busy))
        wait *= (1 + 1 / burstiness) / 2
    within = busy < MOST_BUSY
    return Flow(np.where(within, high, np.nan), np.where(within, wait, np.nan))


def found_in_flight(request_seconds: Callable[[Floats], Floats], users: Floats, think: Floats) -> Floats:
    """Requests in flight that one finds which begins, itself included, (n,), of `users` (n,) who wait `think`
    (n,) seconds before the next: each of the others is in flight for its part of the time (the arrival
    theorem)."""
    if not think.any():
        return users

    def short(found: Floats) -> Booleans:
        seconds = request_seconds(found)
        return np.asarray(found < 1 + (users - 1) * seconds / (seconds + think))

    return np.where(think > 0, _cut(short, np.minimum(users, 1.0), users), users)


def _cut(short: Callable[[Floats], Booleans], low: Floats, high: Floats) -> Floats:
    """The smallest number between `low` and `high`, each (n,), that is not `short` (.., n), from above."""
    steps = np.arange(1, _PARTS)[:, None]
    for _ in range(_CUTS):
        part = (high - low) / _PARTS
        low = low + short(low + steps * part).sum(axis=0) * part
        high = low + part
    return high


# The engine that keeps room for whole answers, and what others need of an output in the mean.
_KEEPS_ROOM, _ROOM = "trtllm", 0.6
# What engines take in at once where nobody limits them (TensorRT-LLM's default).
MOST_SEQUENCES = 2048
# What holds a rate back, in the order of `ServingRates.binds`.
BINDS = ("weights", "kv", "arithmetic", "all_reduce", "overhead", "prefill")
# Seconds of each token after the first, until the first, and of the replica per output token.
QUANTITIES = ("each_token", "first_token", "rate")


class ServingRates(NamedTuple):
    """Rates of n replicas, columns of shape (n,); nan where a rate cannot be served.

    `tpot_seconds` is the mean time of an output token after the first, `ttft_seconds` that until the first;
    `output_tokens_per_second` is of the whole replica, `in_flight` its sequences. `binds` indexes `BINDS`.
    `calibrated`: the bounds are quantiles of held-out residuals. `tails` are None of a batch, whose requests
    end together."""

    tpot_seconds: Bounds
    ttft_seconds: Bounds
    output_tokens_per_second: Bounds
    in_flight: Floats
    binds: NDArray[np.intp]
    calibrated: Booleans
    tails: Tails | None = None


def requests_of(deployments: Sequence[Deployment], traffic: Sequence[Traffic]) -> Requests:
    """The columns of deployments, each under its own traffic."""
    columns = np.array(traffic, dtype=float).reshape(len(deployments), len(Traffic._fields))
    input_tokens, output_tokens, prefix_share, _, *further = columns.T
    return Requests(
        work=work_of(deployments),
        input_tokens=input_tokens,
        computed_tokens=np.maximum(input_tokens * (1 - prefix_share), 1.0),
        output_tokens=output_tokens,
        held=sequences_held(deployments, input_tokens, output_tokens),
        **dict(zip(Traffic._fields[4:], further, strict=True)),
    )


def sequences_held(deployments: Sequence[Deployment], input_tokens: Floats, output_tokens: Floats) -> Floats:
    """Sequences that replicas take in at once, (n,): as the KV cache's median size holds, at most as many as
    the engine admits.

    TensorRT-LLM keeps room for the whole answer, the others take pages as an answer grows: then sequences of
    all ages hold half of it in the mean, and some room is left for longer ones."""
    if not deployments:
        return np.zeros(0)
    memory = serving_memory(
        [entry.model for entry in deployments],
        [entry.precision for entry in deployments],
        [entry.kv_precision for entry in deployments],
        [card_gib(entry.gpu.name, entry.gpu.memory_gib) for entry in deployments],
        [entry.tensor_parallel for entry in deployments],
        [entry.engine for entry in deployments],
        nodes=[entry.nodes for entry in deployments],
        ranks=[entry.ranks for entry in deployments],
        drafts=[entry.draft and entry.draft.model for entry in deployments],
    )
    kept = [1.0 if entry.engine == _KEEPS_ROOM else _ROOM for entry in deployments]
    tokens = input_tokens + np.array(kept) * output_tokens
    # Where nobody limits them.
    unasked = [
        float(starting_sequences(entry.gpu.memory_gib)) if entry.engine == LlmEngine.VLLM else MOST_SEQUENCES
        for entry in deployments
    ]
    limits = [entry.max_sequences or most for entry, most in zip(deployments, unasked, strict=True)]
    return np.asarray(np.minimum(memory.most_sequences(tokens).median, limits))


class RequestLogs(NamedTuple):
    """Log seconds, each (n,): of each token, of a first one, and of the replica per token."""

    each_token: Floats
    first_token: Floats
    rate: Floats


def request_logs(
    requests: Requests, logs: Logs, sequences: Floats, waiting: Floats, arrivals: Floats | None = None
) -> RequestLogs:
    """With `sequences` (n,) in flight, each of which waited `waiting` (n,) of its own time in service before;
    `arrivals` (n,) a second of requests that come by themselves, None: a closed loop."""
    seconds, first = _seconds_of(requests, logs, sequences, waiting, arrivals)
    return RequestLogs(np.log(seconds.each_token), np.log(first), np.log(seconds.rate))


def _seconds_of(
    requests: Requests, logs: Logs, sequences: Floats, waiting: Floats, arrivals: Floats | None
) -> tuple[RequestSeconds, Floats]:
    """Seconds of a request in service, and until its first token with the wait for a place, (n,)."""
    if arrivals is None:
        seconds = closed_loop_seconds(requests, logs, sequences)
    else:
        seconds = open_loop_seconds(requests, logs, sequences, arrivals)
    return seconds, seconds.first_token + waiting * seconds.rate * sequences * requests.output_tokens


def tails_under(
    requests: Requests, logs: Logs, sequences: Floats, waiting: Floats, arrivals: Floats | None = None
) -> Tails:
    """What requests differ in, as of `request_logs`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        seconds, first = _seconds_of(requests, logs, sequences, waiting, arrivals)
        lengths = length_factors(requests.input_sigma)
        read, seen = requests.computed_tokens * lengths, requests.seen_tokens * lengths
        prompts = prompt_seconds(requests.work, logs, read, seen)
        return tails_of(seconds, first, prompts, requests.output_tokens, requests.output_sigma)


def length_factors(sigma: Floats) -> Floats:
    """Lengths over their mean, (4, n), for the deviation of their logarithm (n,)."""
    return np.asarray(np.exp(_NORMAL * sigma - sigma**2 / 2))


def tails_of(
    seconds: RequestSeconds, first_token: Floats, prompts: Floats, output_tokens: Floats, sigma: Floats
) -> Tails:
    """With means of `first_token` (n,), which may count a wait for a place; `prompts` (4, n) are seconds of
    prompts at each percentile of their lengths, `sigma` (n,) is of the answers'."""
    waited, most, chance = seconds.waited, seconds.most, np.maximum(seconds.chance, _LITTLE)
    started = seconds.started > 0
    longest = np.where(started, most, 0.0)
    least = np.maximum(2 * waited - longest, 0.0)

    def waits(above: Floats) -> Floats:
        """The wait that a share `above` (4, 1) of all requests exceeds."""
        uniform = np.maximum(longest - above / chance * (longest - least), 0.0)
        # Who finds one prompt alone before its own waits for the rest of it; many are as a queue's.
        queue = waited / chance * (1 + chance) / 2 * np.log(np.maximum(chance / above, 1.0))
        return np.asarray(np.where(started, uniform, np.minimum(queue, most)))

    gaps, each = output_tokens - 1, seconds.each_token
    step = each - seconds.slowed * seconds.between
    # A request that comes finds a step under way.
    coming = (_BELOW - 0.5) * step
    first = _of_sum(waits(1 - _BELOW) - waited, prompts - seconds.prompt, coming, _NORMAL * _SCATTER * step)
    # Who waited least has most prompts of others between its tokens; they hit short answers harder.
    of_others = np.where(started, waited - waits(_BELOW), 0.0) / np.maximum(seconds.prompt, _LITTLE)
    by_chance = _NORMAL * np.sqrt(seconds.between) * np.exp(sigma**2 / 2)
    slower = _of_sum(seconds.slowed * of_others, seconds.slowed * by_chance, _NORMAL * _SCATTER * each)
    whole = first_token + gaps * each
    longer = gaps * each * (length_factors(sigma) - 1)
    of_whole = _of_sum(longer, np.where(started, 0.0, first), gaps * seconds.slowed * by_chance)
    return Tails(1 + first / first_token, 1 + slower / each, 1 + of_whole / np.maximum(whole, _LITTLE))


def _of_sum(*deviations: Floats) -> Floats:
    """The deviation of a sum from its mean, by those of its independent parts."""
    squares = np.asarray(sum(deviation * np.abs(deviation) for deviation in deviations))
    return np.asarray(np.sign(squares) * np.sqrt(np.abs(squares)))


def binding(requests: Requests, logs: Logs, sequences: Floats) -> NDArray[np.intp]:
    """Index into `BINDS` of the part that takes most of a request's seconds, (n,)."""
    parts = step_parts(requests.work, logs, sequences, requests.usual_context)
    of_memory = smooth_maximum_shares(parts.weights + parts.kv, parts.arithmetic)
    prompt = prompt_seconds(requests.work, logs, requests.computed_tokens, requests.seen_tokens)
    prompts = np.exp(logs.mixed) * sequences * prompt * requests.work.yielded / requests.output_tokens
    seconds = np.stack(
        [
            np.where(of_memory >= 0.5, parts.weights, 0.0),
            np.where(of_memory >= 0.5, parts.kv, 0.0),
            np.where(of_memory < 0.5, parts.arithmetic, 0.0),
            parts.all_reduce,
            parts.overhead,
            prompts,
        ]
    )
    return np.asarray(np.argmax(seconds, axis=0), dtype=np.intp)
