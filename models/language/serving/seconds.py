"""Seconds of a step, of a prompt and of a request, from work and the logs of what GPUs reach.

Step = smooth maximum of memory and arithmetic, then all-reduce and the engine's own time. The quantities that
nobody's data sheet tells are `Logs`, sums of effects that were fitted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.models.bayes import Floats
from advisor.models.language.serving.work import ModelWork, Work


class Logs(NamedTuple):
    """Natural logarithms, each (n,), of what is fitted.

    Shares of peaks: `weights` and `kv` of the memory's bandwidth, `decode`, `prefill` of arithmetic in steps
    and prompts, `attention` of the 16-bit peak in long prompts, `link` of the bandwidth between GPUs.
    Seconds: `latency` of one all-reduce, `constant`, `layer`, `mixture`, `mla` and `sequence` of the engine
    in each step, each layer of a kind and each sequence, `launch` of a prompt's kernels in each layer,
    `first` of the engine before a first token. Factors: `overhead` of the engine's seconds in a step,
    `spread` how PCIe falls behind with each doubling of GPUs, `mixed` the part of a prompt's seconds that
    steps wait for, `queue` the part of prompts that start together which a first token waits for, `together`
    how many prompts go with one's own; `step` and `prompt` of the whole."""

    weights: Floats
    kv: Floats
    decode: Floats
    prefill: Floats
    attention: Floats
    link: Floats
    latency: Floats
    spread: Floats
    overhead: Floats
    constant: Floats
    layer: Floats
    mixture: Floats
    mla: Floats
    sequence: Floats
    launch: Floats
    mixed: Floats
    first: Floats
    queue: Floats
    together: Floats
    step: Floats
    prompt: Floats


# No kernel reads or computes faster than this share of a peak; shares approach it smoothly.
MOST_SHARE, _SHARPNESS = 0.95, 4.0
# How sharply memory and arithmetic limit a step: kernels are bound by one or the other.
_JOIN = 4.0
# All-reduces of a layer, behind attention and behind the feed-forward layer; 16-bit activations.
_ALL_REDUCES, _ACTIVATION_BYTES = 2.0, 2.0
# From one node to the next and back, assumed: no row is of several nodes, and bounds are wide for it.
_HOP_SECONDS = 5e-4


class Requests(NamedTuple):
    """Deployments with their requests, as columns (n,).

    `computed_tokens` are those of the input that no prefix cache has; `held` is the most sequences that a
    replica takes in; the rest is as of `Traffic`."""

    work: Work
    input_tokens: Floats
    computed_tokens: Floats
    output_tokens: Floats
    held: Floats
    input_sigma: Floats
    output_sigma: Floats
    burstiness: Floats
    tower_tokens: Floats
    think_seconds: Floats
    starts_together: Floats

    def take(self, rows: NDArray[np.intp]) -> Requests:
        """The rows of the given numbers, repeated where a number is."""
        return Requests(self.work.take(rows), *(column[rows] for column in self[1:]))

    @property
    def usual_context(self) -> Floats:
        """Tokens in the cache of a sequence, on average over its answer."""
        return self.input_tokens + self.output_tokens / 2

    @property
    def seen_tokens(self) -> Floats:
        """Twice the mean number of tokens that a computed token of a prompt attends to."""
        return 2 * self.input_tokens - self.computed_tokens


class Parts(NamedTuple):
    """The parts of one step's seconds, each (n,), before the factor `step` of the whole."""

    weights: Floats
    kv: Floats
    arithmetic: Floats
    all_reduce: Floats
    overhead: Floats


def share(logs: Floats) -> Floats:
    """The share of a peak that `logs` mean, limited to below `MOST_SHARE`."""
    return np.asarray((np.exp(-_SHARPNESS * logs) + MOST_SHARE**-_SHARPNESS) ** (-1 / _SHARPNESS))


def smooth_maximum(first: Floats, other: Floats) -> Floats:
    """`(a^p + b^p)^(1/p)`: at most 19 % above the larger."""
    return np.asarray((first**_JOIN + other**_JOIN) ** (1 / _JOIN))


