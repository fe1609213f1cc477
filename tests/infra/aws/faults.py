"""A layer in front of moto's server that loses, delays, cuts and refuses, as a plan has it.

It is a WSGI application: served over a socket for whole commands, and called without one by `bed.py`, where
thousands of launches are to take no time."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from tests.infra.aws.ec2_ways import Ec2Ways
from tests.infra.aws.lifecycles import FakeClock
from tests.infra.aws.wire import Answer, App, Environ, Request, call, read_request, refusal

# What may happen to a request, beside being refused with a code of EC2's.
LOST_REQUEST, LOST_REPLY, CUT, GARBAGE, SLOW = (
    "lost request",
    "lost reply",
    "cut answer",
    "garbage",
    "slow answer",
)
CRASH_BEFORE, CRASH_AFTER = "crash before", "crash after"
CTRL_C_BEFORE, CTRL_C_AFTER = "ctrl-c before", "ctrl-c after"
DONE_ALL_THE_SAME = "refused, and done"
# Seconds of the clock: an answer, one that nobody waits for any longer, a slow one.
ANSWER_SECONDS, TIMEOUT_SECONDS, SLOW_SECONDS = 0.3, 8.0, 6.0


class Lost(Exception):
    """No answer comes."""


class Crashed(BaseException):
    """The program that asks is gone, as by kill -9: nothing of it runs any more."""


# What is to happen to a request: "" for nothing, a word from above, or a code.
Plan = Callable[[Request], str]


@dataclass
class FaultyAws:
    moto: App
    ways: Ec2Ways
    clock: FakeClock
    plan: Plan = lambda _: ""
    asked: list[Request] = field(default_factory=list)
    on_answer: Callable[[Request], None] = lambda _: None

    def __call__(self, environ: Environ, start: Callable[..., Any]) -> Iterable[bytes]:
        request, body = read_request(environ)
        answer = self.answer(request, lambda: call(self.moto, environ, body))
        status = f"{answer.status} {HTTPStatus(answer.status).phrase}"
        kept = {key: value for key, value in answer.headers.items() if key.lower() != _LENGTH}
        start(status, [*kept.items(), (_LENGTH, str(len(answer.body)))])
        return [answer.body]

    def answer(self, request: Request, ask_moto: Callable[[], Answer]) -> Answer:
        fault = self.plan(request)
        self.asked.append(request)
        if fault in _BEFORE:
            raise _BEFORE[fault]
        if fault == LOST_REQUEST:
            self._lose()
        if fault and fault not in _WORDS:
            self.clock.sleep(ANSWER_SECONDS)
            return refusal(request, fault)
        answer = self._true_answer(request, ask_moto)
        self.clock.sleep(SLOW_SECONDS if fault == SLOW else ANSWER_SECONDS)
        self.on_answer(request)
        return self._spoiled(request, answer, fault)

    def _true_answer(self, request: Request, ask_moto: Callable[[], Answer]) -> Answer:
        return self.ways.before(request) or self.ways.after(request, ask_moto())

    def _spoiled(self, request: Request, answer: Answer, fault: str) -> Answer:
        if fault in _AFTER:
            raise _AFTER[fault]
        if fault == LOST_REPLY:
            self._lose()
        if fault == CUT:
            return Answer(answer.status, answer.body[: len(answer.body) // 2], answer.headers)
        if fault == GARBAGE:
            return Answer(200, b"<html>a captive portal</html>", {"Content-Type": "text/html"})
        if fault == DONE_ALL_THE_SAME:
            return refusal(request, "InternalError")
        return answer

    def _lose(self) -> None:
        self.clock.sleep(TIMEOUT_SECONDS)
        raise Lost


_LENGTH = "content-length"  # a spoiled answer has another one than moto's
_BEFORE = {CRASH_BEFORE: Crashed, CTRL_C_BEFORE: KeyboardInterrupt}
_AFTER = {CRASH_AFTER: Crashed, CTRL_C_AFTER: KeyboardInterrupt}
_WORDS = frozenset({LOST_REQUEST, LOST_REPLY, CUT, GARBAGE, SLOW, DONE_ALL_THE_SAME, *_BEFORE, *_AFTER})
