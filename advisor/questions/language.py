"""The questions about language models: serving (`--task generation`) and fine-tuning.

They belong to the same commands as questions about other networks; `advisor.questions.commands` lists the
questions of each command."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from advisor.domain import Market
from advisor.domain.words import KvPrecision, LanguageTask, LlmEngine, LlmMethod, LlmPrecision, Protocol
from advisor.messages import FieldName, Message
from advisor.models.performance.networks import bundled_networks
from advisor.questions import spec
from advisor.questions.fields import (
    RATE,
    Choice,
    File,
    Files,
    FromZero,
    KnownOrPath,
    Latency,
    Names,
    Number,
    Parsed,
    Share,
    Text,
    TimeLimit,
    comma_parts,
    error_in,
)
from advisor.questions.question import Needed, ask
from advisor.questions.traffic import KNOWN_TRAFFIC
from advisor.questions.values import GpuFilter, ModelName, TensorParallel, joined_values

LANGUAGE = "Language models (--task generation, finetuning)"
# No model reads more tokens, and no request writes more.
MOST_TOKENS = 10**8
MOST_USERS = 10**7
USUAL_PICTURE = "1024x1024"

_language = partial(ask, section=LANGUAGE)
_OF_MODEL = ("task", "model", "config")
_OF_SERVING = (*_OF_MODEL, "precision", "kv_precision", "engine", "tensor_parallel")
_OF_LOAD = (
    *(*_OF_SERVING, "input_tokens", "output_tokens", "traffic", "images_per_request", "image_size"),
    *("prefix_share", "anchor", "required_confidence"),
    *("target_requests_per_second", "users", "burstiness", "think_seconds"),
    *("api_usd_per_million", "draft_acceptance", "draft_model"),
)
# Limits that an answer about a named instance is checked against.
_LIMITS = ("max_ttft_ms", "max_tpot_ms", "max_e2e_seconds", "max_usd_per_hour")
_LIMITS_OF_RUN = ("max_hours", "max_run_usd", "max_usd_per_hour")
_OF_TUNING = (*_OF_MODEL, "method", "sequence", "micro_batch")
_OF_TUNING_RUN = (*_OF_TUNING, "protocol", "tokens", "start_minutes", "required_confidence")


MOST_DRAFTED, MOST_PIXELS = 16, 100_000
_PIXELS = Number(whole=True, most=MOST_PIXELS)
_TOKENS = Number(whole=True, most=MOST_TOKENS, metavar="TOKENS")
_SECONDS = Number(metavar="SECONDS")
_LATENCY = Latency("MS")
_INSTANCE: Any = ask("Instance type, as g5.xlarge.", Text("TYPE"), section=spec.HARDWARE, required=True)
_INSTANCES: Any = ask(
    "Instance types, two or more: a,b, or the option again.", Names("TYPE"), section=spec.HARDWARE, default=()
)
_BASELINE: Any = _language("What counts as 1: an instance type.", Text("NAME"), usual="the first one")
_TARGET_THROUGHPUT = (
    "Tokens per second to reach: output tokens of generation, tokens of finetuning. Without a "
    "target, results are ranked by cost: of a million output tokens, or of the run."
)
_TARGET: Any = _language(_TARGET_THROUGHPUT, RATE, name="target_throughput")
_METHOD = Choice("method", LlmMethod)
_RUN_TOKENS: Any = _language(
    "Length of the run in tokens: those of the data set, times the epochs.",
    Number(counted=True, metavar="TOKENS"),
    default=Needed,
)


def network_hint(name: str, task: LanguageTask) -> Message | None:
    """The hint that a name belongs to a network, not to a language model; None if it does not."""
    if not bundled_networks().knows(name):
        return None
    fields = {field: FieldName(field) for field in ("task", "epochs", "samples", "tokens")}
    if task is LanguageTask.FINETUNING:
        return Message(
            "{name} is a network: ask for {task} training, with {epochs} or {samples} for {tokens}",
            name=name,
            **fields,
        )
    return Message("{name} is a network: ask for {task} training (or inference)", name=name, **fields)


class LanguageQuestion(spec.SpecQuestion):
    """A language model, by its name or by its configuration."""

    task: LanguageTask = _language(
        "What is done with the language model: generation or finetuning.",
        Choice("task", LanguageTask),
        default=Needed,
    )
    model: str = _language(
        "The language model: a name such as meta-llama/Llama-3.1-8B.", ModelName(), value="", required=True
    )
    config: Path | None = _language(
        "A local config.json of the model, instead of --model; nothing is downloaded.",
        File(),
        where="cli",
        in_document=False,
    )

    @classmethod
    def refuse(cls, values: Mapping[str, Any]) -> None:
        """Raise `UsageError` for the name of a network, since no further field can correct that."""
        name = values.get("model")
        if name and (hint := network_hint(name, values["task"])):
            raise error_in("model", "unknown language model '{name}'", name=name, hint=hint)

    def __post_init__(self) -> None:
        if bool(self.model) == (self.config is not None):
            raise error_in(
                "model",
                "name one language model",
                hint="give {model} meta-llama/Llama-3.1-8B, or {config} config.json",
            )
        named = getattr(self, "instance", "")
        if named is None:
            raise error_in("instance", "name an {field} (g5.xlarge)")
        if not isinstance(named, tuple):
            if "," in self.model:
                raise error_in(
                    "model", "{field} is one language model here", hint="`advisor compare` takes several"
                )
        elif len({*named, getattr(self, "baseline", None)} - {None}) * len(getattr(self, "methods", "1")) < 2:
            raise error_in("instance", "name what to compare", hint="give {field} two or more types")

    @property
    def model_text(self) -> str:
        """The model as the user named it."""
        return str(self.model or self.config)


class ServingQuestion(LanguageQuestion):
    """A language model to serve, and its requests, by their means; `input_tokens` and `output_tokens` are 0
    where left out. It has at most one target: output tokens or requests per second of all instances together,
    or users, each with one request in flight."""

    task: LanguageTask = _language(
        "What the GPUs do: generation.",
        Choice("task", (LanguageTask.GENERATION,)),
        default=Needed,
        value=LanguageTask.GENERATION,
    )
    input_tokens: float = _language("Mean tokens of a prompt.", _TOKENS, value=0, usual="chat: 1,155")
    output_tokens: float = _language("Mean tokens of an answer.", _TOKENS, value=0, usual="chat: 211")
    images_per_request: float | None = _language(
        "Mean pictures of a prompt; their tokens come on top of those of its text.",
        Number(metavar="N"),
        usual="none",
    )
    image_size: str | None = _language(
        "Pixels of a picture, WxH.",
        joined_values(
            *("image_size", "WxH", "x"),
            Message("{field} takes two sides, WxH (as 1024x768), not '{text}'"),
            *(_PIXELS, _PIXELS),
        ),
        usual=f"{USUAL_PICTURE} where there are pictures",
    )
    prefix_share: float = _language(
        "Share of the prompts' tokens that prefix caching spares, from 0 to below 1.",
        Share(),
        value=0.0,
        usual="prefix caching is not assumed",
    )
    precision: LlmPrecision | None = _language(
        "Format of the weights: bf16, fp16, fp8, int4-awq, nvfp4 or mxfp4.",
        Choice("precision", LlmPrecision),
        usual="the model's own, else bf16",
    )
    kv_precision: KvPrecision | None = _language(
        "Format of the KV cache: bf16 or fp8.", Choice("KV precision", KvPrecision), usual="bf16"
    )
    engine: LlmEngine = _language(
        "Serving engine. The answer names the version that its rates are of.",
        Choice("engine", LlmEngine),
        default=LlmEngine.VLLM,
    )
    target_output_tokens_per_second: float | None = _TARGET
    target_requests_per_second: float | None = _language(
        "Requests a second, at random times (Poisson).", RATE, name="target_requests_per_s"
    )
    users: int | None = _language(
        "Users that each send their next request when the last one is answered.",
        Number(whole=True, most=MOST_USERS),
    )
    max_ttft_ms: float | str | None = _language(
        "Limit on the mean time to the first token, in ms; p99:2000 limits the 99th percentile.", _LATENCY
    )
    max_tpot_ms: float | str | None = _language(
        "Limit on the mean time per output token after the first, in ms; p99:50 limits a percentile.",
        _LATENCY,
    )
    max_e2e_seconds: float | str | None = _language(
        "Limit on the mean time of a whole request, in seconds; p99:30 limits a percentile.",
        Latency("SECONDS"),
        name="max_e2e_s",
    )
    burstiness: float = _language(
        "How evenly requests come: 1 at random (Poisson), below it in bursts (Gamma, as vLLM's benchmark).",
        Number(metavar="SHAPE"),
        default=1.0,
    )
    think_seconds: float = _language(
        "Mean seconds that a user reads and types between an answer and the next request.",
        FromZero(metavar="SECONDS"),
        default=0.0,
    )
    context_tokens: int | None = _language(
        "Longest context, prompt and answer, that must fit.",
        _TOKENS,
        name="max_context",
        usual="prompt and answer of the traffic",
    )
    max_ready_seconds: float | None = _language(
        "Longest time in seconds from the engine's start until it serves: reading the weights "
        "from the disk, and its own start.",
        _SECONDS,
        name="max_ready_s",
    )
    tensor_parallel: int | None = _language(
        "GPUs that share one copy of the model; the other GPUs of an instance hold further copies.",
        TensorParallel(),
        usual="auto: whichever is cheapest",
    )
    api_usd_per_million: str | None = _language(
        "What an API asks for a million tokens, IN,OUT as 0.15,0.6: from how many tokens a day the instance "
        "costs less.",
        joined_values(
            *("api_usd_per_million", "IN,OUT", ","),
            Message("{field} takes two prices, IN,OUT (as 0.15,0.6), not '{text}'"),
            *(FromZero(), Number()),
        ),
    )
    draft_acceptance: str | None = _language(
        "Speculative decoding: the share of drafted tokens that are accepted, and how many a step drafts, "
        "A,K as 0.7,4.",
        joined_values(
            *("draft_acceptance", "A,K", ","),
            Message("{field} takes a share and a number of tokens, A,K (as 0.7,4), not '{text}'", form="A,K"),
            *(Share(), Number(whole=True, most=MOST_DRAFTED)),
        ),
        usual="none is assumed",
    )
    draft_model: str | None = _language(
        "The language model that drafts; its memory and time count.",
        ModelName(),
        usual="n-grams of the prompt, which take none",
    )
    max_count: int = spec.MAX_COUNT
    # Standard deviations of log lengths in the traffic; 0 where lengths are given.
    input_spread: float = 0.0
    output_spread: float = 0.0
    # Tokens of a prompt's pictures, and the work of encoding those, as tokens of the model.
    picture_tokens: float = 0.0
    tower_tokens: float = 0.0
    traffic: str | None = _language(
        f"Lengths of prompts and answers: {', '.join(KNOWN_TRAFFIC)} (published traces), or a CSV "
        "or JSONL file with input_tokens and output_tokens.",
        KnownOrPath("traffic", tuple(KNOWN_TRAFFIC), "NAME|FILE"),
        usual="chat",
        in_document=False,
    )
    anchor: tuple[Path, ...] = _language(
        "Measurement of an endpoint, from `advisor measure --endpoint`. Repeatable.",
        Files(),
        default=(),
        where="cli",
        in_document=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.image_size and self.images_per_request is None:
            raise error_in(
                "images_per_request",
                "{image_size} says how large pictures are, and nothing how many come",
                hint="give {field} 1",
            )
        if self.draft_model and self.draft_acceptance is None:
            raise error_in(
                "draft_acceptance",
                "{model} drafts, and {field} does not say with what success",
                model=FieldName("draft_model"),
                hint="measure it (vLLM logs the draft acceptance rate): 0.7,4",
            )
        if (self.input_tokens or self.output_tokens) and self.traffic is not None:
            raise error_in(
                "traffic",
                "{field} says how long prompts and answers are",
                hint="leave out {field}, or {input_tokens} and {output_tokens}",
            )
        if len(targets := self.targets) > 1:
            raise error_in(
                self.declared[targets[1]].name,
                "{first} and {field} are two targets",
                first=FieldName(self.declared[targets[0]].name),
                hint="give one of them",
            )

    @property
    def targets(self) -> tuple[str, ...]:
        """Attributes of the targets that are set."""
        names = ("target_output_tokens_per_second", "target_requests_per_second", "users")
        return tuple(name for name in names if getattr(self, name) is not None)

    @property
    def prompt_tokens(self) -> float:
        """Mean tokens of a prompt, including its pictures."""
        return self.input_tokens + self.picture_tokens

    @property
    def request_tokens(self) -> float:
        """Mean tokens of a whole request."""
        return self.prompt_tokens + self.output_tokens

    @property
    def api_usd_per_million_tokens(self) -> float | None:
        """The API's price of a million tokens of these requests, in and out together."""
        if self.api_usd_per_million is None:
            return None
        each = map(float, self.api_usd_per_million.split(","))
        lengths = self.prompt_tokens, self.output_tokens
        return sum(usd * tokens for usd, tokens in zip(each, lengths, strict=True)) / sum(lengths)

    @property
    def ranks_by_price(self) -> bool:
        """Return whether specs are ranked by hourly price; else by the cost of an output token."""
        return bool(self.targets)

    @property
    def time_limits(self) -> tuple[TimeLimit, ...]:
        """The limits on times; for answers of one token there is no time after the first."""
        names = ("max_ttft_ms", "max_tpot_ms", "max_e2e_seconds")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.output_tokens <= 1:
            given.pop("max_tpot_ms", None)
        return tuple(TimeLimit.parse(name, value) for name, value in given.items())

    @property
    def longest_tokens(self) -> int:
        """Tokens of the longest sequence that must fit: the question's, but at least a mean request."""
        return max(self.context_tokens or 0, math.ceil(self.request_tokens))


