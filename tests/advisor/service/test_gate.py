"""Who gets in, from where, and what the answer says to who does not."""

import json
import time
from contextlib import closing

import pytest
from fastapi.routing import APIRoute

from advisor.service import gate
from advisor.service.app import ROUTERS
from advisor.service.audit import default_audit_log
from advisor.store.keys import ApiKeys, Scope
from tests.rows import table

OUTSIDE = {"host": "192.0.2.1"}
NO_KEY = (401, "unauthorized")


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def revoke(name):
    with closing(ApiKeys()) as book:
        book.revoke(name, now=time.time())


def audit():
    return [json.loads(line) for line in default_audit_log().read_text().splitlines()]


def is_problem(answer, status, kind):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"].endswith(kind)
    return answer.json()


class TestWithoutKeys:
    def test_this_machine_may_do_all_but_spend_and_only_a_public_name_is_answered_elsewhere(self, serve):
        client = serve()
        assert client.get("/v1/things").status_code == 200
        assert client.delete("/v1/things/x").status_code == 200
        document = is_problem(client.post("/v1/things/spent"), 403, "forbidden")
        assert ("keys add" in document["way_out"], document["scope"]) == (True, "admin")
        is_problem(serve().get("/v1/things", headers=bearer("adv_x")), *NO_KEY)
        assert serve(**OUTSIDE).get("/v1/things").status_code == 401
        client = serve(public_hosts=("Advisor.example:443",))
        assert client.get("/v1/things", headers={"Host": "advisor.example"}).status_code == 200

    @pytest.mark.parametrize(
        "name", ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Via"]
    )
    def test_what_a_proxy_forwards_is_no_local_request(self, serve, name):
        answer = serve().get("/v1/things", headers={name: "192.0.2.7"})
        assert "keys add" in is_problem(answer, 403, "forwarded")["way_out"]

    @pytest.mark.parametrize(
        "host", ["localhost", "localhost:8765", "127.0.0.1:1", "[::1]:8765", "LOCALHOST"]
    )
    def test_our_names_are_answered(self, serve, host):
        assert serve().get("/v1/things", headers={"Host": host}).status_code == 200

    @pytest.mark.parametrize("host", table("http")["strange_hosts"])
    def test_a_name_that_was_bound_to_us_by_a_stranger_is_refused(self, serve, host):
        is_problem(serve().get("/v1/things", headers={"Host": host}), 421, "unknown-host")


