"""How often, how much and how many at once."""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.service.guard.bodies import Gone, check_body, read_body
from advisor.service.guard.rates import Buckets, place_of
from advisor.service.guard.work import Line
from advisor.service.problems import Problem
from advisor.strict_json import MOST_DEPTH

JSON = {"Content-Type": "application/json"}


def kind(answer):
    return answer.json()["type"].rpartition(":")[2]


class TestRates:
    def test_who_asks_too_often_is_told_when_to_come_again(self, serve, key_of):
        client = serve(rate_limit=0.001)  # so that no pause of the machine fills the bucket
        first, second = (client.get("/v1/things") for _ in range(2))
        assert first.status_code == 200
        assert (second.status_code, kind(second)) == (429, "too-often")
        assert 900 < int(second.headers["Retry-After"]) <= 1000
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

    @given(st.lists(st.floats(0, 10), min_size=1, max_size=50))
    def test_no_more_pass_than_the_burst_and_the_rate(self, pauses):
        buckets, now, passed = Buckets(2.0, 5.0), 100.0, 0
        for pause in pauses:
            now += pause
            passed += buckets.take("one", now).allowed
        assert passed <= 5 + 2 * (now - 100.0) + 1e-6

    def test_so_many_holders_are_remembered_at_most(self):
        buckets = Buckets(1.0, 1.0)
        for number in range(20_000):
            buckets.take(str(number), 0.0)
        assert len(buckets._levels) == 10_000

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
        assert place_of(address) == place


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

    @pytest.mark.parametrize("told", ["-1", "1e9", "\uff19" * 4, "9" * 5000])
    def test_a_length_that_is_no_number_helps_nobody(self, told):
        async def receive():
            return {"type": "http.request", "body": b"x" * 2000}

        with pytest.raises(Problem):
            asyncio.run(read_body(receive, most_bytes=1000, seconds=5.0, told_length=told))

    def test_a_body_that_trickles_is_given_up(self):
        async def receive():
            await asyncio.sleep(0.01)
            return {"type": "http.request", "body": b"x", "more_body": True}

        with pytest.raises(Problem) as told:
            asyncio.run(read_body(receive, most_bytes=1000, seconds=0.05, told_length=""))
        assert told.value.status == 408

    def test_a_client_that_left_is_not_answered(self):
        async def receive():
            return {"type": "http.disconnect"}

        with pytest.raises(Gone):
            asyncio.run(read_body(receive, most_bytes=9, seconds=1.0, told_length=""))

    @pytest.mark.parametrize("around", [b"[%s]", b'{"a": %s}'])
    def test_deep_nesting_is_refused_and_shallow_is_not(self, around):
        body = b"1"
        for _ in range(MOST_DEPTH):
            body = around % body
        check_body(body)
        with pytest.raises(Problem, match="nested deeper"):
            check_body(around % body)

    def test_brackets_in_strings_do_not_count(self):
        check_body(b'{"a": "' + b"[" * 1000 + b'\\"{{{{"}')
        check_body(b"[" + b"[]," * 1000 + b"1]")

    @pytest.mark.parametrize("text", [rb'{"a": "\ud800"}', rb'["\uDfFf"]', rb'{"\u0000": 1}'])
    def test_text_that_nothing_can_hold_is_refused(self, text):
        with pytest.raises(Problem):
            check_body(text)

    @pytest.mark.parametrize("text", [rb'"\ud83d\ude00"', rb'"\u00e9"', rb'{"a": "\ud800'])
    def test_pairs_and_what_is_no_json_are_left_to_the_route(self, text):
        check_body(text)

    @pytest.mark.parametrize("number", ["9223372036854775808", "-9223372036854775809", "1" * 5000])
    def test_a_whole_number_beyond_64_bits_is_refused(self, number):
        with pytest.raises(Problem, match="64 bits"):
            check_body(b'{"a": [%s]}' % number.encode())

    @pytest.mark.parametrize(
        "number",
        ["9223372036854775807", "-9223372036854775808", "0." + "3" * 30, '"' + "9" * 99 + '"'],
    )
    def test_other_numbers_and_texts_are_not(self, number):
        check_body(b'{"a": %s}' % number.encode())

    @given(st.binary(max_size=300))
    def test_any_bytes_are_judged_without_an_error_of_ours(self, body):
        with suppress(Problem):
            check_body(body)

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


class TestLine:
    def test_who_finds_the_line_full_is_sent_away(self):
        async def ask():
            line = Line(1, 1)
            await line.enter()
            waiting = asyncio.create_task(line.enter())
            await asyncio.sleep(0)
            with pytest.raises(Problem) as told:
                await line.enter()
            assert (told.value.status, told.value.headers["Retry-After"]) == (503, "1")
            line.leave()
            await waiting
            line.leave()
            await line.enter()

        asyncio.run(ask())

    def test_who_leaves_the_line_makes_room(self):
        async def ask():
            line = Line(1, 1)
            await line.enter()
            waiting = asyncio.create_task(line.enter())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            next_one = asyncio.create_task(line.enter())
            await asyncio.sleep(0)
            line.leave()
            await next_one

        asyncio.run(ask())

    def test_a_place_is_given_back_after_refusals_and_defects(self, serve):
        client = serve(most_at_once=1, most_waiting=0, most_body_bytes=10)
        for _ in range(3):
            assert client.get("/v1/things/defect").status_code == 500
            assert client.post("/v1/things", content=b"x" * 99).status_code == 413
            assert client.get("/v1/things").status_code == 200