class RecommendGeneration(ServingQuestion):
    """The question of `advisor recommend --task generation`."""

    asks = (
        *(*_OF_LOAD, "target_output_tokens_per_second", "max_ttft_ms", "max_tpot_ms", "max_e2e_seconds"),
        *("context_tokens", "max_ready_seconds", "max_count", "explain", *spec.OF_PLACE, *spec.OF_HARDWARE),
    )

    market: Market | None = spec.RANKED_MARKET
    explain: bool = spec.EXPLAIN._replace(where="cli")


class PredictGeneration(ServingQuestion):
    """The question of `advisor predict --task generation`: of one instance, under a load or none."""

    asks = (*_OF_LOAD, "instance", *spec.OF_PLACE, *_LIMITS)

    instance: str | None = _INSTANCE


class CompareGeneration(ServingQuestion):
    """The question of `advisor compare --task generation`."""

    asks = (*_OF_LOAD, "instance", "baseline", *spec.OF_PLACE, *_LIMITS)

    instance: tuple[str, ...] = _INSTANCES
    baseline: str | None = _BASELINE


class MemoryGeneration(ServingQuestion):
    """The question of `advisor memory --task generation`."""

    asks = (*_OF_SERVING, "context_tokens", "gpu")

    context_tokens: int | None = _language(
        "Context of a sequence, prompt and answer, in tokens.",
        _TOKENS,
        name="max_context",
        usual="8192, or the model's longest",
    )
    gpu: GpuFilter | None = spec.MEMORY_GPU


