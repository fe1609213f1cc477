"""A typed question -> the `Request` that the engine decides on.

What a question leaves open is filled in by what the network is and by the catalogue: its usual
data set, the region of the cloud. Whatever contradicts those is a `UsageError` with its field.
"""

from __future__ import annotations

import math
import os
import re
from datetime import UTC, date, datetime
from typing import Any

from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.domain import DataKind, DatasetProfile, MemoryFormat, Request, Stack, Task, Tf32
from advisor.domain.workload import is_own
from advisor.errors import UsageError
from advisor.messages import FieldName, Message
from advisor.models.performance.networks import NetworkFacts, NetworkTable
from advisor.questions.fields import wrong
from advisor.questions.models import USUAL_STEPS, Recommend, RunQuestion, Verify, WorkloadQuestion
from advisor.questions.other_models import language_hint
from advisor.questions.spec_requests import disk_fields, held_of, place_fields, spec_fields
from advisor.questions.values import dataset_for

_TOKENS = re.compile(r"(?:seq|tokens?)?[ :]*([0-9]{1,7})")
_SHAPE = re.compile(r"[0-9]{1,7}(?:x[0-9]{1,7})*")
_MOST_VALUES = 10**9
# Distilled: how closely to follow a text is one of its inputs, and a step takes one pass.
_GUIDED_BY_INPUT = ("flux.1-dev",)


def request_of(question: WorkloadQuestion, networks: NetworkTable, catalog: Catalog) -> Request:
    """The request of any question about a workload; `UsageError` names the field and a hint."""
    facts, sample_input = network_of(question, networks)
    dataset = _made_in_steps(question, facts, dataset_for(question.dataset, facts, question.task))
    taken_as, namesake = networks.other_names(question.model)
    if question.task is Task.TRAINING and not facts.trains:
        raise wrong(
            "task",
            "{network} has no training step",
            network=facts.name,
            hint=Message("ask for {task} inference", task=FieldName("task")),
        )
    if question.memory_format is MemoryFormat.CHANNELS_LAST and not facts.has_channels:
        raise wrong(
            "memory_format",
            "{field} is of images and feature maps, and {network} takes {input}",
            network=facts.name,
            input=facts.input,
            hint="leave it out",
        )
    return Request(
        network=facts.name,
        task=question.task,
        batch_size=question.batch_size,
        precision=question.precision,
        dataset=dataset,
        stack=question.stack or Stack.EAGER,
        memory_format=question.memory_format or MemoryFormat.CONTIGUOUS,
        tf32=question.tf32 or Tf32.CONVOLUTIONS,
        input=sample_input,
        sample_input=facts.input,
        model_asked=question.model if taken_as else None,
        namesake=namesake,
        confidence=question.confidence,
        max_gpus=question.max_gpus,
        **place_fields(question, catalog),
        **disk_fields(catalog, question.cloud, question.disk, held_of(dataset)),
        **(_run_fields(question, dataset) if isinstance(question, RunQuestion) else {}),
        target_throughput=(question.target_throughput if isinstance(question, Recommend | Verify) else None),
        **(_recommend_fields(question) if isinstance(question, Recommend) else {}),
    )


def _made_in_steps(
    question: WorkloadQuestion, facts: NetworkFacts, dataset: DatasetProfile
) -> DatasetProfile:
    """The data set, its samples the images that a diffusion network makes in so many steps."""
    denoises = facts.library == "diffusers" and facts.sample == "step"
    if denoises and question.task is Task.INFERENCE:
        guidance = question.guidance
        return replace(
            dataset,
            sample="image",
            steps=question.steps or USUAL_STEPS,
            guidance=facts.name not in _GUIDED_BY_INPUT if guidance is None else guidance,
        )
    for field in ("steps", "guidance"):
        if getattr(question, field) is not None:
            raise wrong(
                field,
                "{field} is of inference with diffusion networks, as sdxl; {network} in "
                "{task} makes no image in steps",
                network=facts.name,
                task=Message(str(question.task)),
                hint="leave it out",
            )
    return dataset


