"""Logins on the page."""

import json
import time
from contextlib import closing

import pytest

from advisor.service import gate
from advisor.service.audit import default_audit_log
from advisor.service.gate import COOKIE
from advisor.service.page.login import local_path
from advisor.store.keys import ApiKeys

OWN = {"Origin": "http://testserver"}


@pytest.fixture
def client(serve):
    return serve()


def log_in(client, header, headers=OWN, **fields):
    key = header["Authorization"].removeprefix("Bearer ")
    return client.post("/login", data={"key": key, **fields}, headers=headers, follow_redirects=False)


def test_a_key_opens_the_page_by_a_cookie_that_scripts_cannot_read(client, key_of):
    mine = key_of("measure")
    answer = log_in(client, mine, next="/sweeps?x=1")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/sweeps?x=1")
    text = answer.headers["Set-Cookie"]
    assert [word in text for word in ("HttpOnly", "SameSite=strict", "Secure")] == [True, True, False]
    assert mine["Authorization"].split("_", 2)[2] not in text
    assert client.get("/v1/things").status_code == 200
    assert client.post("/v1/things", headers=OWN).status_code == 201
    assert client.delete("/v1/things/x", headers=OWN).status_code == 403


def test_over_tls_the_cookie_is_secure(serve, key_of):
    client = serve(public_hosts=("advisor.example",))
    client.base_url = "https://advisor.example"
    answer = log_in(client, key_of("read"), headers={"Origin": "https://advisor.example"})
    assert "Secure" in answer.headers["Set-Cookie"]


@pytest.mark.parametrize("headers", [{}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "same-site"}])
def test_with_a_cookie_nothing_changes_unless_our_page_surely_asks(client, key_of, headers):
    mine = key_of("measure")
    assert log_in(client, mine, headers=headers).status_code == 403
    log_in(client, mine)
    assert client.post("/v1/things", headers=headers).status_code == 403
    assert client.post("/logout", headers=headers).status_code == 403
    assert client.get("/v1/things").status_code == 200


def test_a_session_ends_with_its_key(client, key_of, monkeypatch):
    log_in(client, key_of("read"))
    assert client.get("/v1/things").status_code == 200
    with closing(ApiKeys()) as book:
        book.revoke("read", now=time.time())
    monkeypatch.setattr(gate, "FRESH_SECONDS", 0.0)
    answer = client.get("/v1/things")
    assert (answer.status_code, answer.json()["detail"]) == (401, "this login has ended")


def test_who_logs_out_is_out_also_where_the_cookie_was_copied(client, key_of, monkeypatch):
    log_in(client, key_of("read"))
    token = client.cookies[COOKIE]
    answer = client.post("/logout", headers=OWN, follow_redirects=False)
    assert answer.headers["Location"] == "/login"
    assert COOKIE not in client.cookies
    monkeypatch.setattr(gate, "FRESH_SECONDS", 0.0)
    copied = client.get("/v1/things", headers={"Cookie": f"{COOKIE}={token}"})
    assert copied.status_code == 401


def test_a_wrong_key_gets_the_form_again_and_is_written_down(client, key_of):
    key_of("read")
    answer = log_in(client, {"Authorization": "Bearer <script>"})
    assert answer.status_code == 401
    words = ("no key of this service", 'role="alert"', "<script>")
    assert [word in answer.text for word in words] == [True, True, False]
    (line,) = default_audit_log().read_text().splitlines()
    assert (json.loads(line)["event"], json.loads(line)["route"]) == ("refused", "/login")


def test_logins_are_written_down_without_the_key(client, key_of):
    mine = key_of("read", name="grafana")
    log_in(client, mine)
    client.post("/logout", headers=OWN)
    text = default_audit_log().read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["event"], line["name"]) for line in lines] == [("login", "grafana"), ("logout", "grafana")]
    assert mine["Authorization"].split("_", 2)[2] not in text


LOCAL = ["/", "/compare?a=b&c=%20d"]
ELSEWHERE = ["", "https://evil.example", "//evil.example", "/\\evil.example", "/\n/evil.example"]


@pytest.mark.parametrize("text", [*LOCAL, *ELSEWHERE, "javascript:alert(1)", "/login?next=/"])
def test_after_the_login_the_way_stays_here(text):
    assert local_path(text) == (text if text in LOCAL else "/")


def test_a_form_of_many_fields_is_refused_and_no_defect(client, key_of):
    key_of("read")
    fields = {f"field{index}": "1" for index in range(40)}
    answer = client.post("/login", data=fields, headers=OWN)
    assert answer.status_code == 400
    assert "30 fields at most" in answer.text


def test_a_session_lives_no_longer_than_its_key(client, key_of):
    log_in(client, key_of("read", lifetime=600.0))
    with closing(ApiKeys()) as book:
        (session,) = book.holders(now=time.time()).sessions.values()
    assert session.expires_at <= time.time() + 600
