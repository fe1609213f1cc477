"""Prompts of a wanted number of tokens, no two alike, so that no prefix cache answers them."""

from __future__ import annotations

import random

# Each is one token with the space before it in the vocabularies of Llama, Qwen, Mistral and GPT;
# for others `take_counts` measures how many it takes.
_TEXT = (
    "time year people way day man thing woman life child world school state family student group "
    "country problem hand part place case week company system program question work government "
    "number night point home water room mother area money story fact month lot right study book "
    "eye job word business issue side kind head house service friend father power hour game line "
    "end member law car city community name president team minute idea kid body information back "
    "parent face others level office door health person art war history party result change "
    "morning reason research girl guy moment air teacher force education"
)
_WORDS = _TEXT.split()
# A length and its answer's are drawn so far around what is asked, so that requests do not begin
# and end together for ever.
_SPREAD = 0.1


class Prompts:
    """Random words. A prompt has `fixed_tokens` (what a chat's template adds) and
    `tokens_per_word` for each of its words."""

    def __init__(self, seed: int, *, fixed_tokens: float = 0.0, tokens_per_word: float = 1.0) -> None:
        self._random = random.Random(seed)
        self.fixed_tokens = fixed_tokens
        self.tokens_per_word = tokens_per_word

    def text(self, tokens: float) -> str:
        """Words of about so many tokens, at least one."""
        return self.words(max(1, round((tokens - self.fixed_tokens) / self.tokens_per_word)))

    def words(self, count: int) -> str:
        """The given number of random words."""
        return " ".join(self._random.choices(_WORDS, k=count))

    def drawn_length(self, mean: int) -> int:
        """A length within 10 % of the mean, each as probable as another."""
        return max(1, round(mean * self._random.uniform(1 - _SPREAD, 1 + _SPREAD)))

    def gap_seconds(self, requests_per_second: float) -> float:
        """Until the next request of a Poisson process."""
        return self._random.expovariate(requests_per_second)

    def take_counts(self, first: tuple[int, int], second: tuple[int, int]) -> None:
        """Take tokens a word from two prompts, each of (words, tokens), that a server counted."""
        words = second[0] - first[0]
        if words and second[1] > first[1]:
            self.tokens_per_word = (second[1] - first[1]) / words
            self.fixed_tokens = max(0.0, first[1] - first[0] * self.tokens_per_word)