def network_of(question: WorkloadQuestion, networks: NetworkTable) -> tuple[NetworkFacts, str | None]:
    """Facts of the network at the input that is asked for; and that input, None where it is the
    network's own. `UsageError` for an unknown network, and for an input it cannot take."""
    try:
        facts = networks.find(question.model)
    except UsageError as error:
        error.field = "model"
        if hint := language_hint(question.model):
            error.hint = hint
            raise
        known = error.hint or "see `advisor networks`"
        own = Message(
            "for a network of your own give {anchor} FILE that was measured, or {model} file.py:build",
            anchor=FieldName("anchor"),
            model=FieldName("model"),
        )
        # "did you mean googlenet?" ends its sentence.
        error.hint = (
            Message("{known} Otherwise, {own}", known=known, own=own)
            if error.suggestions
            else Message("{known}; {own}", known=known, own=own)
        )
        raise
    sample_input = parse_input(question.input, facts) if question.input else None
    if sample_input in (None, facts.input):
        return facts, None
    if is_own(question.model):
        raise wrong(
            "input",
            "{network} says itself what it takes ({own})",
            network=question.model,
            own=facts.input,
            hint=Message("leave out {field}", field=FieldName("input")),
        )
    return networks.find(question.model, sample_input), sample_input


def parse_input(text: str, facts: NetworkFacts) -> str:
    """'384' -> '3x384x384' or 'seq:384', as the network takes; '3x384x384' stays as it is.

    Raises `UsageError` for what the network cannot take.
    """
    wanted = text.strip().lower().removesuffix("px")
    if facts.data is DataKind.TOKENS:
        match = _TOKENS.fullmatch(wanted)
        if not match or not int(match.group(1)):
            raise wrong(
                "input",
                "{network} takes tokens: {field} seq:384, not '{text}'",
                network=facts.name,
                text=text,
            )
        return f"seq:{int(match.group(1))}"
    sizes = [int(size) for size in wanted.split("x")] if _SHAPE.fullmatch(wanted) else []
    if not sizes or min(sizes) < 1:
        raise wrong(
            "input",
            "'{text}' is no input of {network}",
            text=text,
            network=facts.name,
            hint=Message("write it like its own, {own}", own=facts.input),
        )
    own = facts.input_shape
    if facts.data is DataKind.IMAGE and len(sizes) < len(own):  # square, or height x width
        sizes = [own[0], *(2 * sizes if len(sizes) == 1 else sizes)]
    if len(sizes) != len(own) or (len(own) > 1 and sizes[0] != own[0]):
        raise wrong(
            "input",
            "{network} takes {own}, and '{text}' has another number of sizes, or of channels",
            network=facts.name,
            own=facts.input,
            text=text,
        )
    if math.prod(sizes) > _MOST_VALUES:
        raise wrong("input", "{field} {text} is more than a GPU can hold", text=text, hint="ask for less")
    return "x".join(map(str, sizes))


def today() -> date:
    """The current date in UTC; ADVISOR_TODAY (as 2026-07-20) replays another day."""
    replayed = os.environ.get("ADVISOR_TODAY")
    if not replayed:
        return datetime.now(UTC).date()
    try:
        return date.fromisoformat(replayed)
    except ValueError:
        raise UsageError(
            "ADVISOR_TODAY must be a date like 2026-07-20, not '{text}'", text=replayed
        ) from None


def _run_fields(question: RunQuestion, dataset: DatasetProfile) -> dict[str, Any]:
    epochs = question.epochs
    if epochs is not None and not dataset.is_read:
        raise wrong(
            "epochs",
            "{field} goes through a data set, and requests are none",
            hint=Message(
                "say how many with {samples}, or name a {dataset}",
                samples=FieldName("samples"),
                dataset=FieldName("dataset"),
            ),
        )
    if epochs is not None and not math.isfinite(epochs * dataset.samples):
        raise wrong(
            "epochs",
            "{field} {epochs:g} of {dataset} is more than can be counted",
            epochs=epochs,
            dataset=dataset.name,
        )
    if epochs is not None and epochs * dataset.samples < 1:
        raise wrong(
            "epochs",
            "{field} {epochs:g} of {dataset} is less than one of its {samples:,} samples",
            epochs=epochs,
            dataset=dataset.name,
            samples=dataset.samples,
            hint="run at least one",
        )
    return {"epochs": epochs, "samples": question.samples}


def _recommend_fields(question: Recommend) -> dict[str, Any]:
    return {
        **spec_fields(question),
        "accelerated_only": question.accelerated_only,
        "max_latency_ms": question.max_latency_ms,
        "max_hours": question.max_hours,
        "max_run_usd": question.max_cost,
        "max_first_epoch_hours": question.max_first_epoch_hours,
        "max_count": question.max_count,
        "max_nodes": question.max_nodes,
        "pareto": question.pareto,
    }