class TestWithKeys:
    def test_from_the_first_key_on_this_machine_needs_one_too(self, serve, key_of):
        mine = key_of("read")
        client = serve()
        response = client.get("/v1/things")
        assert "keys add" in is_problem(response, *NO_KEY)["way_out"]
        assert response.headers["WWW-Authenticate"].startswith("Bearer")
        assert client.get("/v1/things", headers=mine).status_code == 200

    @pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/login"])
    def test_some_doors_are_open(self, serve, key_of, path):
        key_of("read")
        assert serve(**OUTSIDE).get(path).status_code == 200

    @pytest.mark.parametrize("scope", list(Scope))
    def test_a_scope_allows_what_stands_before_it_and_the_missing_one_is_named(self, serve, key_of, scope):
        client, mine = serve(), key_of(scope.value)
        asked = {Scope.READ: ("GET", ""), Scope.MEASURE: ("POST", ""), Scope.ADMIN: ("DELETE", "/x")}
        for needed, (method, name) in asked.items():
            answer = client.request(method, f"/v1/things{name}", headers=mine)
            if scope.allows(needed):
                assert answer.status_code < 300
            else:
                assert is_problem(answer, 403, "forbidden")["scope"] == needed.value

    @pytest.mark.parametrize(
        ("question", "refusal"),
        [
            (lambda key: {"headers": bearer(f"{key[:-1]}{'B' if key[-1] == 'A' else 'A'}")}, NO_KEY),
            (lambda key: {"headers": {"Authorization": f"Basic {key}"}}, NO_KEY),
            (lambda key: {"params": {"key": key}}, NO_KEY),
            (lambda key: {"headers": [*bearer(key).items(), *bearer("x").items()]}, (400, "doubled-header")),
        ],
    )
    def test_no_other_way_to_say_a_key_is_one(self, serve, key_of, question, refusal):
        """A wrong secret under a right id, another scheme, a key in the address, and two at once."""
        mine = key_of("read")["Authorization"].removeprefix("Bearer ")
        is_problem(serve().get("/v1/things", **question(mine)), *refusal)

    def test_a_new_key_works_at_once_an_expired_one_never_and_a_revoked_one_no_longer_than_a_look(
        self, serve, key_of, monkeypatch
    ):
        client = serve()
        assert client.get("/v1/things").status_code == 200
        mine = key_of("read")
        assert client.get("/v1/things", headers=mine).status_code == 200
        revoke("read")
        monkeypatch.setattr(gate, "FRESH_SECONDS", 0.0)  # as if that time had passed
        document = is_problem(client.get("/v1/things", headers=mine), *NO_KEY)
        assert document["detail"] == "this key was revoked"
        old = key_of("read", "old", lifetime=60.0, now=time.time() - 61)
        document = is_problem(serve().get("/v1/things", headers=old), *NO_KEY)
        assert document["detail"] == "this key has expired"

    def test_revoking_the_last_key_opens_no_door_and_a_browser_is_sent_to_the_login(self, serve, key_of):
        key_of("read")
        revoke("read")
        assert serve().get("/v1/things").status_code == 401
        key_of("read")
        answer = serve().get("/?a=1&b=2", headers={"Accept": "text/html"}, follow_redirects=False)
        assert (answer.status_code, answer.headers["Location"]) == (303, "/login?next=%2F%3Fa%3D1%26b%3D2")

    def test_metrics_are_open_on_loopback_alone_and_not_through_a_proxy(self, serve, key_of):
        key_of("read")
        client = serve(public_hosts=("advisor.example",))
        assert client.get("/metrics").status_code == 200
        for name in ("X-Forwarded-For", "X-Real-IP", "Via"):
            is_problem(client.get("/metrics", headers={name: "192.0.2.7"}), *NO_KEY)
        assert serve(**OUTSIDE).get("/metrics").status_code == 401

    def test_a_store_that_is_away_keeps_no_open_door_shut(self, serve, key_of, monkeypatch):
        key_of("read")
        monkeypatch.setattr(gate.KeyCache, "holders", None)  # whoever asks it fails
        client = serve(**OUTSIDE)
        assert [client.get(path).status_code for path in ("/healthz", "/login")] == [200, 200]

    def test_answers_need_no_store_where_there_were_no_keys(self, serve, tmp_path, monkeypatch):
        store = tmp_path / "store.sqlite"
        client = serve(database_url=f"sqlite:///{store}")
        client.base_url = "http://localhost"
        assert client.get("/v1/things").status_code == 200
        store.write_bytes(b"no database any more " * 1000)
        monkeypatch.setattr(gate, "FRESH_SECONDS", 0.0)
        monkeypatch.setattr(gate, "STALE_SECONDS", 0.0)  # as if that time had passed
        words = {"task": "inference", "model": "googlenet", "target_throughput": 500}
        assert client.get("/").status_code == 200
        assert client.post("/v1/recommend", json=words).json()["recommendation"]
        is_problem(client.post("/v1/things"), 403, "forbidden")  # it reads, and changes nothing
        is_problem(client.get("/v1/measurements"), 503, "store-unavailable")

    def test_a_store_that_is_away_opens_no_door(self, serve, key_of, monkeypatch):
        mine, client = key_of("read"), serve()
        assert client.get("/v1/things", headers=mine).status_code == 200

        def away(*_, **__):
            raise gate.AdvisorError("the database is away")

        monkeypatch.setattr(ApiKeys, "holders", away)
        monkeypatch.setattr(gate, "FRESH_SECONDS", 0.0)
        assert client.get("/v1/things", headers=mine).status_code == 200
        monkeypatch.setattr(gate, "STALE_SECONDS", 0.0)
        answer = client.get("/v1/things", headers=mine)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")

    def test_use_is_noted(self, serve, key_of):
        mine = key_of("read")
        client = serve()
        for _ in range(3):
            client.get("/v1/things", headers=mine)
        client.app.state.authenticator.keys.close()
        with closing(ApiKeys()) as book:
            assert time.time() - book.named("read").last_used_at < 60