class TuningQuestion(LanguageQuestion):
    """A language model to fine-tune; `max_hours` and `max_run_usd` limit the upper bounds of the run."""

    task: LanguageTask = _language(
        "What the instance does: finetuning.",
        Choice("task", (LanguageTask.FINETUNING,)),
        default=Needed,
        value=LanguageTask.FINETUNING,
    )
    tokens: float = _RUN_TOKENS
    sequence: int = _language("Tokens of a sequence.", _TOKENS, default=2048)
    method: LlmMethod = _language(
        "What is tuned: full (all weights), lora, or qlora (lora on 4-bit weights).",
        _METHOD,
        default=LlmMethod.LORA,
    )
    micro_batch: int | None = _language(
        "Sequences that a GPU computes at once.",
        Number(whole=True, most=MOST_USERS),
        usual="the fastest that fits",
    )
    protocol: Protocol = _language(
        "The training step that is meant: a typical script's of today, or a compiled benchmark's.",
        Choice("protocol", Protocol),
        default=Protocol.SCRIPT,
    )
    target_tokens_per_second: float | None = _TARGET
    max_hours: float | None = spec.MAX_HOURS
    max_run_usd: float | None = spec.MAX_COST
    start_minutes: float | None = spec.START_MINUTES

    @property
    def ends(self) -> bool:
        """Return whether only the whole run counts, since there is no target rate."""
        return self.target_tokens_per_second is None


