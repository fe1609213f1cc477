"""A load's figures are those of its requests, and say how well they are known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.sweeps.measure.endpoint import records
from advisor.sweeps.measure.endpoint.driving import Prompts
from advisor.sweeps.measure.endpoint.protocol import Fault, RequestFailed


def answered(start, *, slot=0, ttft=0.5, tpot=0.1, tokens=11, status=records.OK):
    """A request whose answer has so many tokens, streamed one by one."""
    pieces = [start + ttft + tpot * n for n in range(tokens)]
    return records.RequestRecord(
        load=0,
        slot=slot,
        started_seconds=start,
        asked_tokens=tokens,
        status=status,
        ended_seconds=pieces[-1],
        piece_seconds=pieces,
        input_tokens=100,
        output_tokens=tokens,
    )


def driven(requests, *, concurrency=1, rate=None, begin=0.0, end=30.0):
    load = records.Load(concurrency) if rate is None else records.Load(None, rate)
    return records.DrivenLoad(load, 0, begin, end, list(requests))


def test_times_of_a_steady_load_are_exact_and_pieces_count_with_the_servers_number():
    """One request after the other, each of 1.5 s: first token, pace and rates follow."""
    figures = records.load_figures(driven([answered(1.5 * n) for n in range(20)]))
    assert figures["status"] == "ok"
    assert figures["ttft_seconds"]["mean"] == pytest.approx(0.5)
    assert figures["tpot_seconds"]["mean"] == pytest.approx(0.1)
    assert figures["itl_seconds"]["p99"] == pytest.approx(0.1)
    assert figures["e2e_seconds"]["p50"] == pytest.approx(1.5)
    assert figures["in_flight"] == pytest.approx(1.0)
    assert figures["output_tokens_per_second"]["mean"] == pytest.approx(11 / 1.5, rel=0.02)
    assert figures["requests_per_second"]["mean"] == pytest.approx(1 / 1.5, rel=0.05)
    # Four tokens in two pieces 0.3 s apart: a token after the first takes 0.1 s.
    record = answered(0.0, tpot=0.3, tokens=2)
    record.output_tokens = 4
    assert record.tpot_seconds == pytest.approx(0.1)
    assert record.tokens_per_piece == 2
    slow = answered(0.0, ttft=60.0, tpot=0.2, tokens=6)  # a first token of a minute changes nothing of it
    assert (slow.tpot_seconds, slow.ttft_seconds) == (pytest.approx(0.2), pytest.approx(60.0))


def test_the_window_begins_when_every_slot_has_answered_and_what_came_before_does_not_count():
    """What slots do while others still start is no steady load; one that never answers costs two fifths. Slow
    first answers belong to the warm-up."""
    requests = [answered(1.5 * n + slot, slot=slot) for slot in range(3) for n in range(10)]
    assert records.window(driven(requests, concurrency=3)) == (pytest.approx(3.5), 30.0)
    assert records.window(driven([answered(1.5 * n) for n in range(18)], concurrency=2))[0] == 12.0
    slow = [answered(0.0, ttft=5.0)]
    figures = records.load_figures(driven(slow + [answered(6.0 + 1.5 * n) for n in range(15)]))
    assert figures["ttft_seconds"]["p99"] == pytest.approx(0.5)


def test_tokens_of_answers_that_were_cut_count_as_rate_alone_and_a_load_given_up_has_its_fault():
    """They were computed in the window; their whole time is not known."""
    whole = [answered(1.5 * n) for n in range(19)]
    cut = answered(28.5, tokens=8, status="cut")
    cut.output_tokens = None
    with_cut, without = records.load_figures(driven([*whole, cut])), records.load_figures(driven(whole))
    assert with_cut["tpot_seconds"] == without["tpot_seconds"]
    more = with_cut["output_tokens_per_second"]["mean"] * with_cut["window_seconds"]
    less = without["output_tokens_per_second"]["mean"] * without["window_seconds"]
    assert more - less == pytest.approx(8)
    load = driven([answered(1.5 * n) for n in range(12)])
    load.failed = RequestFailed(Fault.RATE_LIMITED, "slow down", 429)
    figures = records.load_figures(load)
    assert (figures["status"], figures["reason"]) == ("rate_limited", "slow down")
    assert figures["tpot_seconds"]["count"] > 0


@pytest.mark.parametrize(("count", "status"), [(0, "none"), (3, "few"), (12, "ok")])
def test_few_answers_say_so(count, status):
    figures = records.load_figures(driven([answered(1.5 * n) for n in range(count + (count > 0))]))
    assert figures["status"] == status


def test_the_error_of_requests_that_drift_together_is_that_of_their_blocks():
    """Of eight blocks that each have another level, eight things are known, not eighty."""
    drifting = [float(block) for block in range(8) for _ in range(10)]
    plain = (sum((v - 3.5) ** 2 for v in drifting) / 79) ** 0.5 / 80**0.5
    assert records.standard_error(drifting) > 2.5 * plain


# Prompts have the lengths that are asked for, by the server's own count.


@given(st.integers(20, 5000), st.floats(1.0, 6.0), st.integers(0, 60), st.integers(0, 99))
def test_a_calibrated_prompt_is_as_long_as_asked(tokens, per_word, template, seed):
    """Of any vocabulary and any chat template: off by a word at most."""
    prompts = Prompts(seed)

    def counted(words):
        return round(template + per_word * words)

    prompts.take_counts((16, counted(16)), (80, counted(80)))
    words = len(prompts.text(tokens).split())
    wanted = max(1.0, (tokens - template) / per_word)
    assert abs(words - wanted) <= 1 + 0.03 * wanted


@given(st.integers(1, 10_000), st.integers(0, 99))
def test_lengths_lie_close_to_their_mean(mean, seed):
    """Within a tenth: the mean of a load is what was asked for."""
    length = Prompts(seed).drawn_length(mean)
    assert length >= 1
    assert abs(length - mean) <= 0.1 * mean + 0.5


def test_two_prompts_share_no_beginning():
    """A prefix cache that keeps blocks of sixteen tokens finds nothing, and equal counts for different
    prompts are no measure of a word."""
    prompts = Prompts(0)
    gaps = [prompts.gap_seconds(4.0) for _ in range(4000)]
    assert abs(sum(gaps) / len(gaps) - 0.25) < 0.02
    prompts.take_counts((16, 40), (80, 40))
    assert prompts.tokens_per_word == 1.0
    beginnings = {" ".join(prompts.words(100).split()[:16]) for _ in range(200)}
    assert len(beginnings) == 200
