"""Finds out how to send requests to an endpoint, keeps it under one load, and records every request."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from advisor.sweeps.measure.endpoint.client import Client, Dialect
from advisor.sweeps.measure.endpoint.protocol import Fault, RequestFailed
from advisor.sweeps.measure.endpoint.records import OK, DrivenLoad, Lengths, RequestRecord

# With the space before it, each word is one token for Llama, Qwen, Mistral and GPT; for other models
# `take_counts` measures the tokens of a word.
_TEXT = (
    "time year people way day man thing woman life child world school state family student group "
    "country problem hand part place case week company system program question work government "
    "number night point home water room mother area money story fact month lot right study book "
    "eye job word business issue side kind head house service friend father power hour game line "
    "end member law car city community name president team minute idea kid body information back "
    "parent face others level office door health person art war history party result change "
    "morning reason research girl guy moment air teacher force education"
)
_WORDS = _TEXT.split()
# Lengths of prompts and answers vary by this share, so that requests do not keep beginning and ending
# together.
_SPREAD = 0.1


class Prompts:
    """Random prompts; `fixed_tokens` are those of the chat template, in addition to `tokens_per_word`."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.fixed_tokens, self.tokens_per_word = 0.0, 1.0

    def text(self, tokens: float) -> str:
        """A prompt of about so many tokens, with at least one word."""
        return self.words(max(1, round((tokens - self.fixed_tokens) / self.tokens_per_word)))

    def words(self, count: int) -> str:
        """The given number of random words."""
        return " ".join(self._random.choices(_WORDS, k=count))

    def drawn_length(self, mean: int) -> int:
        """A random length within 10 % of the mean, uniformly distributed."""
        return max(1, round(mean * self._random.uniform(1 - _SPREAD, 1 + _SPREAD)))

    def gap_seconds(self, requests_per_second: float) -> float:
        """Random seconds until the next request of a Poisson process."""
        return self._random.expovariate(requests_per_second)

    def take_counts(self, first: tuple[int, int], second: tuple[int, int]) -> None:
        """Compute the tokens of a word from the (words, tokens) of two prompts that a server counted."""
        words = second[0] - first[0]
        if words and second[1] > first[1]:
            self.tokens_per_word = (second[1] - first[1]) / words
            self.fixed_tokens = max(0.0, first[1] - first[0] * self.tokens_per_word)


_PLAINEST = Dialect(False, False, False)
# In the order of preference: first those that force the length of answers and count tokens.
_DIALECTS = [
    Dialect(is_chat, *takes)
    for is_chat in (False, True)
    for takes in ((True, True), (False, True), (False, False))
]
# After one of these faults the server may still take the next dialect.
_NOT_THIS_WAY = (Fault.BAD_REQUEST, Fault.NOT_FOUND)
_NOT_IMPLEMENTED = 501
_FEW_WORDS, _MORE_WORDS = 16, 80
_FEW_TOKENS = 4
# The first answer may wait until kernels are compiled.
_MOST_SECONDS = 300.0
# The engine by the owner in the list of models.
_ENGINES = {"vllm": "vllm", "llamacpp": "llama.cpp", "sglang": "sglang"}


class Opening(Struct, frozen=True):
    """How to send requests. `engine` and `engine_version` are those that the server reports, "" if none;
    `counts_tokens`: it reports the tokens of prompts and answers."""

    served_model: str
    dialect: Dialect
    engine: str
    engine_version: str
    counts_tokens: bool