class TestOrigins:
    @pytest.mark.parametrize(
        "headers",
        [
            *({"Origin": origin} for origin in ("http://evil.example", "null", "http://testserver:81")),
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site", "Origin": "http://testserver"},
        ],
    )
    def test_what_another_sites_page_sends_changes_nothing(self, serve, headers):
        is_problem(serve().post("/v1/things", headers=headers), 403, "foreign-origin")

    @pytest.mark.parametrize(
        "headers",
        [{}, {"Origin": "http://testserver"}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}],
    )
    def test_our_page_and_programs_may(self, serve, headers):
        assert serve().post("/v1/things", headers=headers).status_code == 201

    @pytest.mark.parametrize("path", ["/v1/things", "/", "/export?format=pdf", "/static/x", "/login"])
    @pytest.mark.parametrize(
        "said",
        [
            {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
            {"Sec-Fetch-Mode": "cors"},
            {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
            {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
            {"Sec-Fetch-Site": "", "Origin": "http://evil.example"},
            {"Sec-Fetch-Site": "", "Origin": "https://testserver"},
        ],
    )
    def test_another_sites_pictures_frames_and_scripts_cost_nothing(self, serve, path, said):
        """The address of a picture would be an answer that takes a minute."""
        answer = serve().get(path, headers={"Sec-Fetch-Site": "cross-site"} | said)
        is_problem(answer, 403, "foreign-origin")

    def test_another_sites_link_may_be_followed_and_no_answer_opens_cors(self, serve):
        followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        for more in ({}, {"Sec-Fetch-Dest": "document"}):
            assert serve().get("/v1/things", headers=followed | more).status_code == 200
        client = serve()
        question = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
        for answer in (
            client.get("/v1/things/tagged", headers={"Origin": "http://testserver"}),
            client.options("/v1/things", headers=question),
        ):
            assert not [name for name in answer.headers if name.startswith("access-control")]


class TestHeaders:
    @pytest.mark.parametrize("host", ["localhost", "evil.example"])
    @pytest.mark.parametrize("path", ["/healthz", "/v1/things", "/v1/things/defect", "/nowhere", "/login"])
    def test_every_answer_has_them(self, serve, path, host):
        headers = serve().get(path, headers={"Host": host}).headers
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
        assert "unsafe" not in headers["Content-Security-Policy"]
        said = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "server": "advisor"}
        said |= dict.fromkeys(("cross-origin-opener-policy", "cross-origin-resource-policy"), "same-origin")
        assert {name: headers[name] for name in said} == said
        assert headers["Cache-Control"] in ("no-store", "private, no-cache")
        assert "Strict-Transport-Security" not in headers

    def test_hsts_stands_behind_tls_alone(self, serve):
        client = serve(public_hosts=("advisor.example",))
        client.base_url = "https://advisor.example"
        assert "Strict-Transport-Security" in client.get("/healthz").headers


class TestAuditLog:
    def test_changes_are_written_down_and_reading_is_not(self, serve, key_of):
        mine = key_of("admin", name="boss")
        client = serve()
        client.get("/v1/things", headers=mine)
        client.post("/v1/things", headers=mine)
        client.delete("/v1/things/old?secret=1", headers=mine)
        first, second = audit()
        assert (first["event"], first["name"], first["status"]) == ("request", "boss", 201)
        assert first["subject"] == "a\nthing"
        assert (second["method"], second["route"]) == ("DELETE", "/v1/things/{name}")
        assert (second["subject"], second["scope"]) == ("old", "admin")

    def test_refusals_are_written_down_without_what_was_sent(self, serve, key_of):
        mine = key_of("read")
        client = serve()
        client.post("/v1/things?token=hunter2", headers=mine, content=b"hunter2")
        client.get("/v1/things", headers=bearer("hunter2"))
        lesser, stranger = audit()
        assert (lesser["event"], lesser["status"], lesser["scope"]) == ("refused", 403, "measure")
        assert (stranger["status"], stranger["reason"]) == (401, "this is no key of this service")
        assert "hunter2" not in default_audit_log().read_text()

    def test_strangers_cannot_fill_the_disk(self, serve):
        client = serve()
        for _ in range(300):
            client.get("/v1/things", headers={"Host": "evil.example"})
        assert len(audit()) < 150


def test_every_route_of_the_api_names_the_scope_that_it_needs():
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    api = [route for route in routes if route.path.startswith("/v1")]
    assert api
    for route in api:
        needed = {getattr(dependency.dependency, "needed_scope", None) for dependency in route.dependencies}
        assert needed - {None}, f"{route.path} asks nobody for a key"
        if _changes_something(route):
            assert needed & {Scope.MEASURE, Scope.ADMIN}, f"{route.path} changes something"


def _changes_something(route):
    """Questions are asked by POST too."""
    noun = route.path.split("/")[2]
    return not {"GET", "HEAD"} & route.methods and noun in ("measurements", "sweeps", "schedules")
