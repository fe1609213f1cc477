"""Networks that read text: LSTM language models, and the Transformer that translates."""

from __future__ import annotations

import math

import torch
from torch import nn

from advisor.models.zoo.bert import DecoderLayer, EncoderLayer

# Hidden units and dropout of the paper's three models; all have two layers.
SIZES = {"lstm_ptb_small": (200, 0.0), "lstm_ptb_medium": (650, 0.5), "lstm_ptb_large": (1500, 0.65)}


class LanguageModel(nn.Module):
    """Two LSTM layers between an embedding and a softmax over the vocabulary.

    Each step starts from a hidden state of zeros: carrying it over is no work.
    """

    def __init__(self, vocabulary: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(hidden, hidden, num_layers=2, dropout=dropout, batch_first=True)
        self.decoder = nn.Linear(hidden, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Word numbers (batch, unroll) to logits of the next word (batch, unroll, words)."""
        hidden, _ = self.lstm(self.dropout(self.embedding(tokens)))
        logits: torch.Tensor = self.decoder(self.dropout(hidden))
        return logits


def language_model(name: str, vocabulary: int) -> LanguageModel:
    """One of the three sizes, by the network's name."""
    hidden, dropout = SIZES[name]
    return LanguageModel(vocabulary, hidden, dropout)


_WIDTH, _HEADS, _INNER, _LAYERS = 1024, 16, 4096, 6
# The paper's dropout for the big model on English to German.
_DROPOUT = 0.3
_LONGEST = 1024


class TransformerBig(nn.Module):
    """6 + 6 layers; one embedding serves source, target and the softmax."""

    positions: torch.Tensor

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, _WIDTH)
        # Logits through a tied embedding of unit variance would start out enormous.
        nn.init.normal_(self.embedding.weight, std=_WIDTH**-0.5)
        self.register_buffer("positions", _sinusoids(_LONGEST, _WIDTH), persistent=False)
        self.dropout = nn.Dropout(_DROPOUT)
        self.encoder = nn.ModuleList(
            EncoderLayer(_WIDTH, _HEADS, _INNER, dropout=_DROPOUT) for _ in range(_LAYERS)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(_WIDTH, _HEADS, _INNER, dropout=_DROPOUT) for _ in range(_LAYERS)
        )
        # torch.nn.Transformer ends each stack with one more normalisation; so does this.
        self.encoder_norm = nn.LayerNorm(_WIDTH)
        self.decoder_norm = nn.LayerNorm(_WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Source and target words (batch, 2, length) to logits (batch, length, words).

        All target words are computed at once, as in training and in scoring; generating word
        by word is another workload.
        """
        source, target = tokens.unbind(1)
        memory = self._embed(source)
        for layer in self.encoder:
            memory = layer(memory)
        memory = self.encoder_norm(memory)
        hidden = self._embed(target)
        for layer in self.decoder:
            hidden = layer(hidden, memory)
        return nn.functional.linear(self.decoder_norm(hidden), self.embedding.weight)

    def _embed(self, tokens: torch.Tensor) -> torch.Tensor:
        scaled = self.embedding(tokens) * math.sqrt(_WIDTH)
        embedded: torch.Tensor = self.dropout(scaled + self.positions[: tokens.shape[-1]])
        return embedded


def _sinusoids(length: int, width: int) -> torch.Tensor:
    """Section 3.5 of the paper: sines beside cosines of falling frequency."""
    place = torch.arange(length)[:, None]
    frequency = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    return torch.cat([torch.sin(place * frequency), torch.cos(place * frequency)], dim=1)