def smooth_maximum_shares(first: Floats, other: Floats) -> Floats:
    """The share of `one` in their smooth maximum, 0 to 1."""
    return np.asarray(first**_JOIN / (first**_JOIN + other**_JOIN))


def step_parts(work: Work, logs: Logs, sequences: Floats, context: Floats) -> Parts:
    """One step of `sequences` (n,) with `context` tokens each in the cache (n,), of which each has its
    drafted tokens checked; drafting counts as overhead."""
    tokens = sequences * (1 + work.drafted)
    return Parts(
        weights=_weight_bytes(work, tokens) / (work.memory * share(logs.weights)),
        kv=sequences * _kept_bytes(work, context) / (work.memory * share(logs.kv)),
        arithmetic=tokens * _token_seconds(work, logs.decode),
        all_reduce=_all_reduces(work, logs, tokens),
        overhead=_overhead(work, logs, sequences) + _drafting(work, logs, sequences, context),
    )


def _drafting(work: Work, logs: Logs, sequences: Floats, context: Floats) -> Floats:
    """Seconds to draft the tokens of a step, one after the other."""
    read = work.draft_bytes / work.tensor_parallel + sequences * context * work.draft_kv
    computed = 2 * sequences * work.draft_weights / (work.tensor_parallel * work.sixteen_peak)
    each = np.maximum(read / (work.memory * share(logs.weights)), computed / share(logs.decode))
    return np.asarray(work.drafted * (each + work.draft_layers * np.exp(logs.layer)))


def step_seconds(parts: Parts, logs: Logs) -> Floats:
    """Seconds of the whole step (n,)."""
    joined = smooth_maximum(parts.weights + parts.kv, parts.arithmetic)
    seconds = (joined + parts.all_reduce + parts.overhead) * np.exp(logs.step)
    # Whatever a model or a version was seen to do, its bytes take this long.
    bytes_alone = parts.weights * share(logs.weights) + parts.kv * share(logs.kv)
    return np.asarray(np.maximum(seconds, bytes_alone / MOST_SHARE))


def prompt_seconds(work: Work, logs: Logs, tokens: Floats, length: Floats, launched: bool = True) -> Floats:
    """Reading `tokens` (n,) of prompts, without the engine's own time; each sees half of `length`
    (n,) tokens in the mean. Not `launched`: beside steps, behind which launches hide."""
    model, gpus = work.model, work.tensor_parallel
    seen = _seen(model, length / 2)
    attention = 2 * tokens * seen * model.attention_width / gpus
    arithmetic = tokens * _token_seconds(work, logs.prefill) + attention / (
        work.sixteen_peak * share(logs.attention)
    )
    memory = _weight_bytes(work, tokens) / (work.memory * share(logs.weights))
    # Prompts run without CUDA graphs: a GPU that is done waits for the next launch.
    launches = model.layers * np.exp(logs.launch)
    computed = smooth_maximum(memory, arithmetic)
    if launched:
        computed = smooth_maximum(computed, launches)
    return np.asarray((computed + _all_reduces(work, logs, tokens)) * np.exp(logs.prompt))


def _weight_bytes(work: Work, tokens: Floats) -> Floats:
    """Bytes of the weights that one GPU reads for `tokens` at once: of experts, those that they touch."""
    model = work.model
    touched = 1 - (1 - model.experts_per_token / model.experts) ** (tokens * work.ranks)
    of_experts = model.expert_bytes * touched / work.ranks
    return np.asarray((model.fixed_bytes + of_experts) / work.tensor_parallel)


def _seen(model: ModelWork, context: Floats) -> Floats:
    """The mean number of tokens that a layer attends to."""
    window = np.minimum(context, model.window)
    return np.asarray(model.whole_layers * context + (1 - model.whole_layers) * window)


def _kept_bytes(work: Work, context: Floats) -> Floats:
    """Bytes that a step reads of a sequence of `context` tokens, on one GPU."""
    return np.asarray(_seen(work.model, context) * work.kv_bytes + work.state_bytes)


