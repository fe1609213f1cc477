"""The questions of `advisor measure` and `verify` about a served language model."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from advisor.domain.words import KvPrecision, LlmEngine
from advisor.messages import FieldName, Message
from advisor.questions.fields import Choice, File, Number, Text, error_in
from advisor.questions.language import RecommendGeneration
from advisor.questions.network import Verify
from advisor.questions.question import ByTask, Question, ask
from advisor.runs.fields import Amount, Items
from advisor.sweeps.measure.endpoint.engines import StartedEngine

_served = partial(ask, section="A language model (--endpoint or --engine)")
# Each request in flight is a connection; a process may have some thousand open.
_MOST_IN_FLIGHT, _MOST_RATE, _MOST_TOKENS, _MOST_GPUS = 2048, 10_000, 1_000_000, 64
_TOKENS = Number(whole=True, most=_MOST_TOKENS, metavar="TOKENS")
_ENGINES = tuple(dict.fromkeys([*map(str, StartedEngine), *map(str, LlmEngine)]))
LINKS = ("nvlink", "pcie")
USUAL_CONCURRENCY = (1, 4, 16)


class ServedModel(Question):
    """The way a language model is reached or started, and the load that it gets."""

    endpoint: str | None = _served(
        "URL of an OpenAI-compatible server, as http://localhost:8000.", Text("URL")
    )
    engine: str | None = _served(
        "Without --endpoint: the engine to start here (vllm, llama.cpp, transformers), with "
        "arguments of its own after --. With it: which engine serves there.",
        Choice("engine", _ENGINES),
        "what the server says of itself",
    )
    served_model: str | None = _served(
        "The model's name on the server; of an engine that is started: the folder, file or name "
        "that it loads.",
        Text("NAME"),
        "--model, or the server's only one",
    )
    input_tokens: int = _served("Tokens of a prompt, in the mean.", _TOKENS, default=512)
    output_tokens: int = _served("Tokens of an answer, in the mean.", _TOKENS, default=128)
    concurrency: tuple[int, ...] = _served(
        "Requests in flight at any time, a load each: 1,4,16.",
        Items(Amount(whole=True, most=_MOST_IN_FLIGHT), "NUMBERS"),
        "1,4,16, unless --rate is given",
        default=(),
    )
    rate: tuple[float, ...] = _served(
        "Requests a second that begin at random times (Poisson), a load each: 0.5,2.",
        Items(Amount(most=_MOST_RATE), "NUMBERS"),
        "none",
        default=(),
    )
    gpu: str | None = _served("The GPU that serves, as L4.", Text("NAME"), "this machine's")
    gpus: int | None = _served("How many of them serve.", Number(whole=True, most=_MOST_GPUS), "1")
    tensor_parallel: int | None = _served(
        "GPUs that share one copy of the model.", Number(whole=True, most=_MOST_GPUS), "all of --gpus"
    )
    link: str | None = _served(
        "How the GPUs of a copy reach each other: nvlink or pcie.",
        Choice("link", LINKS),
        "as the GPU's data sheet has it",
    )
    kv_precision: KvPrecision | None = _served(
        "Format of the KV cache: bf16 or fp8.", Choice("KV precision", KvPrecision), "bf16"
    )
    api_key_file: Path | None = _served(
        "File that holds the server's key.", File(), "ADVISOR_ENDPOINT_API_KEY in the environment"
    )

    def __post_init__(self) -> None:
        if self.gpus and self.tensor_parallel and self.gpus % self.tensor_parallel:
            raise error_in(
                "tensor_parallel",
                "{gpus} GPUs are no copies of {parts} each",
                gpus=self.gpus,
                parts=self.tensor_parallel,
                hint="{gpus} is a multiple of {field}",
            )
        if self.is_served and not self.endpoint and self.engine not in list(StartedEngine):
            raise error_in(
                "engine",
                "{engine} is not started by this command",
                engine=self.engine,
                hint="start it yourself, and name it by {endpoint}",
            )
        if not self.is_served and (given := self.given):
            raise error_in(
                given[0],
                "{field} goes with a language model that is served",
                hint="name its {endpoint}, or the {engine} to start",
            )

    @property
    def is_served(self) -> bool:
        """True if a served language model is to be measured, not a network or script."""
        return bool(self.endpoint or self.engine)

    @property
    def given(self) -> list[str]:
        """Fields that differ from their defaults."""
        return [name for name, field in self.fields.items() if self.differs(field)]


_verified = partial(ask, section="The endpoint that is verified")


class VerifyGeneration(RecommendGeneration):
    """The question of `advisor verify --task generation`: a recommendation's, and the server that has to keep
    its target and limits: at an endpoint, or started on a rented instance."""

    endpoint: str | None = _verified(
        "URL of the server on the instance, as http://localhost:8000.",
        Text("URL"),
        "with --on aws: the answer's engine, started there",
    )
    served_model: str | None = _verified(
        "The model's name on the server; with --on aws what the engine loads.",
        Text("NAME"),
        "--model, or the server's only one",
    )
    api_key_file: Path | None = _verified(
        "File that holds the server's key.", File(), "ADVISOR_ENDPOINT_API_KEY in the environment"
    )

    @property
    def recommendation(self) -> RecommendGeneration:
        """The question whose answer is verified, which may lack a target while it is relaxed."""
        names = RecommendGeneration.__struct_fields__
        return RecommendGeneration(**{name: getattr(self, name) for name in names})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.targets:
            raise error_in(
                "target_throughput",
                "there is no target to verify",
                hint=Message(
                    "name {field}, {requests} or {users}",
                    field=FieldName("target_throughput"),
                    requests=FieldName("target_requests_per_s"),
                    users=FieldName("users"),
                ),
            )


VERIFY: ByTask[Verify | VerifyGeneration] = ByTask(
    "What `advisor verify` is asked.", (Verify, VerifyGeneration)
)
