"""Where an endpoint is, and its key, which is nobody's business."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import UsageError
from advisor.sweeps.measure.endpoint.client import opened
from advisor.sweeps.measure.endpoint.protocol import (
    KEY_VARIABLE,
    Fault,
    Piece,
    RequestFailed,
    address_of,
    api_key,
    piece_of,
)
from tests.rows import table
from tests.sweeps.measure.endpoint.openai_server import fake_endpoint

CASES = table("sweeps_cases")

KEY = "sk-secret-0123456789"


@pytest.mark.parametrize(
    ("url", "base", "is_here"),
    CASES["a_url_may_end_where_the_user_copied_it_and_the_loopback_is_this_machine"],
)
def test_a_url_may_end_where_the_user_copied_it_and_the_loopback_is_this_machine(url, base, is_here):
    """Only there this machine's driver knows the GPU that serves."""
    assert (address_of(url).base, address_of(url).is_loopback) == (base, is_here)


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "ftp://host", "http://", "http://host:port", "http://h\x1b[2J"]
)
def test_what_is_no_url_is_refused_with_an_example(url):
    with pytest.raises(UsageError, match="http://localhost:8000") as caught:
        address_of(url)
    assert caught.value.field == "endpoint"
    assert "\x1b" not in str(caught.value) or not str(caught.value).isprintable()


def test_no_password_of_a_url_and_no_key_is_ever_shown(tmp_path):
    """It would lie in the anchor, in logs and in the shell's history."""
    for url in (f"http://user:{KEY}@host/v1", f"http://host/v1?key={KEY}", f"http://u:{KEY}@h:x"):
        with pytest.raises(UsageError) as caught:
            address_of(url)
        assert KEY not in str(caught.value)
    # Neither when it is printed, nor in an error about it, nor in what a server sends back.
    file = tmp_path / "key"
    file.write_text(f"  {KEY}\n")
    assert api_key(file, {KEY_VARIABLE: "other"}).headers == {"Authorization": f"Bearer {KEY}"}
    assert api_key(None, {KEY_VARIABLE: KEY}).headers == {"Authorization": f"Bearer {KEY}"}
    assert api_key(None, {}) is None
    key = api_key(None, {KEY_VARIABLE: KEY})
    assert KEY not in repr(key)
    assert key.hidden_in(f"bad key {KEY}!") == "bad key ***!"
    with pytest.raises(UsageError) as caught:
        api_key(None, {KEY_VARIABLE: f"{KEY}\nX-Injected: 1"})
    assert KEY not in str(caught.value)
    with pytest.raises(UsageError, match="no key can be read"):
        api_key(tmp_path / "none", {})


@given(
    st.one_of(
        st.binary(max_size=60),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["choices", "usage", "delta", "text", "error", "prompt_tokens"]),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=12,
        ).map(lambda value: json.dumps(value).encode()),
    )
)
def test_no_event_breaks_the_reader(event):
    """Whatever a server sends is a piece or a fault of the server."""
    assert _what_it_is(event) in (Piece, Fault.GARBAGE, Fault.SERVER_ERROR)


def _what_it_is(event):
    try:
        return type(piece_of(event))
    except RequestFailed as error:
        return error.fault if error.detail.isprintable() else error.detail


@pytest.mark.parametrize(
    ("choice", "has_text"),
    [
        ({"text": "a"}, True),
        ({"text": ""}, True),  # half of a character: a token all the same
        ({"text": "", "finish_reason": "stop"}, False),
        ({"text": "a", "finish_reason": "length"}, True),
        ({"delta": {"role": "assistant", "content": ""}}, False),
        ({"delta": {"content": ""}}, True),
        ({"delta": {"content": "a"}}, True),
        ({"delta": {"reasoning_content": "hm"}}, True),
        ({"delta": {}, "finish_reason": "stop"}, False),
    ],
)
def test_tokens_count_and_frames_do_not(choice, has_text):
    """What opens a chat or ends an answer brings no token; a token without letters is one."""
    piece = piece_of(json.dumps({"choices": [choice]}).encode())
    assert piece.has_text is has_text
    assert piece.is_last is ("finish_reason" in choice)


@pytest.mark.parametrize(
    ("listing", "fault", "detail"),
    [("repeats", Fault.GARBAGE, "?[31m Bearer ***"), ("hang", Fault.TIMED_OUT, "0.2")],
)
def test_why_a_server_gives_no_document_is_one_line_without_the_key(listing, fault, detail, monkeypatch):
    """Some pages repeat the request; and the seconds named are those that were waited."""
    monkeypatch.setattr("advisor.sweeps.measure.endpoint.client._DOCUMENT_SECONDS", 0.2)

    async def asked(address):
        async with opened(address, api_key(None, {KEY_VARIABLE: KEY}), 60.0) as client:
            await client.document(f"{address.base}/models")

    with fake_endpoint(listing=listing) as endpoint, pytest.raises(RequestFailed) as caught:
        asyncio.run(asked(address_of(endpoint.url)))
    assert (caught.value.fault, caught.value.detail) == (fault, detail)


def test_counts_are_the_servers_and_nonsense_is_none():
    usage = {"prompt_tokens": 12, "completion_tokens": -1, "prompt_tokens_details": {"cached_tokens": True}}
    piece = piece_of(json.dumps({"choices": [], "usage": usage}).encode())
    assert (piece.input_tokens, piece.output_tokens, piece.cached_tokens) == (12, None, None)
    with pytest.raises(RequestFailed) as caught:
        piece_of(json.dumps({"error": {"message": "out of\nmemory\x1b[0m"}}).encode())
    assert caught.value.fault is Fault.SERVER_ERROR
    assert caught.value.detail == "out of memory?[0m"