def _token_seconds(work: Work, logs: Floats) -> Floats:
    """Seconds of arithmetic for one token on one GPU, without attention."""
    model, reached = work.model, share(logs)
    quantised = model.fixed_weights - model.sixteen_weights + model.expert_weights
    peak_seconds = model.sixteen_weights / work.sixteen_peak + quantised / work.format_peak
    return np.asarray(2 * peak_seconds / (work.tensor_parallel * reached))


def _all_reduces(work: Work, logs: Logs, tokens: Floats) -> Floats:
    """All of a step, and what goes from node to node. Where ranks share the experts there is one behind
    attention, and one of what all ranks send to the experts and back."""
    model, gpus, ranks = work.model, work.tensor_parallel, work.ranks
    inside = _all_reduce(work, logs, gpus, tokens)
    to_experts = model.mixture_layers * _all_reduce(work, logs, gpus * ranks, tokens * ranks)
    alike = _ALL_REDUCES * model.layers * inside
    # From node to node goes one vector a token, and back the token.
    hops = work.nodes - 1
    passed = hops * (_HOP_SECONDS + tokens * model.hidden * _ACTIVATION_BYTES / work.between)
    return np.asarray(np.where(ranks > 1, model.layers * inside + to_experts, alike) + passed)


def _all_reduce(work: Work, logs: Logs, gpus: Floats, tokens: Floats) -> Floats:
    """Seconds of one all-reduce over so many GPUs (n,): latency, plus 2 (n - 1) / n activations by link."""
    doublings = np.log2(np.maximum(gpus, 1))
    over_nvlink = work.nvlink > 0
    rate = np.where(
        over_nvlink, work.nvlink, work.pcie * np.exp(-np.exp(logs.spread) * (doublings - 1))
    ) * share(logs.link)
    latency = np.exp(logs.latency) * np.where(over_nvlink, 0.7 + 0.3 * doublings, gpus / 2)
    moved = 2 * (gpus - 1) / gpus * tokens * work.model.hidden * _ACTIVATION_BYTES
    return np.where(gpus > 1, latency + moved / rate, 0.0)


def _overhead(work: Work, logs: Logs, sequences: Floats) -> Floats:
    """Seconds that the engine adds to a step: its scheduler, the launches of each layer, sampling."""
    model = work.model
    seconds = (
        work.nodes * np.exp(logs.constant)
        + model.layers * np.exp(logs.layer)
        + model.mixture_layers * np.exp(logs.mixture)
        + model.layers * model.is_mla * np.exp(logs.mla)
        + sequences * np.exp(logs.sequence)
    )
    return np.asarray(seconds * np.exp(logs.overhead))


class RequestSeconds(NamedTuple):
    """Means of a request's phases, each (n,), `service` of all; `rate`: of the replica for each output token.
    What requests differ in (`tails`): seconds of their own `prompt`; seconds that they `waited` for those of
    others, `most` at all (inf: no end), a share `chance` of them any, as in a queue unless all `started`
    together; prompts of others that are read between a request's tokens, and what each adds to the time of
    one (`slowed`)."""

    first_token: Floats
    each_token: Floats
    rate: Floats
    service: Floats
    prompt: Floats
    waited: Floats
    most: Floats
    chance: Floats
    started: Floats
    between: Floats
    slowed: Floats


# A queue of prompts is not told nearer to its end than this: beyond, all in flight wait in it.
MOST_BUSY = 0.98
# Answers of one token have no gap between tokens.
_NO_GAP = 1e-9


