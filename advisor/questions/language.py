"""The questions about language models: serving one (`--task generation`), and tuning one.

The same commands take them as take questions about other networks; `advisor.questions.commands`
has the questions of each.
"""

from __future__ import annotations

from pathlib import Path

from advisor.domain.generation import KvPrecision, LanguageTask, LlmEngine, LlmMethod, LlmPrecision
from advisor.messages import FieldName, Message
from advisor.questions.fields import Choice, Files, KnownOrPath, Names, Text, wrong
from advisor.questions.language_fields import (
    ENGINE,
    INSTANCE,
    KV_PRECISION,
    LANGUAGE,
    MILLISECONDS,
    MOST_USERS,
    PRECISION,
    RUN_TOKENS,
    TARGET_THROUGHPUT,
    TENSOR_PARALLEL,
    TOKENS,
    LanguageQuestion,
)
from advisor.questions.numbers import RATE, Number, Share
from advisor.questions.placed import HardwareQuestion, PlacedQuestion
from advisor.questions.question import ask
from advisor.questions.shared import CONFIDENCE, GPU, HARDWARE, MAX_COST, MAX_COUNT, MAX_HOURS
from advisor.questions.traffic import KNOWN_TRAFFIC
from advisor.questions.values import GpuFilter


class ServedModel(LanguageQuestion):
    """A language model that is served."""

    task: LanguageTask = ask(
        "What the GPUs do: generation.", Choice("task", (LanguageTask.GENERATION,)), section=LANGUAGE
    )
    precision: LlmPrecision | None = PRECISION
    kv_precision: KvPrecision | None = KV_PRECISION
    engine: LlmEngine = ENGINE
    tensor_parallel: int | None = TENSOR_PARALLEL


class Generation(ServedModel):
    """A language model that is served, and the requests that come."""

    input_tokens: int | None = ask(
        "Tokens of a prompt, in the mean.", TOKENS, section=LANGUAGE, default=None, usual="that of --traffic"
    )
    output_tokens: int | None = ask(
        "Tokens of an answer, in the mean.", TOKENS, section=LANGUAGE, default=None, usual="that of --traffic"
    )
    traffic: str | None = ask(
        f"Lengths of prompts and answers: {', '.join(KNOWN_TRAFFIC)} (published traces), or a CSV "
        "or JSONL file with input_tokens and output_tokens.",
        KnownOrPath("traffic", tuple(KNOWN_TRAFFIC), "NAME|FILE"),
        section=LANGUAGE,
        default=None,
        usual="chat",
    )
    prefix_share: float | None = ask(
        "Share of the prompts' tokens that prefix caching spares, from 0 to below 1.",
        Share(),
        section=LANGUAGE,
        default=None,
        usual="prefix caching is not assumed",
    )
    anchor: tuple[Path, ...] = ask(
        "Measurement of an endpoint, from `advisor measure --endpoint`. Repeatable.",
        Files(),
        section=LANGUAGE,
        default=(),
        where="cli",
    )
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.input_tokens is None) != (self.output_tokens is None):
            missing = "output_tokens" if self.output_tokens is None else "input_tokens"
            raise wrong(
                missing,
                "{input} and {output} go together",
                input=FieldName("input_tokens"),
                output=FieldName("output_tokens"),
                hint=Message("give both, or {traffic}", traffic=FieldName("traffic")),
            )
        if self.input_tokens is not None and self.traffic is not None:
            raise wrong(
                "traffic",
                "{field} and {input} both say how long prompts are",
                input=FieldName("input_tokens"),
                hint="give one of them",
            )


class LoadedGeneration(Generation):
    """The same under a load."""

    target_requests_per_s: float | None = ask(
        "Requests a second, which come at random times (Poisson).", RATE, section=LANGUAGE, default=None
    )
    users: int | None = ask(
        "Users that each send their next request when the last one is answered.",
        Number(whole=True, most=MOST_USERS),
        section=LANGUAGE,
        default=None,
    )

    def _refuse_several(self, targets: tuple[str, ...]) -> None:
        given = [name for name in targets if getattr(self, name) is not None]
        if len(given) > 1:
            raise wrong(
                given[1],
                "{first} and {field} are two targets",
                first=FieldName(given[0]),
                hint="give one of them",
            )


