"""The sections of a report: questions that share their preparation one after the other, groups of them on
several processes.

A number's last bits depend on what it was computed beside. So questions are grouped by what they
share, and a group by nothing else: whoever answers which group, the report has the same bytes.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures import as_completed as completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from datetime import date
from multiprocessing import get_context
from typing import Any, NamedTuple

from advisor.answers import ask
from advisor.answers.context import Context, load_context
from advisor.answers.networks import recommended
from advisor.answers.reporting.evidence import Measured
from advisor.answers.reporting.reproducing import Origin
from advisor.answers.reporting.sections import Answered, Named, language_section, section
from advisor.domain.workload import is_own
from advisor.engine.prepared import Preparations, key_of
from advisor.errors import AdvisorError
from advisor.messages import Message
from advisor.questions.commands import AnyRecommend
from advisor.questions.language import RecommendFinetuning
from advisor.questions.listings import Sources
from advisor.questions.network import Recommend
from advisor.questions.settled import language_model_of, settled_serving, settled_tuning


class ReportedWorkload(NamedTuple):
    """A workload of a report: its name, what is asked, the command that asks it alone, and where it
    was said ('team.yaml, line 7'), for what is wrong with it."""

    name: str
    question: AnyRecommend
    command: str = ""
    place: str = ""


# A question with its place in the report; those of a group share what is prepared.
Group = list[tuple[int, ReportedWorkload]]


def checked(context: Context, questions: Sequence[ReportedWorkload]) -> list[Group]:
    """The questions by what they share, once each is known to be one that can be asked."""
    groups: dict[Hashable, Group] = {}
    for place, question in enumerate(questions):
        with _with_place(question):
            groups.setdefault(_shared(context, place, question), []).append((place, question))
    return list(groups.values())


def _shared(context: Context, place: int, workload: ReportedWorkload) -> Hashable:
    question = workload.question
    if not isinstance(question, Recommend):
        model, catalog = language_model_of(question), context.catalog
        if isinstance(question, RecommendFinetuning):
            settled_tuning(question, model, catalog)
        else:
            settled_serving(question, model, catalog)
        return place  # nothing is prepared for several language models
    if question.anchor or is_own(question.network):
        return place  # what it stands on is known once its files were read
    return key_of(context.request(question))


def gathered(context: Context, group: Group, as_of: date) -> Iterator[tuple[int, dict[str, Any]]]:
    """The sections of a group, each with its place."""
    preparations: Preparations | None = None
    measured = Measured()
    for place, workload in group:
        named, question = Named(workload.name, workload.command), workload.question
        with _with_place(workload):
            if not isinstance(question, Recommend):
                asked = question.replace(explain_rejected=True)
                found = ask.recommend(context, asked, today=as_of)
                yield place, language_section(named, found, context.catalog, as_of)
                continue
            question = question.replace(explain=True, explain_rejected=True)
            result = recommended(context, question, preparations=preparations, today=as_of)
            preparations = result.preparations
            answered = Answered(
                result.result,
                result.message_document(),
                result.context,
                preparations.of(result.result.request),
            )
            yield place, section(named, answered, measured, as_of)


@contextmanager
def _with_place(question: ReportedWorkload) -> Iterator[None]:
    """An error with the place of the workload that it is about."""
    try:
        yield
    except AdvisorError as error:
        if not question.place:
            raise
        raise type(error)(
            Message(
                "{place}: workload '{name}': {what}",
                place=question.place,
                name=question.name,
                what=error.message,
            ),
            hint=error.hint,
            field=error.field,
            code=error.code,
        ) from error


# A process more needs as long to begin as some workloads take.
_LEAST_GROUPS = 8
_MOST_PROCESSES = 8
_ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_context: Context | None = None


def usable_processes() -> int:
    """One for each CPU that this process may use."""
    return min(_MOST_PROCESSES, len(os.sched_getaffinity(0)))


def pays(groups: Sequence[Group], processes: int) -> bool:
    """Whether so many processes are sooner done than one; what asks a cloud stays in one."""
    questions = (workload.question for group in groups for _, workload in group)
    live = any(isinstance(question, Recommend) and question.live for question in questions)
    return processes > 1 and len(groups) >= _LEAST_GROUPS and not live


def gathered_in_parallel(
    groups: Sequence[Group], as_of: date, origin: Origin, processes: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The sections of all groups as they are done, each with its place.

    Processes are spawned, never forked: who calls may have threads. However it ends, none of them
    outlives it by more than the group that it is at.
    """
    pool = ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_begin, initargs=(origin.sources,)
    )
    try:
        with _not_for_children():
            tasks = [pool.submit(_whole, group, as_of) for group in groups]
        for done in completed(tasks):
            yield from done.result()
    except BrokenProcessPool:
        raise AdvisorError(
            "a process of the report ended, perhaps for lack of memory",
            hint="ask for fewer workloads at once",
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _not_for_children() -> Iterator[None]:
    """A process is begun whole: a signal that comes meanwhile reaches the parent afterwards. Ctrl-C
    is the parent's to answer: who begins in here never hears it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        with _afterwards():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _afterwards() -> Iterator[None]:
    """Signals are answered at the end: another thread, as NumPy has some, may take one that this
    thread blocks, and Python would answer it here all the same."""
    received: list[int] = []
    usual = {}
    if threading.current_thread() is threading.main_thread():
        usual = {signum: signal.getsignal(signum) for signum in _ENDING}
        usual = {signum: answer for signum, answer in usual.items() if callable(answer)}
    for signum in usual:
        signal.signal(signum, lambda number, _frame: received.append(number))
    try:
        yield
    finally:
        for signum, answer in usual.items():
            signal.signal(signum, answer)
        for number in received[:1]:
            signal.raise_signal(number)


def _begin(sources: Sources) -> None:
    global _context
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING - {signal.SIGINT})
    _context = load_context(sources)


def _whole(group: Group, as_of: date) -> list[tuple[int, dict[str, Any]]]:
    assert _context is not None
    return list(gathered(_context, group, as_of))
