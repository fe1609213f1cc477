"""Builds the versioned JSON documents of answers, from which every other format derives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np

from advisor.catalog import Catalog
from advisor.domain import InstancePrediction, OnGpu, Recommendation
from advisor.domain.decision import RELAXING_STOPPED
from advisor.domain.words import LanguageTask
from advisor.messages import FieldName, Message, code_of
from advisor.naming import asked_of, others_text
from advisor.questions.network import NetworkQuestion
from advisor.questions.reading import question_document
from advisor.render.borderline import behind, borderline_block, decision_block, verify_command
from advisor.render.price_doubt import price_doubt_block
from advisor.render.records import (
    NEAREST_REJECTED,
    batch_point_block,
    candidate_block,
    disk_block,
    finite_bounds,
    gpu_prediction_block,
    instance_block,
    live_block,
    notes_text,
    other_setting_blocks,
    pareto_block,
    prediction_block,
    price_block,
    rejected_block,
    relaxation_block,
    risk,
    run_block,
)
from advisor.render.text import AnyAnswer

SCHEMA = "advisor.recommendation/1"


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """The catalogue and the performance model behind an answer. `error_percent` is None if no single number
    is meaningful (docs/internals/language.md). `anchors` counts the user's own measurements of endpoints."""

    catalog: Catalog
    model_id: str
    trained_on: str
    error_percent: float | None = None
    anchors: int = 0

    def performance_model(self) -> dict[str, Any]:
        """Return the document's `performance_model` block."""
        return {"id": self.model_id, "trained_on": self.trained_on, "error_percent": self.error_percent}

    def blocks(self) -> dict[str, dict[str, Any]]:
        """Return the document's `performance_model` and `catalog`."""
        catalog = {"as_of": self.catalog.as_of.isoformat(), "sources": list(self.catalog.sources)}
        return {"performance_model": self.performance_model(), "catalog": catalog}


def recommendation_document(
    answer: Recommendation,
    sources: Sources,
    explanation: Mapping[str, Any] | None = None,
    *,
    every_rejected: bool = False,
) -> dict[str, Any]:
    """Return the whole answer about a network. Its sentences are messages; `plain` makes it JSON-ready.
    `explanation` is about the recommended spec, or about the nearest one if nothing meets the target."""
    sentence, every = {"asked": asked_of(answer.request)}, every_rejected
    return shared_document(answer, sources, candidate_block, every_rejected=every, **sentence) | {
        "others": others_text(answer.request, len(answer.ranked)),
        "close_calls": [
            borderline_block(
                call,
                answer.request.horizon_hours,
                verify_command(answer.request, call.candidate),
                batch_size=call.candidate.workload.batch_size,
            )
            for call in answer.close_calls
        ],
        "live": live_block(answer.live),
        "pareto": [pareto_block(candidate) for candidate in answer.pareto],
        "other_settings": other_setting_blocks(answer.other_settings),
        "explanation": explanation,
    }


def shared_document(
    answer: AnyAnswer,
    sources: Sources,
    block_of: Callable[[Any], dict[str, Any]],
    *,
    every_rejected: bool,
    **sentence: Message,
) -> dict[str, Any]:
    """Return what the documents of all recommendations share; `block_of` writes each spec. `rejected` names
    the nearest types (`Judged.nearest_rejected`), or all if `every_rejected`."""
    most = None if every_rejected else NEAREST_REJECTED
    others = list(answer.ranked[1:])
    if answer.safe not in (None, *answer.ranked) and answer.request.max_results > 1:
        # The safe spec, which needs no trial, is always among the alternatives.
        others = [*others[: max(0, answer.request.max_results - 2)], answer.safe]
    behind_it = sources.blocks()
    behind_it["catalog"] |= {
        "offers_considered": answer.offers_considered,
        "offers_rejected": len(answer.rejected),
        "rejected_by_reason": answer.rejected_by_reason,
    }
    return {
        "schema": SCHEMA,
        "as_of": answer.today.isoformat(),
        **sentence,
        "request": question_document(answer.request),
        **behind_it,
        "recommendation": block_of(answer.chosen) if answer.chosen else None,
        "decision": decision_block(answer),
        "nearest": {**block_of(answer.nearest), "misses": list(answer.nearest_misses)}
        if answer.nearest
        else None,
        "alternatives": [{**block_of(other), "behind": behind(answer, other)} for other in others],
        "rejected": [rejected_block(rejected) for rejected in answer.nearest_rejected(most)],
        "rejected_counts": answer.rejected_by_reason,
        "close_calls": [],
        "price_call": price_doubt_block(answer),
        "live": None,
        "relax": [relaxation_block(each, block_of(each.gives)) for each in answer.relaxations],
        # The code of the warning that the search for what to relax stopped early.
        "relax_stopped": RELAXING_STOPPED if RELAXING_STOPPED in map(code_of, answer.warnings) else None,
        "pareto": [],
        "other_settings": [],
        "assumptions": list(answer.assumptions),
        "warnings": list(answer.warnings),
        "explanation": None,
    }


