"""A language model of a thousand million weights, as an own network: Pythia 1B, random weights.

Sizes: Biderman et al. 2023, arXiv:2304.01373, table 1. Needs the package `transformers`.
"""

from __future__ import annotations

from typing import Any

from advisor.models.zoo.torchvision_operators import import_torchvision

INPUT_SHAPE = (512,)
UNIT = "sequence"
_WORDS = 50_304


def pythia_1b() -> Any:
    """GPT-NeoX with 16 layers of 2,048 in 8 heads."""
    # transformers imports torchvision, which must find all of its operators.
    import_torchvision()
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    return GPTNeoXForCausalLM(
        GPTNeoXConfig(
            vocab_size=_WORDS,
            hidden_size=2048,
            num_hidden_layers=16,
            num_attention_heads=8,
            intermediate_size=8192,
            max_position_embeddings=2048,
            use_cache=False,
        )
    )


def example_batch(batch_size: int) -> tuple[Any, Any]:
    """Word numbers, and the words that follow them."""
    import torch

    words = torch.randint(_WORDS, (batch_size, INPUT_SHAPE[0] + 1))
    return words[:, :-1], words[:, 1:]


def loss(outputs: Any, targets: Any) -> Any:
    """Cross entropy of the next word."""
    from torch.nn.functional import cross_entropy

    return cross_entropy(outputs.logits.flatten(0, 1), targets.flatten())
