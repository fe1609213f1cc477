"""The LSTM language models of Zaremba et al. (arXiv:1409.2329); torch lives here."""

from __future__ import annotations

import torch
from torch import nn

# Hidden units and dropout of the paper's three models; all have two layers.
SIZES = {
    "lstm_ptb_small": (200, 0.0),
    "lstm_ptb_medium": (650, 0.5),
    "lstm_ptb_large": (1500, 0.65),
}


class LanguageModel(nn.Module):
    """Two LSTM layers between an embedding and a softmax over the vocabulary.

    Each step starts from a hidden state of zeros: carrying it over is no work.
    """

    def __init__(self, words: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, hidden)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(hidden, hidden, num_layers=2, dropout=dropout, batch_first=True)
        self.decoder = nn.Linear(hidden, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Word numbers (batch, unroll) to logits of the next word (batch, unroll, words)."""
        hidden, _ = self.lstm(self.dropout(self.embedding(tokens)))
        logits: torch.Tensor = self.decoder(self.dropout(hidden))
        return logits


def language_model(name: str, words: int) -> LanguageModel:
    """One of the three sizes, by the network's name."""
    hidden, dropout = SIZES[name]
    return LanguageModel(words, hidden, dropout)


def macs_per_token(hidden: int, words: int) -> int:
    """Multiply-accumulates of one token's forward pass.

    Four gates, each with an input and a recurrent product, in two layers, then the decoder.
    Needed because a fused LSTM hides its products from every operation counter.
    """
    return 2 * 8 * hidden**2 + hidden * words
