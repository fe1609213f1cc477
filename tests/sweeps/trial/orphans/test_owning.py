"""What a sweep starts is its own while it runs; Ray does not take its signals away."""

import os
import signal
from contextlib import contextmanager

import pytest

from advisor.sweeps.trial.orphans import removing as module
from advisor.sweeps.trial.orphans.removing import deferred_signals, owning
from advisor.sweeps.trial.ownership import OWNER_VARIABLE, own_tag


def test_what_is_started_inside_carries_the_mark(monkeypatch):
    monkeypatch.delenv(OWNER_VARIABLE, raising=False)
    with owning():
        assert os.environ[OWNER_VARIABLE] == str(own_tag())
    assert OWNER_VARIABLE not in os.environ


def test_everything_is_given_back_however_it_ends(monkeypatch):
    given = []
    monkeypatch.setattr(module, "give_back_own", lambda: given.append(1))
    with pytest.raises(KeyboardInterrupt), owning():
        raise KeyboardInterrupt
    assert given == [1]


@contextmanager
def handler(number, answer):
    before = signal.signal(number, answer)
    try:
        yield
    finally:
        signal.signal(number, before)


def takes_over(*_):
    raise SystemExit("a library's own way out")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_end_of_the_block_and_is_then_ours(number):
    asked, log = [], []
    with handler(number, lambda *_: asked.append(number)):
        with deferred_signals():
            signal.signal(number, takes_over)
            os.kill(os.getpid(), number)
            log.append(list(asked))
        assert (log, asked) == ([[]], [number])
        os.kill(os.getpid(), number)
        assert asked == [number, number]


def test_a_second_signal_does_not_wait():
    def stop(*_):
        raise KeyboardInterrupt

    def asked_twice():
        with deferred_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
            pytest.fail("went on")

    with handler(signal.SIGTERM, stop):
        with pytest.raises(KeyboardInterrupt):
            asked_twice()
        assert signal.getsignal(signal.SIGTERM) is stop
