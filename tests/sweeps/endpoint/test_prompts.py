"""Prompts have the lengths that are asked for, by the server's own count."""

from hypothesis import given
from hypothesis import strategies as st

from advisor.sweeps.endpoint.opening import Prompts


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
    """A prefix cache that keeps blocks of sixteen tokens finds nothing."""
    prompts = Prompts(0)
    beginnings = {" ".join(prompts.words(100).split()[:16]) for _ in range(200)}
    assert len(beginnings) == 200


def test_a_server_that_counts_nothing_sensible_changes_nothing():
    """Equal counts for different prompts are no measure of a word."""
    prompts = Prompts(0)
    prompts.take_counts((16, 40), (80, 40))
    assert prompts.tokens_per_word == 1.0


def test_gaps_of_a_poisson_process_have_the_rate_asked_for():
    prompts = Prompts(3)
    gaps = [prompts.gap_seconds(4.0) for _ in range(4000)]
    assert abs(sum(gaps) / len(gaps) - 0.25) < 0.02