class RecommendGeneration(LoadedGeneration, HardwareQuestion):
    """What `advisor recommend --task generation` is asked."""

    target_throughput: float | None = TARGET_THROUGHPUT
    max_ttft_ms: float | None = ask(
        "Longest time to the first token in ms, in the mean; must hold at the confidence.",
        MILLISECONDS,
        section=LANGUAGE,
        default=None,
    )
    max_tpot_ms: float | None = ask(
        "Longest time per output token in ms, without the first token, in the mean; must hold at "
        "the confidence.",
        MILLISECONDS,
        section=LANGUAGE,
        default=None,
    )
    max_e2e_s: float | None = ask(
        "Longest time of a whole request in seconds, in the mean; must hold at the confidence.",
        Number(metavar="SECONDS"),
        section=LANGUAGE,
        default=None,
    )
    max_context: int | None = ask(
        "Longest context, prompt and answer, that must fit.",
        TOKENS,
        section=LANGUAGE,
        default=None,
        usual="prompt and answer of the traffic",
    )
    max_ready_s: float | None = ask(
        "Longest time in seconds from the engine's start until it serves: reading the weights "
        "from the disk, and its own start.",
        Number(metavar="SECONDS"),
        section=LANGUAGE,
        default=None,
    )
    max_count: int = MAX_COUNT

    def __post_init__(self) -> None:
        super().__post_init__()
        self._refuse_several(("target_throughput", "target_requests_per_s", "users"))


class PredictGeneration(LoadedGeneration, PlacedQuestion):
    """What `advisor predict --task generation` is asked: of one instance, under a load or none."""

    instance: str | None = INSTANCE

    def __post_init__(self) -> None:
        super().__post_init__()
        self._refuse_several(("target_requests_per_s", "users"))
        _require_instance(self.instance)


class CompareGeneration(LoadedGeneration, PlacedQuestion):
    """What `advisor compare --task generation` is asked."""

    instance: tuple[str, ...] = ask(
        "Instance types, two or more: a,b, or the option again.", Names("TYPE"), section=HARDWARE, default=()
    )
    baseline: str | None = ask(
        "What counts as 1: an instance type.",
        Text("NAME"),
        section=LANGUAGE,
        default=None,
        usual="the first one",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._refuse_several(("target_requests_per_s", "users"))
        if len(dict.fromkeys(self.instance)) + (self.baseline is not None) < 2:
            raise wrong(
                "instance",
                "name what to compare",
                hint=Message("give {field} two or more types", field=FieldName("instance")),
            )


class MemoryGeneration(ServedModel):
    """What `advisor memory --task generation` is asked."""

    max_context: int | None = ask(
        "Context of a sequence, prompt and answer, in tokens.",
        TOKENS,
        section=LANGUAGE,
        default=None,
        usual="8192, or the model's longest",
    )
    gpu: GpuFilter | None = GPU


class FineTuningQuestion(LanguageQuestion):
    """A language model that is tuned."""

    task: LanguageTask = ask(
        "What the instance does: finetuning.", Choice("task", (LanguageTask.FINETUNING,)), section=LANGUAGE
    )
    method: LlmMethod = ask(
        "What is tuned: full (all weights), lora, or qlora (lora on 4-bit weights).",
        Choice("method", LlmMethod),
        section=LANGUAGE,
        default=LlmMethod.LORA,
    )
    sequence: int = ask("Tokens of a sequence.", TOKENS, section=LANGUAGE, default=2048)
    micro_batch: int | None = ask(
        "Sequences that a GPU computes at once.",
        Number(whole=True, most=MOST_USERS),
        section=LANGUAGE,
        default=None,
        usual="the fastest that fits",
    )


class TuningRun(FineTuningQuestion):
    """A run of it, of a known length."""

    tokens: float = RUN_TOKENS
    confidence: float = CONFIDENCE


class RecommendFinetuning(TuningRun, HardwareQuestion):
    """What `advisor recommend --task finetuning` is asked."""

    max_hours: float | None = MAX_HOURS
    max_cost: float | None = MAX_COST
    target_throughput: float | None = TARGET_THROUGHPUT


class PredictFinetuning(TuningRun, PlacedQuestion):
    """What `advisor predict --task finetuning` is asked, of one instance."""

    tokens: float = RUN_TOKENS._replace(default=1e6)
    instance: str | None = INSTANCE

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_instance(self.instance)


class MemoryFinetuning(FineTuningQuestion):
    """What `advisor memory --task finetuning` is asked."""

    gpu: GpuFilter | None = GPU


def _require_instance(instance: str | None) -> None:
    if instance is None:
        raise wrong("instance", "name an {field} (g5.xlarge)")
