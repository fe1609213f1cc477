"""Transformer-Big, the translator of arXiv:1706.03762, table 3; torch lives here."""

from __future__ import annotations

import math

import torch
from torch import nn

from models.zoo.attention import DecoderLayer, EncoderLayer

_WIDTH, _HEADS, _INNER, _LAYERS = 1024, 16, 4096, 6
# The paper's dropout for the big model on English to German.
_DROPOUT = 0.3
_LONGEST = 1024


class TransformerBig(nn.Module):
    """6 + 6 layers; one embedding serves source, target and the softmax."""

    positions: torch.Tensor

    def __init__(self, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, _WIDTH)
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
