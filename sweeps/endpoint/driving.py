"""Holds an endpoint under one load for some seconds, and keeps every request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from advisor.sweeps.endpoint.asking import Client
from advisor.sweeps.endpoint.faults import RequestFailed
from advisor.sweeps.endpoint.opening import Opening, Prompts
from advisor.sweeps.endpoint.records import OK, DrivenLoad, Lengths, RequestRecord

# After a failure a slot waits, longer each time, so that a server that is overloaded can recover.
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.25, 4.0
# So many in a row, and none between them that succeeded: nothing more will be learnt.
_LEAST_FAILURES = 5
# Answers that began are waited for, so that the next load begins on an idle server.
_DRAIN_SECONDS = 5.0
_TICK_SECONDS = 0.02
_MOST_IN_FLIGHT = 4096

Keep = Callable[[RequestRecord], None]


class Driver:
    """Drives one load. `keep` gets each request once it is over."""

    def __init__(
        self, client: Client, opening: Opening, prompts: Prompts, lengths: Lengths, keep: Keep
    ) -> None:
        self._client = client
        self._opening = opening
        self._prompts = prompts
        self._lengths = lengths
        self._keep = keep

    async def drive(self, driven: DrivenLoad, seconds: float) -> None:
        """Load the endpoint for so long, then let it answer what it has begun."""
        driven.began_seconds = self._client.now_seconds
        ends_at = driven.began_seconds + seconds
        ticker = asyncio.create_task(_tick(driven))
        busy = time.process_time()
        tasks: set[asyncio.Task[None]] = set()
        try:
            if driven.load.concurrency is None:
                await self._poisson(driven, ends_at, tasks)
            else:
                await self._closed_loop(driven, ends_at, tasks, driven.load.concurrency)
        finally:
            driven.ended_seconds = min(self._client.now_seconds, ends_at)
            driven.busy_share = (time.process_time() - busy) / max(
                1e-3, self._client.now_seconds - driven.began_seconds
            )
            ticker.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _closed_loop(
        self, driven: DrivenLoad, ends_at: float, tasks: set[asyncio.Task[None]], slots: int
    ) -> None:
        for slot in range(slots):
            tasks.add(asyncio.create_task(self._slot(driven, ends_at, slot, slots)))
        await self._until_over(driven, ends_at, tasks)

    async def _slot(self, driven: DrivenLoad, ends_at: float, slot: int, slots: int) -> None:
        """One request after the other. The first answer's length depends on the slot: requests
        are spread over their course from then on, as they are in a server that runs for long."""
        tokens = max(1, round(self._lengths.output_tokens * (slot + 1) / slots))
        wait = _FIRST_WAIT_SECONDS
        while self._client.now_seconds < ends_at and driven.failed is None:
            if await self._request(driven, slot, tokens):
                wait = _FIRST_WAIT_SECONDS
            else:
                await asyncio.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT_SECONDS)
            tokens = self._prompts.drawn_length(self._lengths.output_tokens)

    async def _poisson(self, driven: DrivenLoad, ends_at: float, tasks: set[asyncio.Task[None]]) -> None:
        rate = driven.load.requests_per_second or 0.0
        moment, slot = driven.began_seconds, 0
        while driven.failed is None:
            moment += self._prompts.gap_seconds(rate)
            if moment >= ends_at:
                break
            # A start that is late is not moved on: the next one comes when it was drawn.
            await asyncio.sleep(max(0.0, moment - self._client.now_seconds))
            tasks -= {task for task in tasks if task.done()}
            if len(tasks) >= _MOST_IN_FLIGHT:
                driven.is_capped = True
                continue
            tokens = self._prompts.drawn_length(self._lengths.output_tokens)
            tasks.add(asyncio.create_task(self._request_of_poisson(driven, slot, tokens)))
            slot += 1
        await self._until_over(driven, ends_at, tasks)

    async def _request_of_poisson(self, driven: DrivenLoad, slot: int, tokens: int) -> None:
        await self._request(driven, slot, tokens)

    async def _until_over(self, driven: DrivenLoad, ends_at: float, tasks: set[asyncio.Task[None]]) -> None:
        """Until the load's time is up and its answers are whole, or it is given up."""
        while (left := ends_at - self._client.now_seconds) > 0 and driven.failed is None:
            if all(task.done() for task in tasks):
                await asyncio.sleep(left)
            else:
                await asyncio.wait(tasks, timeout=min(left, 0.2))
        if driven.failed is None and tasks:
            await asyncio.wait(tasks, timeout=_DRAIN_SECONDS)

    async def _request(self, driven: DrivenLoad, slot: int, tokens: int) -> bool:
        """One request from its prompt to its end; whether it succeeded."""
        prompt = self._prompts.text(self._prompts.drawn_length(self._lengths.input_tokens))
        dialect = self._opening.dialect
        record = RequestRecord(driven.number, slot, self._client.now_seconds, tokens)
        driven.requests.append(record)
        try:
            body = dialect.body(self._opening.served_model, prompt, tokens)
            await self._client.complete(body, dialect.route, record)
        except RequestFailed as error:
            if _is_hopeless(driven):
                driven.failed = error
            return False
        finally:
            self._keep(record)
        return True


def _is_hopeless(driven: DrivenLoad) -> bool:
    """Whether the last requests all failed."""
    ended = [one for one in driven.requests if one.ended_seconds is not None]
    least = max(_LEAST_FAILURES, driven.load.concurrency or 0)
    last = sorted(ended, key=_end)[-least:]
    return len(last) >= least and all(one.status != OK for one in last)


def _end(record: RequestRecord) -> float:
    return record.ended_seconds or 0.0


async def _tick(driven: DrivenLoad) -> None:
    """Samples the delay of the event loop: token times are noted as late as that."""
    with suppress(asyncio.CancelledError):
        while True:
            planned = time.perf_counter() + _TICK_SECONDS
            await asyncio.sleep(_TICK_SECONDS)
            driven.late_seconds.append(time.perf_counter() - planned)
