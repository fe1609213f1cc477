"""Deployments of language models: which model on which GPUs by which engine, for which requests, as
asked for and as measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from advisor.messages import Message
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


class ServingObservation(NamedTuple):
    """One replica with `concurrency` requests in flight in the mean.

    `requests_per_second` is the Poisson rate that was held, None in a closed loop. Times are means
    of one request, TPOT without the first token; what was not measured is None. Each sigma is the
    standard error of the natural logarithm, of the figure as another run would have it. `origin`
    is the file and row that a message names.
    """

    deployment: Deployment
    traffic: Traffic
    concurrency: float
    requests_per_second: float | None = None
    ttft_seconds: float | None = None
    tpot_seconds: float | None = None
    output_tokens_per_second: float | None = None
    ttft_sigma: float = 0.1
    tpot_sigma: float = 0.03
    rate_sigma: float = 0.03
    origin: str = ""


def unmeasured_parts(
    gpu: str, model: str, task: Message, *, gpu_known: bool, model_known: bool
) -> Iterator[Message]:
    """A message for the GPU and for the model, where rows are of neither."""
    if not gpu_known:
        follows = Message("its rate follows from its data sheet")
        yield Message("{gpu} was not measured: {follows}", gpu=gpu, follows=follows)
    if not model_known:
        yield Message(
            "{network} was not measured in {task}: its rate follows from what it computes",
            network=model,
            task=task,
        )