async def opening_of(client: Client, model: str, served_model: str, prompts: Prompts) -> Opening:
    """Find the model and calibrate prompts by a few requests. Raises `MeasuringError` if all fail."""
    try:
        listed = await _listed_models(client)
        # If a server has only one model, that is meant, whatever its name.
        names = [entry["id"] for entry in listed]
        only = names[0] if len(names) == 1 and model not in names else model
        name = served_model or only
        dialect, record = await _dialect_of(client, name, prompts)
    except RequestFailed as error:
        raise error.measuring_error(client.address.base) from error
    if record.input_tokens is not None:  # tokens per word, from two prompts that the server counts
        prompts.take_counts((0, 0), (_FEW_WORDS, record.input_tokens))
        with suppress(RequestFailed):  # the context is too short: the first prompt has to suffice
            more = await _short_answer(client, name, dialect, prompts.words(_MORE_WORDS))
            if more.input_tokens is not None:
                prompts.take_counts((_FEW_WORDS, record.input_tokens), (_MORE_WORDS, more.input_tokens))
    engine, version = await _engine_of(client, listed)
    return Opening(name, dialect, engine, version, record.input_tokens is not None)


async def _listed_models(client: Client) -> list[dict[str, Any]]:
    """The models that the server lists. Raises `RequestFailed` if it refuses the key or does not answer."""
    try:
        content = await client.document(f"{client.address.base}/models")
    except RequestFailed as error:
        # `transformers serve` fails here if no model was ever downloaded.
        if error.fault in (*_NOT_THIS_WAY, Fault.SERVER_ERROR, Fault.GARBAGE):
            return []
        raise
    data = content.get("data") if isinstance(content, dict) else None
    if not isinstance(data, list):
        return []
    return [entry for entry in data if isinstance(entry, dict) and isinstance(entry.get("id"), str)]


async def _dialect_of(client: Client, name: str, prompts: Prompts) -> tuple[Dialect, RequestRecord]:
    """The first dialect that the server takes, and its answer. If it takes none, raises the failure of the
    plainest completion, or of the last dialect if there is no route for completions."""
    failures = []
    for dialect in _DIALECTS:
        try:
            return dialect, await _short_answer(client, name, dialect, prompts.words(_FEW_WORDS))
        except RequestFailed as error:
            if error.fault not in _NOT_THIS_WAY and error.status != _NOT_IMPLEMENTED:
                raise
            failures.append(error)
    plainest = failures[_DIALECTS.index(_PLAINEST)]
    raise plainest if plainest.fault is Fault.BAD_REQUEST else failures[-1]


async def _short_answer(client: Client, name: str, dialect: Dialect, prompt: str) -> RequestRecord:
    record = RequestRecord(load=-1, slot=0, started_seconds=0.0, asked_tokens=_FEW_TOKENS)
    try:
        async with asyncio.timeout(_MOST_SECONDS):
            await client.complete(dialect.body(name, prompt, _FEW_TOKENS), dialect.route, record)
    except TimeoutError as error:  # it keeps sending without completing an answer
        raise RequestFailed(Fault.TIMED_OUT, f"{_MOST_SECONDS:g}") from error
    return record


