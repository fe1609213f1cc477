"""Several questions at once, left at once when somebody does not want to wait any more."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import TypeVar

Thing = TypeVar("Thing")
Answer = TypeVar("Answer")


def each_at_once(
    work: Callable[[Thing], Answer], things: Sequence[Thing], most: int
) -> list[Answer]:
    """`work` of each thing, in their order, by so many threads at most; what one raises is raised.

    The threads are daemons: Ctrl-C does not wait for what they are asking, as that of a
    `ThreadPoolExecutor` does.
    """
    answer: queue.SimpleQueue[tuple[int, Future[Answer]]] = queue.SimpleQueue()
    left = iter(range(len(things)))
    taking = threading.Lock()

    def run() -> None:
        while (number := _next(left, taking)) is not None:
            answer.put((number, _done(work, things[number])))

    for _ in range(min(most, len(things))):
        threading.Thread(target=run, daemon=True).start()
    answers = dict(answer.get() for _ in things)
    return [answers[number].result() for number in sorted(answers)]


def _next(left: Iterator[int], taking: threading.Lock) -> int | None:
    with taking:
        return next(left, None)


def _done(work: Callable[[Thing], Answer], thing: Thing) -> Future[Answer]:
    """The answer, or the error."""
    future: Future[Answer] = Future()
    try:
        future.set_result(work(thing))
    except BaseException as error:
        future.set_exception(error)
    return future
