"""BERT base (arXiv:1810.04805) with two heads; layers normalised after each sublayer (arXiv:1706.03762).

The layers compute what torch.nn.TransformerEncoderLayer and TransformerDecoderLayer do, but always by the
same operations: torch's change to a fused kernel of their own in inference, which networks made of plain
layers (as BERT users run them) do not have."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

Activation = Callable[[torch.Tensor], torch.Tensor]


class Attention(nn.Module):
    """Multi-head attention of `inputs` (batch, n, width) over `memory` (batch, m, width)."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.output = nn.Linear(width, width)

    def forward(self, inputs: torch.Tensor, memory: torch.Tensor, *, causal: bool = False) -> torch.Tensor:
        """The attended values, shaped as `inputs`; `causal` hides what comes later."""
        key, value = self.key_value(memory).chunk(2, dim=-1)
        mixed = functional.scaled_dot_product_attention(
            self._split(self.query(inputs)),
            self._split(key),
            self._split(value),
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=causal,
        )
        attended: torch.Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return attended

    def _split(self, tensor: torch.Tensor) -> torch.Tensor:
        rows, length, _ = tensor.shape
        return tensor.view(rows, length, self.heads, -1).transpose(1, 2)


class FeedForward(nn.Module):
    """Two linear layers with an activation between."""

    def __init__(self, width: int, inner: int, dropout: float, activation: Activation) -> None:
        super().__init__()
        self.widen = nn.Linear(width, inner)
        self.narrow = nn.Linear(inner, width)
        self.dropout = nn.Dropout(dropout)
        self.activation = activation

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Shaped as `inputs`."""
        outputs: torch.Tensor = self.narrow(self.dropout(self.activation(self.widen(inputs))))
        return outputs


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each added to its input and normalised."""

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        *,
        dropout: float = 0.1,
        activation: Activation = functional.relu,
        epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        self.attention = Attention(width, heads, dropout)
        self.feed_forward = FeedForward(width, inner, dropout, activation)
        self.attention_norm = nn.LayerNorm(width, eps=epsilon)
        self.feed_forward_norm = nn.LayerNorm(width, eps=epsilon)
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """(batch, n, width) to the same shape."""
        hidden = self.attention_norm(inputs + self.dropout(self.attention(inputs, inputs)))
        result: torch.Tensor = self.feed_forward_norm(hidden + self.dropout(self.feed_forward(hidden)))
        return result


class DecoderLayer(nn.Module):
    """Causal self-attention, attention over the encoder's output, feed-forward."""

    def __init__(self, width: int, heads: int, inner: int, *, dropout: float = 0.1) -> None:
        super().__init__()
        self.self_attention = Attention(width, heads, dropout)
        self.cross_attention = Attention(width, heads, dropout)
        self.feed_forward = FeedForward(width, inner, dropout, functional.relu)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        """`inputs` (batch, n, width) over `memory` (batch, m, width)."""
        first, second, third = self.norms
        hidden = first(inputs + self.dropout(self.self_attention(inputs, inputs, causal=True)))
        hidden = second(hidden + self.dropout(self.cross_attention(hidden, memory)))
        result: torch.Tensor = third(hidden + self.dropout(self.feed_forward(hidden)))
        return result


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
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        segment = (positions >= tokens.shape[1] // 2).long()
        embedded = self.words(tokens) + self.positions(positions) + self.segments(segment)
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
