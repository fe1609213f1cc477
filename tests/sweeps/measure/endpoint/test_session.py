"""A session against real sockets: good servers are measured, bad ones are named."""

import pytest

from advisor.errors import MeasuringError
from advisor.sweeps.measure.endpoint.protocol import ApiKey, Fault, address_of
from advisor.sweeps.measure.endpoint.records import Lengths, Load
from advisor.sweeps.measure.endpoint.session import Wanted, measured, warnings_of
from tests.sweeps.measure.endpoint.openai_server import WELL, fake_endpoint

KEY = "sk-secret-0123456789"


def session_of(endpoint, *loads, key=None, seconds=1.0, **more):
    wanted = {"model": "tiny", "lengths": Lengths(60, 10), "patience_seconds": 5.0} | more
    loads = loads or (Load(2),)
    lines = []
    session = measured(
        address_of(endpoint.url), key, Wanted(loads=loads, seconds=seconds, **wanted), lines.append
    )
    return session, lines


def texts(session):
    return [str(warning) for warning in warnings_of(session)]


def test_replicas_share_the_requests():
    """Each has its own slots in flight; both kinds of load go to all."""
    with fake_endpoint() as first, fake_endpoint() as second:
        session, _ = session_of(first, Load(4), Load(None, 40.0), replicas=[address_of(second.url)])
    assert (first.most_in_flight, second.most_in_flight) >= (2, 2)
    share = len(second.bodies) / (len(first.bodies) + len(second.bodies))
    assert 0.3 < share < 0.7
    assert all(figures["status"] == "ok" for figures in session.figures)


@pytest.mark.slow
def test_a_poisson_load_begins_requests_whether_or_not_others_are_answered():
    with fake_endpoint(ttft_seconds=0.3) as endpoint:
        session, _ = session_of(endpoint, Load(None, 40.0), seconds=2.0)
    (figures,) = session.figures
    assert endpoint.most_in_flight > 6
    assert figures["kind"] == "poisson"
    assert figures["in_flight"] > 6


def test_prompts_and_answers_have_the_lengths_asked_for():
    """A server with another vocabulary, two tokens a word and a template of three."""
    with fake_endpoint() as endpoint:
        session, _ = session_of(endpoint, lengths=Lengths(200, 20))
    (figures,) = session.figures
    assert figures["input_tokens"]["mean"] == pytest.approx(200, rel=0.06)
    assert figures["output_tokens"]["mean"] == pytest.approx(20, rel=0.1)
    assert figures["output_tokens"]["mean"] == figures["asked_tokens"]["mean"]


def test_a_server_that_refuses_our_fields_is_asked_without_them():
    """`transformers serve` and OpenAI's own service know no ignore_eos."""
    with fake_endpoint(is_strict=True, longest_answer=4) as endpoint:
        session, _ = session_of(endpoint)
    assert not session.opening.dialect.forces_length
    assert all("ignore_eos" not in body for body in endpoint.bodies)
    assert any("10 were asked for" in text for text in texts(session))


def test_a_server_that_ends_its_connections_fails_no_request():
    """As llama.cpp's does, which says that it keeps them."""
    with fake_endpoint(answers_once=True) as endpoint:
        session, _ = session_of(endpoint, Load(3))
    (figures,) = session.figures
    assert figures["requests"]["completed"] > 10
    assert figures["requests"]["failed"] == 0
    assert figures["input_tokens"]["mean"] == pytest.approx(60, rel=0.1)
    assert endpoint.most_in_flight == 3
    assert 2 < figures["in_flight"] <= 3
    assert figures["tpot_seconds"]["mean"] >= 0.95 * endpoint.tpot_seconds
    assert figures["ttft_seconds"]["p50"] >= endpoint.ttft_seconds


def test_a_server_with_chats_alone_is_measured_by_them():
    """The opening frame of a chat is no token."""
    with fake_endpoint(has_completions=False, ttft_seconds=0.05) as endpoint:
        session, _ = session_of(endpoint)
    assert session.opening.dialect.is_chat
    assert session.figures[0]["ttft_seconds"]["p50"] >= 0.05
    assert session.figures[0]["tokens_per_piece"] == 1.0


@pytest.mark.slow
def test_the_only_model_of_a_server_is_meant_whatever_it_is_called_there():
    """vLLM's --served-model-name; a name of one's own still wins."""
    with fake_endpoint(model="prod-llm") as endpoint:
        session, _ = session_of(endpoint, model="meta-llama/Llama-3.1-8B")
        other, _ = session_of(endpoint, model="x", served_model="mine")
    assert session.opening.served_model == "prod-llm"
    assert other.opening.served_model == "mine"


@pytest.mark.slow
def test_what_would_mislead_is_said():
    """Cached prompts, several tokens a piece, and a server that counts nothing."""
    with fake_endpoint(cached_tokens=30, tokens_a_piece=5) as endpoint:
        session, _ = session_of(endpoint)
    said = texts(session)
    assert any("prefix caching off" in text for text in said)
    assert any("ITL is the time between pieces" in text for text in said)
    with fake_endpoint(counts_tokens=False) as endpoint:
        session, _ = session_of(endpoint)
    assert any("does not count tokens" in text for text in texts(session))
    assert session.figures[0]["output_tokens"]["count"] > 0