class _Server(NamedTuple):
    """What requests in flight share, each (n,): seconds of a `step`, of its `weights` that prompts beside it
    do not read again, of one `prompt` and of each of many; steps between a request's tokens; how many
    `others` are in flight, and how many of their prompts go `together` with one's own."""

    requests: Requests
    logs: Logs
    step: Floats
    weights: Floats
    prompt: Floats
    of_many: Floats
    gaps: Floats
    others: Floats
    together: Floats

    def longer(self, read: Floats) -> Floats:
        """Seconds that prompts add to a step, which reads its weights once."""
        return smooth_maximum(read, self.weights) - self.weights

    def between(self, left: Floats) -> tuple[Floats, Floats]:
        """Seconds from token to token where `left` (n,) prompts of others are read between a request's, and
        of those beyond. With more prompts than gaps a step reads several, up to the most tokens of a step."""
        reads, most = np.exp(self.logs.mixed) * left, self.requests.work.step_tokens
        of_a_step = np.maximum(reads / np.maximum(self.gaps, 1.0), 1.0)
        of_a_step = np.minimum(of_a_step, most / self.requests.computed_tokens)
        steps, read = reads / of_a_step, _reading(self.requests, self.logs, of_a_step, launched=False)
        within = np.minimum(steps, self.gaps)
        each_token = self.step + within / np.maximum(self.gaps, _NO_GAP) * self.longer(read)
        return each_token, (steps - within) * read

    def served(
        self, each_token: Floats, waited: Floats, left: Floats, sequences: Floats, think: Floats | float = 0.0
    ) -> RequestSeconds:
        """A request that `waited` (n,) for prompts of others, as one in a queue without an end."""
        yielded = self.requests.work.yielded
        first_token = np.exp(self.logs.first) + self.step + self.prompt + waited
        service = first_token + self.gaps * each_token
        in_flight = self.others + np.minimum(sequences, 1.0) * service / (service + think)
        left = np.maximum(left, _NO_GAP)
        slower = (each_token - self.step) / yielded / left
        rate = service / (in_flight * self.requests.output_tokens)
        most, chance, started = np.full_like(left, np.inf), np.ones_like(left), np.zeros_like(left)
        of_prompts = self.prompt, waited, most, chance, started, left, slower
        return RequestSeconds(first_token, each_token / yielded, rate, service, *of_prompts)


def _reading(requests: Requests, logs: Logs, prompts: Floats, launched: bool = True) -> Floats:
    tokens = prompts * (requests.computed_tokens + requests.tower_tokens)
    return prompt_seconds(requests.work, logs, tokens, requests.seen_tokens, launched)


def _server(requests: Requests, logs: Logs, sequences: Floats) -> _Server:
    parts = step_parts(requests.work, logs, sequences, requests.usual_context)
    with_them = smooth_maximum(parts.weights + parts.kv, parts.arithmetic)
    others, several = np.maximum(sequences - 1, 0.0), np.maximum(sequences - 1, 1.0)
    return _Server(
        requests,
        logs,
        step=step_seconds(parts, logs),
        # What reading the weights adds to a step: nothing where arithmetic takes longer.
        weights=(with_them - smooth_maximum(parts.kv, parts.arithmetic)) * np.exp(logs.step),
        prompt=_reading(requests, logs, np.ones(1)),
        of_many=_reading(requests, logs, several) / several,
        # Between a request's tokens that several come of lie fewer steps.
        gaps=(requests.output_tokens - 1) / requests.work.yielded,
        others=others,
        together=np.exp(logs.together) * others / sequences,
    )


def closed_loop_seconds(requests: Requests, logs: Logs, sequences: Floats) -> RequestSeconds:
    """`sequences` (n,) in flight as who begins finds them, itself included: the next one begins when one has
    ended and its user has thought.

    A first token waits for its own prompt, for those that go with it, and where all start together for a part
    of all the others'. Long after the start prompts queue instead, as in M/M/1 of so many users: who begins
    finds what the others leave in the mean (Schweitzer's approximation). The prompts of others for which it
    did not wait are read between its steps, as far as steps do not hide them (`mixed`); those that its steps
    have no room for are waited for before the first token, too."""
    server = _server(requests, logs, sequences)
    others, started = server.others, requests.starts_together > 0
    # Seconds of a request that meets no prompt, and those that each prompt of others adds.
    alone = np.exp(logs.first) + server.prompt + (server.gaps + 1) * server.step
    each = np.exp(logs.mixed) * server.of_many
    at_start = np.exp(logs.queue) * others * server.of_many
    ahead = np.where(started, at_start / server.prompt, others * each / alone)
    # Each prompt of the others is waited for once: before the first token or between tokens.
    left = np.maximum(others - server.together - ahead, 0.0)
    each_token, beyond = server.between(left)
    waited = server.prompt * server.together + np.where(started, at_start, ahead * each) + beyond
    most = np.maximum(others * server.of_many, waited)
    uniform = np.minimum(2 * waited / np.maximum(most, _NO_GAP), 1.0)
    chance = np.where(started, uniform, others * each / (alone + others * each))
    served = server.served(each_token, waited, left, sequences, requests.think_seconds)
    return served._replace(most=most, chance=chance, started=requests.starts_together)


