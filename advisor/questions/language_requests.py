"""A typed question about a language model -> the request that the engine decides on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from advisor.catalog import Catalog
from advisor.domain.generation import KvPrecision, LlmEngine, LlmPrecision
from advisor.domain.language import GenerationRequest
from advisor.domain.tuning import FineTuningRequest
from advisor.errors import UsageError
from advisor.messages import Message
from advisor.models.language.configs import LanguageModel, bundled_language_models, language_model_of_config
from advisor.models.language.memory import weight_gib
from advisor.questions.fields import wrong
from advisor.questions.language import (
    CompareGeneration,
    LoadedGeneration,
    MemoryGeneration,
    PredictFinetuning,
    PredictGeneration,
    RecommendFinetuning,
    RecommendGeneration,
)
from advisor.questions.language_fields import LanguageQuestion
from advisor.questions.other_models import network_hint
from advisor.questions.placed import PlacedQuestion
from advisor.questions.spec_requests import Held, disk_fields, place_fields, spec_fields
from advisor.questions.traffic import USUAL_TRAFFIC, traffic_named


class _Lengths(NamedTuple):
    """Tokens of a mean request, and of the longest one that is to fit; None is a mean one."""

    input_tokens: float
    output_tokens: float
    longest: int | None


def language_model_of(question: LanguageQuestion) -> LanguageModel:
    """The model by its name, or by its configuration; `UsageError` names the field."""
    if question.config is not None:
        return language_model_of_config(question.config)
    name = str(question.model)
    try:
        return bundled_language_models().find(name)
    except UsageError as error:
        error.hint = network_hint(name) or error.hint
        raise


def language_request(
    question: RecommendGeneration | RecommendFinetuning, catalog: Catalog
) -> GenerationRequest | FineTuningRequest:
    """The request of a recommendation; `UsageError` names the field that is wrong and a hint."""
    model = language_model_of(question)
    if isinstance(question, RecommendFinetuning):
        return finetuning_request(question, model, catalog)
    return generation_request(question, model, catalog)


def generation_request(
    question: RecommendGeneration | PredictGeneration | CompareGeneration,
    model: LanguageModel,
    catalog: Catalog,
) -> GenerationRequest:
    """The request about serving `model`; `UsageError` names the field that is wrong and a hint."""
    lengths = _lengths(question, model)
    return GenerationRequest(
        model=model.name,
        input_tokens=lengths.input_tokens,
        output_tokens=lengths.output_tokens,
        prefix_share=question.prefix_share or 0.0,
        precision=question.precision,
        kv_precision=kv_precision_meant(question, model),
        engine=question.engine,
        context_tokens=lengths.longest,
        tensor_parallel=question.tensor_parallel,
        confidence=question.confidence,
        target_requests_per_second=question.target_requests_per_s,
        users=question.users,
        **place_fields(question, catalog),
        **_disk(question, model, question.precision, catalog),
        **(_limits(question) if isinstance(question, RecommendGeneration) else {}),
    )


def kv_precision_meant(
    question: LoadedGeneration | MemoryGeneration, model: LanguageModel
) -> KvPrecision | None:
    """The format of keys and values that is asked for, else what the checkpoint asks of an engine
    that reads it as it is; None where neither does."""
    is_own = question.precision in (None, model.own_precision)
    reads = question.engine is not LlmEngine.LLAMA_CPP  # which has files of its own
    return question.kv_precision or (model.own_kv_precision if is_own and reads else None)


def finetuning_request(
    question: RecommendFinetuning | PredictFinetuning, model: LanguageModel, catalog: Catalog
) -> FineTuningRequest:
    """The request about tuning `model`; `UsageError` names the field that is wrong and a hint."""
    limits: dict[str, Any] = {}
    if isinstance(question, RecommendFinetuning):
        limits = {
            **spec_fields(question),
            "max_gpus": question.max_gpus,
            "target_tokens_per_second": question.target_throughput,
            "max_hours": question.max_hours,
            "max_run_usd": question.max_cost,
        }
    return FineTuningRequest(
        model=model.name,
        tokens=question.tokens,
        sequence=question.sequence,
        method=question.method,
        micro_batch=question.micro_batch,
        confidence=question.confidence,
        **place_fields(question, catalog),
        **_disk(question, model, None, catalog),
        **limits,
    )


def _lengths(question: LoadedGeneration, model: LanguageModel) -> _Lengths:
    asked = question.max_context if isinstance(question, RecommendGeneration) else None
    if question.input_tokens is not None and question.output_tokens is not None:
        lengths = _Lengths(question.input_tokens, question.output_tokens, asked)
    else:
        traffic = traffic_named(question.traffic or USUAL_TRAFFIC)
        longest = asked or min(traffic.longest_tokens, model.max_context or traffic.longest_tokens)
        lengths = _Lengths(traffic.input_tokens.mean, traffic.output_tokens.mean, longest)
    mean = math.ceil(lengths.input_tokens + lengths.output_tokens)
    if asked is not None and asked < mean:
        raise wrong(
            "max_context",
            "{field} {asked:,} is below a mean request of {mean:,} tokens",
            asked=asked,
            mean=mean,
            hint="ask for more, or for shorter requests",
        )
    return lengths


def traffic_notes(question: LoadedGeneration, model: LanguageModel) -> Iterator[Message]:
    """What weakens an answer about the requests of a trace or a file."""
    if question.input_tokens is None or question.output_tokens is None:
        asked = question.max_context if isinstance(question, RecommendGeneration) else None
        traffic = traffic_named(question.traffic or USUAL_TRAFFIC)
        yield from traffic.notes(asked or model.max_context)


def _limits(question: RecommendGeneration) -> dict[str, Any]:
    return {
        **spec_fields(question),
        "max_gpus": question.max_gpus,
        "target_output_tokens_per_second": question.target_throughput,
        "max_ttft_ms": question.max_ttft_ms,
        "max_tpot_ms": question.max_tpot_ms,
        "max_e2e_seconds": question.max_e2e_s,
        "max_ready_seconds": question.max_ready_s,
        "max_count": question.max_count,
    }


def _disk(
    question: PlacedQuestion, model: LanguageModel, precision: LlmPrecision | None, catalog: Catalog
) -> dict[str, Any]:
    """A disk that is named must have room for the weights."""
    held = Held(model.name, weight_gib(model, precision or model.own_precision))
    return disk_fields(catalog, question.cloud, question.disk, held)
