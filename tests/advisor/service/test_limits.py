"""How often, how much and how many at once."""

import asyncio
import functools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.requests import ClientDisconnect

from advisor.errors import STILL_WANTED
from advisor.service import app, gate
from advisor.service.answers import Threads
from advisor.service.problems import Problem
from advisor.service.routes import answers
from advisor.service.settings import Settings
from advisor.service.visits import CURRENT, Visit, client_network


def visit(client="192.0.2.1", leaves=None):
    """Of a client at an address, which leaves at some time."""

    async def receive():
        await (leaves or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    item = Visit.of({"type": "http", "method": "GET", "path": "/", "headers": [], "client": (client, 5)})
    item.receive = receive
    return item


def concurrent(test):
    """A coroutine as a test."""

    @functools.wraps(test)
    def run(self):
        asyncio.run(test(self))

    return run


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

    @pytest.mark.parametrize(
        ("path", "headers", "status"),
        [("/login", {}, 200), ("/readyz", {}, 200), ("/", {"Host": "evil.example"}, 421)],
    )
    def test_who_has_no_key_waits_for_a_turn(self, serve, monkeypatch, path, headers, status):
        monkeypatch.setattr(gate, "_LONGEST_TURN_SECONDS", 0.0)
        monkeypatch.setattr(gate, "_TURNS_PER_SECOND", 0.01)
        monkeypatch.setattr(gate, "_TURNS_AT_ONCE", 5)
        client = serve()
        text = [client.get(path, headers=headers) for _ in range(6)]
        assert {response.status_code for response in text[:5]} == {status}
        assert kind(text[-1]) == "too-often"

    def test_turns_come_evenly_and_each_address_has_its_own(self, monkeypatch):
        """However many connections strangers hold, so many a second are answered: no burst."""
        monkeypatch.setattr(gate, "_TURNS_PER_SECOND", 50.0)
        waits = []

        async def slept(seconds):
            waits.append(round(seconds, 1))

        async def ask():
            monkeypatch.setattr(gate.asyncio, "sleep", slept)
            limits = gate.RateLimits(100.0)
            for _ in range(70):
                await limits.turn(visit())
            await limits.turn(visit("192.0.2.2"))

        asyncio.run(ask())
        assert waits[:20] == [0.0] * 20
        assert waits[20:70] == sorted(waits[20:70])
        assert waits[69] == pytest.approx(1.0, abs=0.2)
        assert waits[70] == 0.0

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

    def test_a_customer_of_ipv6_has_one_bucket(self):
        networks = {"2001:db8:1:2:3::4": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64"}
        networks |= {"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "what:ever": "what:ever"}
        assert {address: client_network(address) for address in networks} == networks


class TestBodies:
    def test_a_body_that_is_too_large_is_not_read_whether_its_length_is_told_or_not(self, serve):
        client = serve(most_body_bytes=1000)
        assert client.post("/v1/things", content=b"x" * 1000).json() == {"bytes": 1000}
        for content in (b"x" * 1001, (b"x" * 100 for _ in range(11))):
            answer = client.post("/v1/things", content=content)
            assert (answer.status_code, kind(answer)) == (413, "too-large")

    def test_a_body_that_trickles_is_given_up(self, monkeypatch):
        monkeypatch.setattr(app, "BODY_SECONDS", 0.05)

        async def receive():
            await asyncio.sleep(0.01)
            return {"type": "http.request", "body": b"x", "more_body": True}

        async def read():
            visit = Visit.of({"type": "http", "method": "POST", "path": "/", "headers": []})
            around = app.RequestMiddleware(None, settings=Settings(), auditor=None)
            limited = around._limited(visit, receive)
            while (await limited())["more_body"]:
                pass

        with pytest.raises(Problem) as refusal:
            asyncio.run(read())
        assert refusal.value.status == 408

    def test_a_client_that_leaves_within_its_body_is_no_defect(self):
        """Slow writers are many, and each traceback of theirs would cost more than an answer."""
        problem = app._problem_of(ClientDisconnect(), visit(), "1")
        assert (problem.status, problem.kind) == (408, "client-left")


class TestThreads:
    @concurrent
    async def test_what_finds_the_line_full_is_sent_away(self):
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

    def test_nobodys_many_questions_stand_before_everybody_elses(self):
        order, ends = [], threading.Semaphore(0)

        def work(name):
            ends.acquire()
            order.append(name)

        async def ask():
            threads = Threads(Settings())

            async def item(name):
                CURRENT.set(visit(client=name))
                await threads.run(work, name, slow=True)

            greedy = [asyncio.create_task(item("greedy")) for _ in range(9)]
            await asyncio.sleep(0.05)
            other = asyncio.create_task(item("other"))
            await asyncio.sleep(0.05)
            ends.release(10)
            await asyncio.gather(other, *greedy)

        asyncio.run(ask())
        assert order.index("other") <= 2

    @concurrent
    async def test_more_of_one_key_than_can_be_answered_soon_is_sent_away(self):
        threads, end = Threads(Settings()), threading.Event()
        CURRENT.set(visit())
        question = [asyncio.create_task(threads.run(end.wait, slow=True)) for _ in range(40)]
        await asyncio.sleep(0.05)
        refused = [future for future in question if future.done()]
        end.set()
        await asyncio.wait(question)
        assert {future.exception().status for future in refused} == {503}
        assert len(question) - len(refused) == 16

    @concurrent
    async def test_what_a_client_that_left_was_waiting_for_is_dropped(self):
        threads, end, computed = Threads(Settings()), threading.Event(), []
        first = asyncio.create_task(threads.run(end.wait, slow=True))
        await asyncio.sleep(0.02)
        leaves = asyncio.Event()
        CURRENT.set(visit(leaves=leaves))
        second = asyncio.create_task(threads.run(computed.append, 1, slow=True))
        await asyncio.sleep(0.02)
        leaves.set()
        with pytest.raises(Problem, match="left"):
            await second
        end.set()
        await first
        CURRENT.set(visit())
        assert await threads.run(lambda: "next", slow=True) == "next"
        assert computed == []

    @concurrent
    async def test_what_is_computed_for_a_client_that_left_hears_of_it(self):
        """Its thread goes on to its end, and its turn with it; what takes longest asks now and then."""
        threads, leaves, heard = Threads(Settings()), asyncio.Event(), threading.Event()

        def work():
            while STILL_WANTED.get()():
                time.sleep(0.01)
            heard.set()

        CURRENT.set(visit(leaves=leaves))
        question = asyncio.create_task(threads.run(work, slow=True))
        await asyncio.sleep(0.05)
        leaves.set()
        with pytest.raises(Problem, match="left"):
            await question
        CURRENT.set(visit())
        assert await threads.run(heard.is_set, slow=True)

    @concurrent
    async def test_slow_questions_keep_no_quick_one_waiting(self):
        threads, end = Threads(Settings()), threading.Event()
        slow = [asyncio.create_task(threads.run(end.wait, slow=True)) for _ in range(9)]
        await asyncio.sleep(0.01)
        assert await threads.run(lambda: "quick") == "quick"
        end.set()
        await asyncio.gather(*slow)


def test_a_question_that_waits_for_another_holds_up_nothing_else(service, monkeypatch):
    question = {"task": "inference", "model": "googlenet", "target_throughput": 500}
    assert service.post("/v1/recommend", json=question).status_code == 200
    lock, recommended = threading.Event(), answers.recommended

    def waiting(*arguments, **options):
        assert lock.wait(60)
        return recommended(*arguments, **options)

    monkeypatch.setattr(answers, "recommended", waiting)
    others = ({}, {"target_throughput": 400}, {"pareto": True, "max_count": 50})
    with ThreadPoolExecutor(4) as pool:
        try:
            questions = [pool.submit(service.post, "/v1/recommend", json=question | more) for more in others]
            alive = pool.submit(service.get, "/healthz").result(timeout=30)
        finally:
            lock.set()
        assert alive.status_code == 200
        assert [future.result(60).status_code for future in questions] == [200, 200, 200]