def prediction_document(
    request: NetworkQuestion,
    answer: InstancePrediction,
    sources: Sources,
    explanation: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return values that are JSON-ready except for messages; `price` is null if unknown."""
    price = answer.price and {
        **price_block(answer.price),
        "disk_usd_per_hour": answer.disk.known_usd_per_hour,
        "total_usd_per_hour": answer.total_usd_per_hour,
    }
    return {
        "schema": "advisor.prediction/1",
        "asked": asked_of(request),
        "request": question_document(request),
        **sources.blocks(),
        **instance_block(answer.instance),
        "disk": disk_block(answer.disk),
        "region": answer.region,
        "price": price,
        **prediction_block(answer.workload, answer.prediction),
        "cost": {"usd_per_million_samples": answer.usd_per_million_samples},
        "run": run_block(answer.run, answer.usd_per_run),
        "first_epoch_hours": finite_bounds(answer.first_epoch),
        "good_batch_size": answer.good_batch_size,
        "by_batch": [batch_point_block(point) for point in answer.by_batch],
        "other_settings": other_setting_blocks(answer.other_settings),
        "note": notes_text(answer.notes),
        "assumptions": list(answer.assumptions),
        "warnings": list(answer.warnings),
        "explanation": explanation,
    }


def gpu_prediction_document(
    request: NetworkQuestion, answer: OnGpu, sources: Sources, assumptions: Sequence[Message | str]
) -> dict[str, Any]:
    """Return a GPU's prediction, with samples on the device already; `predicted` is null if no batch fits."""
    return {
        "schema": "advisor.gpu-prediction/1",
        "asked": asked_of(request),
        "request": question_document(request),
        **sources.blocks(),
        "gpu": {"name": answer.gpu.name, "memory_mib": answer.gpu.memory_mib, "sources": answer.gpu.sources},
        **gpu_prediction_block(answer),
        "risk": risk(answer.prediction) if answer.prediction else None,
        "other_settings": other_setting_blocks(answer.other_settings),
        "assumptions": list(assumptions),
    }


def is_language(document: Mapping[str, Any]) -> bool:
    """Return whether a recommendation's document is about a language model."""
    return document["schema"] == SCHEMA and document["request"]["task"] in set(LanguageTask)


def plain(value: Any) -> Any:
    """Return a document, or a part of one, with each `Message` as English text, ready for JSON and YAML."""
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=plain_leaf))


def with_messages(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return `plain` with `messages`: the sentences by the field that holds them, for `with_sentences`."""
    messages: dict[str, dict[str, Any]] = {}

    def gather(value: Any, field: str) -> None:
        if isinstance(value, Message):
            messages.setdefault(field, {})[str(value)] = _message_block(value)
        elif isinstance(value, Mapping):
            for name, part in value.items():
                gather(part, name)
        elif isinstance(value, (list, tuple)):
            for part in value:
                gather(part, field)

    gather(document, "")
    blocks = {field: list(some.values()) for field, some in messages.items()}
    return {**plain(document), **({"messages": plain(blocks)} if blocks else {})}


def _message_block(value: Any) -> Any:
    if isinstance(value, Message):
        parameters = {name: _message_block(part) for name, part in value.parameters.items()}
        return {"text": value.text, "code": value.code, "parameters": parameters}
    if isinstance(value, (list, tuple)):
        return [_message_block(part) for part in value]
    return {"field": str(value)} if isinstance(value, FieldName) else value


def with_sentences(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return a saved document with its sentences as messages again, which can be translated. Sentences
    without a message (from earlier versions, or edited since) stay as they are."""
    messages: dict[tuple[str, str], Message] = {}
    for field, blocks in saved.get("messages", {}).items():
        for message in map(_message_of, blocks):
            # A template may need other fields.
            with suppress(LookupError, TypeError, ValueError, AttributeError):
                messages[field, str(message)] = message

    def restored(value: Any, field: str) -> Any:
        if isinstance(value, dict):
            return {name: restored(part, name) for name, part in value.items()}
        if isinstance(value, list):
            return [restored(part, field) for part in value]
        return messages.get((field, value), value) if isinstance(value, str) else value

    return {name: restored(part, name) for name, part in saved.items() if name != "messages"}


def _message_of(block: Any) -> Any:
    if isinstance(block, list):
        return [_message_of(part) for part in block]
    if not isinstance(block, dict):
        return block
    if "field" in block:
        return FieldName(block["field"])
    parameters = {name: _message_of(part) for name, part in block["parameters"].items()}
    return Message(block["text"], code=block["code"], **parameters)


def plain_leaf(value: object) -> Any:
    """Return a `Message` in English or a NumPy number as Python's; `NotImplementedError` for other types."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Message):
        return str(value)
    raise NotImplementedError(f"no document holds a {type(value).__name__}")


def document_yaml(document: Mapping[str, Any]) -> str:
    """Return the document as YAML, with its keys in the same order."""
    import yaml  # only YAML answers need it

    return str(yaml.safe_dump(plain(document), sort_keys=False, allow_unicode=True))