def open_loop_seconds(requests: Requests, logs: Logs, sequences: Floats, arrivals: Floats) -> RequestSeconds:
    """Requests that arrive by themselves, `arrivals` (n,) a second, with `sequences` (n,) in flight as who
    comes finds them, itself included: they queue as in M/M/1, longer where they come in bursts
    (`Traffic.burstiness`, after Allen and Cunneen)."""
    server = _server(requests, logs, sequences)
    each = np.exp(logs.mixed) * server.of_many
    busy = np.minimum(arrivals * each, MOST_BUSY)
    ahead = np.maximum(busy / (1 - busy), np.where(arrivals * each > busy, server.others, 0.0))
    queued = each * ahead * (1 + 1 / requests.burstiness) / 2
    # As many come between the own tokens as arrive meanwhile.
    read = _reading(requests, logs, np.ones(1), launched=False)
    slowed = np.minimum(arrivals * np.exp(logs.mixed) * server.longer(read), busy)
    left = arrivals * server.gaps * server.step / (1 - slowed)
    waited = server.prompt * server.together + queued
    return server.served(server.between(left)[0], waited, left, sequences)._replace(chance=busy)


def static_batch_seconds(requests: Requests, logs: Logs, sequences: Floats) -> Floats:
    """Seconds of a batch that begins and ends together (n,): all prompts first, then the steps."""
    parts, read = step_parts(requests.work, logs, sequences, requests.usual_context), requests.input_tokens
    prompts = prompt_seconds(requests.work, logs, sequences * read, read)
    steps = (requests.output_tokens - 1) / requests.work.yielded
    return prompts + parts.overhead + steps * step_seconds(parts, logs)


def least_seconds(
    requests: Requests, sequences: Floats, rate: Floats | None = None
) -> tuple[Floats, Floats, Floats]:
    """Seconds of a token after the first, of a first one, and of the replica for each output token
    (n,) that nothing goes below: at `MOST_SHARE` of its peaks, without link and engine. A step
    reads the cache of all that are past their first token then: by Little's law, where the replica
    takes `rate` seconds (n,) for each output token."""
    work, computed_tokens, output_tokens = requests.work, requests.computed_tokens, requests.output_tokens
    model, gpus = work.model, work.tensor_parallel
    peak, memory = np.maximum(work.sixteen_peak, work.format_peak), MOST_SHARE * work.memory
    attending = 2 * model.attention_width / (gpus * peak * MOST_SHARE)
    token = _token_seconds(work, np.asarray(np.inf))
    context = _seen(model, requests.usual_context)
    kv = _kept_bytes(work, requests.usual_context) / memory
    prompt = computed_tokens * (token + attending * _seen(model, requests.input_tokens - computed_tokens / 2))
    computed = prompt + output_tokens * (token + attending * context)
    of_one, of_all = (_weight_bytes(work, n) / memory for n in (np.ones(1), sequences))
    of_one, kv, of_all = of_one / work.yielded, kv / work.yielded, of_all / work.yielded
    read = output_tokens * of_all / sequences + (output_tokens - 1) * kv
    least = np.maximum(computed, read) / output_tokens
    making = (1 - 1 / sequences) * (1 - 1 / output_tokens)
    with_others = 0.0 if rate is None else making * kv / np.maximum(rate, least)
    first = np.maximum(of_one * work.yielded, prompt)
    return np.maximum((of_one + kv) / (1 - with_others), token), first, least