class RecommendFinetuning(TuningQuestion):
    """The question of `advisor recommend --task finetuning`."""

    asks = (
        *(*_OF_TUNING_RUN, "max_hours", "max_run_usd", "target_tokens_per_second", "explain"),
        *(*spec.OF_PLACE, *spec.OF_HARDWARE),
    )

    market: Market | None = spec.RANKED_MARKET
    explain: bool = spec.EXPLAIN._replace(where="cli")


class PredictFinetuning(TuningQuestion):
    """The question of `advisor predict --task finetuning`, of one instance."""

    asks = (*_OF_TUNING_RUN, "instance", *spec.OF_PLACE, *_LIMITS_OF_RUN)

    tokens: float = _RUN_TOKENS._replace(default=1e6, value=1e6)
    instance: str | None = _INSTANCE


class CompareFinetuning(TuningQuestion):
    """The question of `advisor compare --task finetuning`; its `methods` are compared one by one."""

    asks = (
        *("methods" if name == "method" else name for name in _OF_TUNING_RUN),
        *("instance", "baseline", *spec.OF_PLACE, *_LIMITS_OF_RUN),
    )

    methods: tuple[LlmMethod, ...] = _language(
        "What is tuned: full (all weights), lora, qlora (lora on 4-bit weights), or several: full,lora.",
        Parsed(
            lambda text: tuple(_METHOD.from_text(name, "method") for name in comma_parts(text)),
            ",".join,
            _METHOD.metavar,
            joins=True,
        ),
        name="method",
        default=(LlmMethod.LORA,),
    )
    tokens: float = _RUN_TOKENS._replace(default=1e6, value=1e6)
    instance: tuple[str, ...] = _INSTANCES
    baseline: str | None = _BASELINE


class MemoryFinetuning(TuningQuestion):
    """The question of `advisor memory --task finetuning`."""

    asks = (*_OF_TUNING, "gpu")

    tokens: float = 1e9  # a run is no part of this question
    gpu: GpuFilter | None = spec.MEMORY_GPU