async def _engine_of(client: Client, listed: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """The engine's name and version, from engine-specific routes; "" if unknown."""
    owner = str(listed[0].get("owned_by", "")) if listed else ""
    root = client.address.root
    by_owner = _ENGINES.get(owner, "")
    for route, key, engine in (
        ("/version", "version", by_owner),
        ("/props", "build_info", "llama.cpp"),
        ("/get_server_info", "version", "sglang"),
    ):
        with suppress(RequestFailed):
            content = await client.document(root + route)
            version = content.get(key) if isinstance(content, dict) else None
            if isinstance(version, str) and version:
                return engine, version[:100]
    return by_owner, ""


# After a failure a slot waits, longer each time, so that an overloaded server can recover.
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.25, 4.0
# After this number of consecutive failures, a load is given up.
_LEAST_FAILURES = 5
# How long to wait for answers in flight, so that the next load begins on an idle server.
_DRAIN_SECONDS = 5.0
_TICK_SECONDS = 0.02
_MOST_IN_FLIGHT = 4096


class Driver(Struct):
    """Generates one load; `keep` gets each request at its end."""

    client: Client
    opening: Opening
    prompts: Prompts
    lengths: Lengths
    keep: Callable[[RequestRecord], None]

    async def drive(self, driven: DrivenLoad, seconds: float) -> None:
        """Load the endpoint for some seconds, then wait for the answers in flight."""
        driven.began_seconds = self.client.now_seconds
        ends_at = driven.began_seconds + seconds
        ticker = asyncio.create_task(_tick(driven))
        busy = time.process_time()
        tasks: set[asyncio.Task[Any]] = set()
        slots = driven.load.concurrency
        try:
            if slots is None:
                await self._poisson(driven, ends_at, tasks)
            else:
                tasks |= {asyncio.create_task(self._slot(driven, ends_at, n, slots)) for n in range(slots)}
            await self._until_over(driven, ends_at, tasks)
        finally:
            now = self.client.now_seconds
            driven.ended_seconds = min(now, ends_at)
            driven.busy_share = (time.process_time() - busy) / max(1e-3, now - driven.began_seconds)
            for task in (ticker, *tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _slot(self, driven: DrivenLoad, ends_at: float, slot: int, slots: int) -> None:
        """Send one request after the other. The first answer's length depends on the slot, which spreads the
        requests in time as in a server that has run for long."""
        tokens = max(1, round(self.lengths.output_tokens * (slot + 1) / slots))
        wait = _FIRST_WAIT_SECONDS
        while self.client.now_seconds < ends_at and driven.failed is None:
            if await self._request(driven, slot, tokens):
                wait = _FIRST_WAIT_SECONDS
            else:
                await asyncio.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT_SECONDS)
            tokens = self.prompts.drawn_length(self.lengths.output_tokens)

    async def _poisson(self, driven: DrivenLoad, ends_at: float, tasks: set[asyncio.Task[Any]]) -> None:
        rate = driven.load.requests_per_second or 0.0
        moment, slot = driven.began_seconds, 0
        while driven.failed is None:
            moment += self.prompts.gap_seconds(rate)
            if moment >= ends_at:
                break
            # A late start does not delay the next one, whose time is already drawn.
            await asyncio.sleep(max(0.0, moment - self.client.now_seconds))
            tasks -= {task for task in tasks if task.done()}
            if len(tasks) >= _MOST_IN_FLIGHT:
                driven.is_capped = True
                continue
            tokens = self.prompts.drawn_length(self.lengths.output_tokens)
            tasks.add(asyncio.create_task(self._request(driven, slot, tokens)))
            slot += 1

    async def _until_over(self, driven: DrivenLoad, ends_at: float, tasks: set[asyncio.Task[Any]]) -> None:
        """Wait until the load's time is over and its answers are whole, or it is given up."""
        while (left := ends_at - self.client.now_seconds) > 0 and driven.failed is None:
            if all(task.done() for task in tasks):
                await asyncio.sleep(left)
            else:
                await asyncio.wait(tasks, timeout=min(left, 0.2))
        if driven.failed is None and tasks:
            await asyncio.wait(tasks, timeout=_DRAIN_SECONDS)

    async def _request(self, driven: DrivenLoad, slot: int, tokens: int) -> bool:
        dialect = self.opening.dialect
        prompt = self.prompts.text(self.prompts.drawn_length(self.lengths.input_tokens))
        record = RequestRecord(driven.number, slot, self.client.now_seconds, tokens)
        driven.requests.append(record)
        try:
            body = dialect.body(self.opening.served_model, prompt, tokens)
            await self.client.complete(body, dialect.route, record)
        except RequestFailed as error:
            ended = [request for request in driven.requests if not math.isnan(request.ended_seconds)]
            least = max(_LEAST_FAILURES, driven.load.concurrency or 0)
            last = sorted(ended, key=lambda request: request.ended_seconds)[-least:]
            if len(last) >= least and all(request.status != OK for request in last):
                driven.failed = error
            return False
        finally:
            self.keep(record)
        return True


async def _tick(driven: DrivenLoad) -> None:
    """Sample the delay of the event loop, by which recorded token times may be late."""
    with suppress(asyncio.CancelledError):
        while True:
            planned = time.perf_counter() + _TICK_SECONDS
            await asyncio.sleep(_TICK_SECONDS)
            driven.late_seconds.append(time.perf_counter() - planned)