def test_the_key_is_sent_to_the_server_and_nowhere_else(tmp_path):
    """A server that sends the key back in its error gets it shown by nobody."""
    key = ApiKey(KEY)
    with fake_endpoint(key=KEY) as endpoint:
        session, lines = session_of(endpoint, key=key, requests_file=tmp_path / "r.jsonl")
        assert set(endpoint.authorizations) == {f"Bearer {KEY}"}
    assert KEY not in str(lines) + str(session.figures) + (tmp_path / "r.jsonl").read_text()
    with fake_endpoint(key="another") as endpoint, pytest.raises(MeasuringError) as caught:
        session_of(endpoint, key=key)[0].require_measured("tiny")
    assert caught.value.code == Fault.UNAUTHORISED
    assert KEY not in str(caught.value)
    assert "ADVISOR_ENDPOINT_API_KEY" in str(caught.value)


FAULTS = {
    "403": (Fault.UNAUTHORISED, "said 403"),
    "429": (Fault.RATE_LIMITED, "lift the limit"),
    "500": (Fault.SERVER_ERROR, "said 500"),
    "503": (Fault.SERVER_ERROR, "log of the server"),
    "400": (Fault.BAD_REQUEST, "longest context"),
    "302": (Fault.REDIRECTED, "http://elsewhere.invalid/v1"),
    "half": (Fault.CUT_OFF, "half-way"),
    "closes": (Fault.DISCONNECTED, "closes the connection"),
    "hangs_up": (Fault.DISCONNECTED, "closes the connection"),
    "huge": (Fault.TOO_LARGE, "more than"),
    "page": (Fault.NO_STREAM, "text/html"),
    "garbage": (Fault.GARBAGE, "no answer of an OpenAI-compatible server"),
    "other_json": (Fault.GARBAGE, "no answer of an OpenAI-compatible server"),
    "no_http": (Fault.GARBAGE, "no answer of an OpenAI-compatible server"),
    "error_event": (Fault.SERVER_ERROR, "engine died"),
    "empty": (Fault.EMPTY, "before their first token"),
    "hang": (Fault.TIMED_OUT, "did not answer within 0.3 s"),
}


@pytest.mark.parametrize("behaviour", FAULTS)
def test_a_server_that_answers_badly_is_named_with_the_way_out(behaviour):
    """One line that says what happened, at which URL, and what to do; nothing steers a terminal."""
    fault, words = FAULTS[behaviour]
    with fake_endpoint(behaviours=[behaviour]) as endpoint:
        with pytest.raises(MeasuringError) as caught:
            session_of(endpoint, patience_seconds=0.3)[0].require_measured("tiny")
        text = str(caught.value)
        assert endpoint.url in text
    assert caught.value.code == fault
    assert caught.value.hint
    assert words in text
    assert text.isprintable()


def test_a_completion_that_is_refused_is_told_and_not_the_chat_tried_after_it():
    """vLLM refuses a prompt that is too long on one route, and a missing template on the other."""
    with (
        fake_endpoint(behaviours=["400", "400", "400", "no_template"]) as endpoint,
        pytest.raises(MeasuringError, match="said 400"),
    ):
        session_of(endpoint)[0].require_measured("tiny")


@pytest.mark.slow
def test_a_fault_now_and_then_ends_nothing():
    """Nine in ten requests succeed: figures are of those, and the others are counted."""
    behaviours = ([WELL] * 9 + ["429"]) * 40
    with fake_endpoint(behaviours=behaviours) as endpoint:
        session, _ = session_of(endpoint, Load(4), seconds=1.5)
    (figures,) = session.figures
    assert session.ended is None
    assert figures["status"] == "ok"
    assert figures["requests"]["faults"] == {"rate_limited": figures["requests"]["failed"]}
    assert any("requests failed" in text for text in texts(session))


def test_a_server_that_only_says_that_it_lives_is_late_and_nobody_at_the_port_is_one_line(monkeypatch):
    """Comments all the time, and never a token: a deadline of its own ends the opening. The most frequent
    mistake of all."""
    monkeypatch.setattr("advisor.sweeps.measure.endpoint.driving._MOST_SECONDS", 0.5)
    with (
        fake_endpoint(behaviours=["drips"]) as endpoint,
        pytest.raises(MeasuringError, match=r"did not answer within 0\.5 s") as caught,
    ):
        session_of(endpoint)[0].require_measured("tiny")
    assert caught.value.code == Fault.TIMED_OUT
    with fake_endpoint() as endpoint:
        pass
    with pytest.raises(MeasuringError, match="start the server") as caught:
        session_of(endpoint)[0].require_measured("tiny")
    assert caught.value.code == Fault.REFUSED


def test_answers_longer_than_the_time_leave_first_tokens_and_say_so(monkeypatch):
    """No answer ends within the load: tokens/s and TTFT are known, TPOT is not."""
    monkeypatch.setattr("advisor.sweeps.measure.endpoint.driving._DRAIN_SECONDS", 0.1)
    with fake_endpoint(tpot_seconds=0.1) as endpoint:
        session, _ = session_of(endpoint, Load(2), seconds=1.0, lengths=Lengths(60, 400))
    (figures,) = session.figures
    assert figures["status"] == "none"
    assert figures["tpot_seconds"] is None
    assert any("too few" in text for text in texts(session))
