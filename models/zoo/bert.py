"""BERT base (arXiv:1810.04805) with its two heads; torch lives here."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from advisor.models.zoo.attention import EncoderLayer

_WIDTH, _HEADS, _INNER, _LAYERS = 768, 12, 3072, 12
_LONGEST = 512
_DROPOUT, _EPSILON, _INITIAL_DEVIATION = 0.1, 1e-12, 0.02


class Encoder(nn.Module):
    """Embeddings of words, positions and segments, and twelve layers."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, _WIDTH)
        self.positions = nn.Embedding(_LONGEST, _WIDTH)
        self.segments = nn.Embedding(2, _WIDTH)
        self.norm = nn.LayerNorm(_WIDTH, eps=_EPSILON)
        self.dropout = nn.Dropout(_DROPOUT)
        self.layers = nn.ModuleList(
            EncoderLayer(_WIDTH, _HEADS, _INNER, activation=functional.gelu, epsilon=_EPSILON)
            for _ in range(_LAYERS)
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Word numbers (batch, n) to (batch, n, 768); the second half is the second segment."""
        place = torch.arange(tokens.shape[1], device=tokens.device)
        segment = (place >= tokens.shape[1] // 2).long()
        embedded = self.words(tokens) + self.positions(place) + self.segments(segment)
        hidden: torch.Tensor = self.dropout(self.norm(embedded))
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden


class Pretraining(nn.Module):
    """BERT with the heads it is pre-trained with: hidden words, and is this the next sentence."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.encoder = Encoder(words)
        self.transform = nn.Linear(_WIDTH, _WIDTH)
        self.transform_norm = nn.LayerNorm(_WIDTH, eps=_EPSILON)
        self.word_bias = nn.Parameter(torch.zeros(words))
        self.pooler = nn.Linear(_WIDTH, _WIDTH)
        self.is_next = nn.Linear(_WIDTH, 2)
        self.apply(_initialise)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Word logits (batch, n, words) at every place, and sentence logits (batch, 2)."""
        hidden = self.encoder(tokens)
        transformed = self.transform_norm(functional.gelu(self.transform(hidden)))
        words = functional.linear(transformed, self.encoder.words.weight, self.word_bias)
        return words, self.is_next(torch.tanh(self.pooler(hidden[:, 0])))


class QuestionAnswering(nn.Module):
    """BERT with SQuAD's head: where in the text the answer starts and ends."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.encoder = Encoder(words)
        self.span = nn.Linear(_WIDTH, 2)
        self.apply(_initialise)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """(batch, n) to logits of start and end, (batch, 2, n)."""
        logits: torch.Tensor = self.span(self.encoder(tokens)).transpose(1, 2)
        return logits


def _initialise(module: nn.Module) -> None:
    """The paper's initial weights; torch's default embeddings would give absurd logits."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=_INITIAL_DEVIATION)
