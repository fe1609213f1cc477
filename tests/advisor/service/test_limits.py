"""How often, how much and how many at once."""

import asyncio
import threading

import pytest

from advisor.service import middleware
from advisor.service.access import Visit
from advisor.service.answers import Threads
from advisor.service.problems import Problem
from advisor.service.rates import client_network
from advisor.service.settings import Settings


def kind(answer):
    return answer.json()["type"].rpartition(":")[2]


class TestRates:
    def test_who_asks_too_often_is_told_when_to_come_again(self, serve, key_of):
        client = serve(rate_limit=0.001)  # so that no pause of the machine fills the bucket
        first, second = (client.get("/v1/things") for _ in range(2))
        assert first.status_code == 200
        assert (second.status_code, kind(second)) == (429, "too-often")
        assert 900 < int(second.headers["Retry-After"]) <= 1001
        assert second.headers["RateLimit"].startswith('"default";r=0;t=')
        assert "RateLimit-Policy" in first.headers

    def test_each_key_has_a_bucket_of_its_own(self, serve, key_of):
        client = serve(rate_limit=0.001)
        first, second = key_of("read", name="a"), key_of("read", name="b")
        assert [client.get("/v1/things", headers=first).status_code for _ in range(4)][-1] == 429
        assert client.get("/v1/things", headers=second).status_code == 200

    def test_0_is_no_limit_and_health_is_always_told(self, serve):
        client = serve(rate_limit=0.0)
        assert {client.get("/v1/things").status_code for _ in range(300)} == {200}
        limited = serve(rate_limit=1.0)
        assert {limited.get("/healthz").status_code for _ in range(9)} == {200}

    def test_wrong_keys_are_slowed_down_before_right_ones(self, serve, key_of):
        mine = key_of("read")
        client = serve()
        wrong = {"Authorization": "Bearer adv_x"}
        assert 429 in {client.get("/v1/things", headers=wrong).status_code for _ in range(60)}
        assert client.get("/v1/things", headers=mine).status_code == 200

    @pytest.mark.parametrize(
        ("address", "place"),
        [
            ("192.0.2.1", "192.0.2.1"),
            ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("fe80::1%eth0", "fe80::/64"),
            ("what:ever", "what:ever"),
        ],
    )
    def test_a_customer_of_ipv6_has_one_bucket(self, address, place):
        assert client_network(address) == place


class TestBodies:
    def test_a_body_that_is_told_to_be_too_large_is_not_read(self, serve):
        client = serve(most_body_bytes=1000)
        answer = client.post("/v1/things", content=b"x" * 1001)
        assert (answer.status_code, kind(answer)) == (413, "too-large")
        assert client.post("/v1/things", content=b"x" * 1000).json() == {"bytes": 1000}

    def test_one_that_tells_no_length_is_cut_off(self, serve):
        def parts():
            for _ in range(11):
                yield b"x" * 100

        answer = serve(most_body_bytes=1000).post("/v1/things", content=parts())
        assert answer.status_code == 413

    def test_a_body_that_trickles_is_given_up(self, monkeypatch):
        monkeypatch.setattr(middleware, "BODY_SECONDS", 0.05)

        async def receive():
            await asyncio.sleep(0.01)
            return {"type": "http.request", "body": b"x", "more_body": True}

        async def read():
            visit = Visit.of({"type": "http", "method": "POST", "path": "/", "headers": []})
            around = middleware.RequestMiddleware(None, settings=Settings(), auditor=None)
            limited = around._limited(visit, receive)
            while (await limited())["more_body"]:
                pass

        with pytest.raises(Problem) as refusal:
            asyncio.run(read())
        assert refusal.value.status == 408

    def test_a_null_character_in_the_address_is_refused(self, serve):
        client = serve()
        for path in ("/v1/things/a%00b", "/v1/things?x=%00"):
            assert kind(client.get(path)) == "null-character"

    def test_the_route_sees_the_very_body(self, serve):
        def parts():
            yield b"ab"
            yield b""
            yield b"cde"

        assert serve().post("/v1/things", content=parts()).json() == {"bytes": 5}


class TestThreads:
    def test_what_finds_the_line_full_is_sent_away(self):
        async def ask():
            threads, end = Threads(Settings(most_at_once=1, most_waiting=1)), threading.Event()
            first = asyncio.create_task(threads.run(end.wait))
            await asyncio.sleep(0.01)
            second = asyncio.create_task(threads.run(end.wait))
            await asyncio.sleep(0.01)
            with pytest.raises(Problem) as refusal:
                await threads.run(end.wait)
            assert (refusal.value.status, refusal.value.headers["Retry-After"]) == (503, "1")
            end.set()
            assert await asyncio.gather(first, second) == [True, True]

        asyncio.run(ask())

    def test_slow_questions_keep_no_quick_one_waiting(self):
        async def ask():
            threads, end = Threads(Settings()), threading.Event()
            slow = [asyncio.create_task(threads.run(end.wait, slow=True)) for _ in range(9)]
            await asyncio.sleep(0.01)
            assert await threads.run(lambda: "quick") == "quick"
            end.set()
            await asyncio.gather(*slow)

        asyncio.run(ask())
