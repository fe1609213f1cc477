"""The kinds, fields and parts that questions about language models share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.domain.generation import KvPrecision, LanguageTask, LlmEngine, LlmPrecision
from advisor.errors import UsageError
from advisor.messages import FieldName, Message
from advisor.questions.fields import Choice, File, Text, wrong
from advisor.questions.numbers import RATE, Number
from advisor.questions.other_models import network_hint
from advisor.questions.question import Question, ask
from advisor.questions.shared import HARDWARE

LANGUAGE = "Language models (--task generation, finetuning)"
# No model reads more, and no request writes more.
MOST_TOKENS = 10**8
MOST_USERS = 10**7
MOST_TENSOR_PARALLEL = 64
AUTO = "auto"


class ModelName(Text):
    """The name of a language model; a client names no file."""

    def __init__(self) -> None:
        super().__init__("NAME")

    def from_json(self, value: Any, field: str) -> str:
        """A name, never a file."""
        name = str(super().from_json(value, field))
        if name.startswith(("/", ".", "~")) or "\\" in name:
            raise wrong(
                field,
                "{field} names a file, and no file is opened for a client",
                hint="ask by `advisor` where the file is",
            )
        return name


class TensorParallel(Number):
    """How many GPUs share one copy of the model, or `auto`, which is None."""

    def __init__(self) -> None:
        super().__init__(whole=True, most=MOST_TENSOR_PARALLEL, metavar="auto|N")

    def from_json(self, value: Any, field: str) -> Any:
        """A number or 'auto'."""
        if isinstance(value, str) and value.strip().lower() != AUTO:
            raise _no_split(value, field)
        return None if isinstance(value, str) else super().from_json(value, field)

    def from_link(self, texts: Any, field: str) -> Any:
        """The same of a link."""
        return None if _is_auto(texts) else super().from_link(texts, field)

    def from_text(self, text: str, field: str) -> Any:
        """'auto' -> None, '4' -> 4."""
        if _is_auto([text]):
            return None
        if not text.strip().lstrip("-").replace(".", "", 1).isdigit():
            raise _no_split(text, field)
        return super().from_text(text, field)

    def schema(self) -> dict[str, Any]:
        """A number, or the word."""
        number = super().schema()
        return number | {"type": ["integer", "string"], "pattern": f"^{AUTO}$"}


def _no_split(text: str, field: str) -> UsageError:
    return wrong(field, "{field} must be a number or auto, not '{text}'", text=text[:60])


def _is_auto(texts: Any) -> bool:
    return [text.strip().lower() for text in texts] == [AUTO]


TOKENS = Number(whole=True, most=MOST_TOKENS, metavar="TOKENS")
MILLISECONDS = Number(metavar="MS")

PRECISION: Any = ask(
    "Format of the weights: bf16, fp16, fp8, int4-awq, nvfp4 or mxfp4.",
    Choice("precision", LlmPrecision),
    section=LANGUAGE,
    default=None,
    usual="the model's own, else bf16",
)
KV_PRECISION: Any = ask(
    "Format of the KV cache: bf16 or fp8.",
    Choice("KV precision", KvPrecision),
    section=LANGUAGE,
    default=None,
    usual="bf16",
)
ENGINE: Any = ask(
    "Serving engine. The answer names the version that its rates are of.",
    Choice("engine", LlmEngine),
    section=LANGUAGE,
    default=LlmEngine.VLLM,
)
TENSOR_PARALLEL: Any = ask(
    "GPUs that share one copy of the model; the other GPUs of an instance hold further copies.",
    TensorParallel(),
    section=LANGUAGE,
    default=None,
    usual="auto: whichever is cheapest",
)
INSTANCE: Any = ask(
    "Instance type, as g5.xlarge.", Text("TYPE"), section=HARDWARE, default=None, required=True
)
TARGET_THROUGHPUT: Any = ask(
    "Tokens per second to reach: output tokens of generation, tokens of finetuning. Without a "
    "target, results are ranked by cost: of a million output tokens, or of the run.",
    RATE,
    section=LANGUAGE,
    default=None,
)
RUN_TOKENS: Any = ask(
    "Length of the run in tokens: those of the data set, times the epochs.",
    Number(counted=True, metavar="TOKENS"),
    section=LANGUAGE,
)


class LanguageQuestion(Question):
    """A language model, by its name or by its configuration."""

    task: LanguageTask = ask(
        "What is done with the language model: generation or finetuning.",
        Choice("task", LanguageTask),
        section=LANGUAGE,
    )
    model: str | None = ask(
        "The language model: a name such as meta-llama/Llama-3.1-8B.",
        ModelName(),
        section=LANGUAGE,
        default=None,
        required=True,
    )
    config: Path | None = ask(
        "A local config.json of the model, instead of --model; nothing is downloaded.",
        File(),
        section=LANGUAGE,
        default=None,
        where="cli",
    )

    @classmethod
    def refuse(cls, values: Mapping[str, Any]) -> None:
        """A network, which no length of a run makes a language model."""
        name = values.get("model")
        if name and (hint := network_hint(name)):
            raise wrong("model", "unknown language model '{name}'", name=name, hint=hint)

    def __post_init__(self) -> None:
        if (self.model is None) == (self.config is None):
            raise wrong(
                "model",
                "name one language model",
                hint=Message(
                    "give {model} meta-llama/Llama-3.1-8B, or {config} config.json",
                    model=FieldName("model"),
                    config=FieldName("config"),
                ),
            )

    @property
    def model_text(self) -> str:
        """The model as it was named."""
        return str(self.model or self.config)
