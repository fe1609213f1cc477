"""What is served how: a language model on GPUs by an engine, and the requests that come."""

from __future__ import annotations

from typing import NamedTuple

from advisor.models.language.configs import LanguageModel
from advisor.models.language.gpus import GpuFacts


class Deployment(NamedTuple):
    """One replica: a model in `tensor_parallel` parts, each on a GPU of its own.

    `precision` and `kv_precision` are values of `LlmPrecision` and `KvPrecision`; `engine` one of
    `LlmEngine`, or another engine's name in measured rows. `link` joins the GPUs: nvlink, pcie, or
    none for one GPU. `version` is the engine's, "" stands for the one that answers;
    `max_sequences` is the most that the engine takes in at once, None: as memory allows.
    """

    model: LanguageModel
    precision: str
    kv_precision: str
    engine: str
    gpu: GpuFacts
    tensor_parallel: int = 1
    link: str = "none"
    version: str = ""
    max_sequences: int | None = None


class Traffic(NamedTuple):
    """Mean tokens of a request and of its answer.

    `prefix_share` of the input tokens is found in the prefix cache and not computed again.
    `equal_lengths`: no request is longer than another, so that those that start together end
    together, and the next ones come in waves.
    """

    input_tokens: float
    output_tokens: float
    prefix_share: float = 0.0
    equal_lengths: bool = False
