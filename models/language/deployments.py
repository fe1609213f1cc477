"""Deployments of language models: model, GPUs, engine and requests, as asked for and as measured."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from advisor.domain import Gpu
from advisor.domain.results import UNMEASURED_GPU, UNMEASURED_NETWORK
from advisor.messages import Message
from advisor.models.bundled import power_ratio
from advisor.models.language.language_model import LanguageModel

# Sheets name neither: NVIDIA's dense FP4 rate over its FP8 rate, by compute capability.
_FP4_OVER_FP8 = {10.0: 2.0, 10.3: 10 / 3, 12.0: 2.0}
# One direction of sixteen lanes, GB/s after encoding.
_PCIE_GB_S = {3: 15.8, 4: 31.5, 5: 63.0, 6: 121.0}
_NVLINK = re.compile(r"NVLink[-C2\d]*(?: bridge)?(?: (?P<both>[\d.]+)GB/s)?")
_PCIE = re.compile(r"PCIe(\d)")
# A sheet that tells of a bridge without its rate: NVIDIA's bridge of its generation.
_BRIDGE_GB_S = 600.0


class GpuFacts(NamedTuple):
    """A GPU's rates, dense, in TFLOP/s; 0 where it has no such units.

    `compute_capability` is 0 where no CUDA runs. `nvlink_gb_s` and `pcie_gb_s` are of one direction. `power`
    is the log of the watts per multiprocessor and clock over what holds the clock, 0 or below: cards of few
    watts fall short of their peaks (`power_ratio`). `watts` are 0 where unknown."""

    name: str
    vendor: str
    compute_capability: float
    memory_gib: float
    bandwidth_gb_s: float
    tflops: float
    has_bf16: bool
    fp8_tflops: float
    fp4_tflops: float
    nvlink_gb_s: float
    pcie_gb_s: float
    power: float = 0.0
    watts: float = 0.0


def gpu_facts(gpu: Gpu, fp8_tflops: float | None, link: str | None) -> GpuFacts:
    """The facts of a data sheet, with its FP8 rate and its link as the catalogue writes it."""
    capability = gpu.capability or 0.0
    fp8 = fp8_tflops or 0.0
    nvlink, pcie = _link_rates(link or "")
    return GpuFacts(
        name=gpu.name,
        vendor=gpu.vendor,
        compute_capability=capability,
        memory_gib=gpu.memory_mib / 1024,
        bandwidth_gb_s=gpu.memory_gb_per_second,
        tflops=gpu.fp16_tflops or gpu.bf16_tflops or gpu.fp32_tflops,
        has_bf16=bool(gpu.bf16_tflops),
        fp8_tflops=fp8,
        fp4_tflops=fp8 * _FP4_OVER_FP8.get(capability, 0.0),
        nvlink_gb_s=nvlink,
        pcie_gb_s=pcie,
        power=power_ratio(gpu),
        watts=gpu.watts or 0.0,
    )


def _link_rates(link: str) -> tuple[float, float]:
    """GB/s of one direction over NVLink (0: none) and over PCIe.

    Sheets give NVLink's both directions together. Modules with NVLink reach their host over the PCIe of their
    time, and it is not what joins them; then the rate of PCIe 4 stands."""
    nvlink, pcie = _NVLINK.search(link), _PCIE.search(link)
    both = float(nvlink["both"] or _BRIDGE_GB_S) if nvlink else 0.0
    return both / 2, _PCIE_GB_S[int(pcie[1]) if pcie else 4]


class Draft(NamedTuple):
    """Speculative decoding: in each step `tokens` are drafted, by a `model` or without one (n-grams of the
    prompt), of which each is accepted with the chance `acceptance` where those before it were."""

    acceptance: float
    tokens: int
    model: LanguageModel | None = None

    @property
    def tokens_of_step(self) -> float:
        """Tokens that a step yields in the mean, its own included (Leviathan and others, 2023)."""
        return sum(self.acceptance**place for place in range(self.tokens + 1))


class Deployment(NamedTuple):
    """One replica: a model in `tensor_parallel` parts, each on a GPU of its own.

    `precision` and `kv_precision` are values of `LlmPrecision` and `KvPrecision`; `engine` one of
    `LlmEngine`, or another engine's name in measured rows. `link` joins the GPUs: nvlink, pcie, or none for
    one GPU. `version` is the engine's, "" stands for the one that answers; `max_sequences` is the most that
    the engine takes in at once, None: as memory allows. Of several `nodes`, joined at `node_gb_s`, each has
    such GPUs and a part of the layers: the rest is of one node's requests. `draft` is None without
    speculative decoding. Of several `ranks`, which share the experts alone, all else is of one of them."""

    model: LanguageModel
    precision: str
    kv_precision: str
    engine: str
    gpu: GpuFacts
    tensor_parallel: int = 1
    link: str = "none"
    version: str = ""
    max_sequences: int | None = None
    nodes: int = 1
    node_gb_s: float = 0.0
    draft: Draft | None = None
    ranks: int = 1


class Traffic(NamedTuple):
    """Mean tokens of a request and of its answer.

    `prefix_share` of the input tokens is found in the prefix cache and not computed again. `equal_lengths`:
    no request is longer than another, so that those that start together end together, and the next ones come
    in waves. `input_sigma` and `output_sigma` are standard deviations of the lengths' logarithms. Those that
    arrive by themselves do so the more in bursts the further `burstiness` is below 1, which is Poisson: the
    shape of the Gamma distribution of the times between them. Pictures among the input take as long in their
    tower as `tower_tokens` more. In a closed loop each user waits `think_seconds` between an answer and the
    next request. `starts_together`: so few requests follow on another that the start of all users at the same
    moment counts, as in published benchmarks (5 to 10 requests a user); else it is long past."""

    input_tokens: float
    output_tokens: float
    prefix_share: float = 0.0
    equal_lengths: bool = False
    input_sigma: float = 0.0
    output_sigma: float = 0.0
    burstiness: float = 1.0
    tower_tokens: float = 0.0
    think_seconds: float = 0.0
    starts_together: bool = False


class ServingObservation(NamedTuple):
    """One replica with `concurrency` requests in flight in the mean.

    `requests_per_second` is the Poisson rate that was held, None in a closed loop. Times are means of one
    request, TPOT without the first token; what was not measured is None. Each sigma is the standard error of
    the natural logarithm, of the figure as another run would have it. `origin` is the file and row that a
    message names."""

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
    """One message each for a GPU and for a model of which there are no rows."""
    if not gpu_known:
        follows = Message("its rate follows from its data sheet")
        yield Message("{gpu} was not measured: {follows}", code=UNMEASURED_GPU, gpu=gpu, follows=follows)
    if not model_known:
        yield Message(
            "{network} was not measured in {task}: its rate follows from what it computes",
            code=UNMEASURED_NETWORK,
            network=model,
            task=task,
        )
