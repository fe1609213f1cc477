"""Where an endpoint is, and its key, which is nobody's business."""

import pytest

from advisor.errors import UsageError
from advisor.sweeps.endpoint.address import KEY_VARIABLE, address_of, api_key

KEY = "sk-secret-0123456789"


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://localhost:8000", "http://localhost:8000/v1"),
        ("http://localhost:8000/", "http://localhost:8000/v1"),
        ("http://localhost:8000/v1/", "http://localhost:8000/v1"),
        ("https://api.example.com/llm/v1/chat/completions", "https://api.example.com/llm/v1"),
        ("http://[::1]:80/v1/completions", "http://[::1]:80/v1"),
    ],
)
def test_a_url_may_end_where_the_user_copied_it(url, base):
    assert address_of(url).base == base


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "ftp://host", "http://", "http://host:port", "http://h\x1b[2J"]
)
def test_what_is_no_url_is_refused_with_an_example(url):
    with pytest.raises(UsageError, match="http://localhost:8000") as caught:
        address_of(url)
    assert caught.value.field == "endpoint"
    assert "\x1b" not in str(caught.value) or not str(caught.value).isprintable()


def test_a_password_in_a_url_is_refused_and_not_repeated():
    """It would lie in the anchor, in logs and in the shell's history."""
    for url in (f"http://user:{KEY}@host/v1", f"http://host/v1?key={KEY}", f"http://u:{KEY}@h:x"):
        with pytest.raises(UsageError) as caught:
            address_of(url)
        assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:1", True),
        ("http://[::1]:1", True),
        ("http://localhost", True),
        ("http://10.0.0.1", False),
        ("https://example.com", False),
    ],
)
def test_the_loopback_is_this_machine(url, expected):
    """Only there this machine's driver knows the GPU that serves."""
    assert address_of(url).is_loopback is expected


def test_the_key_comes_from_a_file_before_the_environment(tmp_path):
    file = tmp_path / "key"
    file.write_text(f"  {KEY}\n")
    assert api_key(file, {KEY_VARIABLE: "other"}).headers == {"Authorization": f"Bearer {KEY}"}
    assert api_key(None, {KEY_VARIABLE: KEY}).headers == {"Authorization": f"Bearer {KEY}"}
    assert api_key(None, {}) is None


def test_a_key_is_never_shown(tmp_path):
    """Neither when it is printed, nor in an error about it, nor in what a server sends back."""
    key = api_key(None, {KEY_VARIABLE: KEY})
    assert KEY not in repr(key)
    assert key.hidden_in(f"bad key {KEY}!") == "bad key ***!"
    with pytest.raises(UsageError) as caught:
        api_key(None, {KEY_VARIABLE: f"{KEY}\nX-Injected: 1"})
    assert KEY not in str(caught.value)
    with pytest.raises(UsageError, match="no key can be read"):
        api_key(tmp_path / "none", {})
