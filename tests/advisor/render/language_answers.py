"""Answers about language models with defaults, made of tests/data/language_answers.json."""

from datetime import date
from pathlib import Path
from types import SimpleNamespace

import msgspec
from msgspec.structs import replace

from advisor.domain import Change, Relaxation
from advisor.domain.language import (
    FineTuningCandidate,
    FineTuningRecommendation,
    FrontPoint,
    GenerationCandidate,
    GenerationRecommendation,
    ServingPlacement,
    ServingStep,
)
from advisor.domain.words import StepKind
from advisor.engine.tasks.serving.details import with_chosen
from advisor.messages import Message
from advisor.render.document import Sources
from tests.builders import rejected, serving_question, tuning_question

_TOO_SMALL = "needs 14.96 GiB for the weights alone, has 15 GiB"
MODEL = "meta-llama/Llama-3.1-8B"
SOURCES = Sources(
    model_id="5e4f3a2b1c0d9e8f",
    trained_on="3,359 rows",
    error_percent=9.5,
    catalog=SimpleNamespace(as_of=date(2026, 7, 20), sources=("a price list",)),
)


class Kept(msgspec.Struct):
    """The file: on four L40S, with a disk of 40 GiB; `faster` is in fp8."""

    generation: GenerationCandidate
    faster: GenerationCandidate
    finetuning: FineTuningCandidate
    front: tuple[FrontPoint, ...]


KEPT = msgspec.json.decode((Path(__file__).parents[2] / "data/language_answers.json").read_bytes(), type=Kept)


def sold_as(candidate, name, usd_per_hour):
    """A candidate on an instance of another name and price."""
    offer = candidate.spec.offer
    instance, price = replace(offer.instance, name=name), replace(offer.price, usd_per_hour=usd_per_hour)
    spec = replace(candidate.spec, offer=replace(offer, instance=instance, price=price))
    return replace(candidate, spec=spec)


def generation_candidate(name="g6e.12xlarge", usd_per_hour=10.49, **changes):
    return replace(sold_as(KEPT.generation, name, usd_per_hour), **changes)


EIGHT = ServingPlacement(tensor_parallel=1, replicas=8)
STEPS = (
    ServingStep(kind=StepKind.FP8, option="--precision fp8", gives=KEPT.faster),
    ServingStep(
        kind=StepKind.TENSOR_PARALLEL,
        option="--tensor-parallel 8",
        gives=None,
        why_not=Message("the instance has {count} GPUs", count=4),
    ),
)


def generation_recommendation(**changes):
    chosen = generation_candidate()
    load = {"input_tokens": 1154.7, "output_tokens": 211.13, "users": 40, "context_tokens": 4743}
    values = {
        "request": serving_question(model=MODEL, max_tpot_ms=50.0, **load),
        "ranked": (chosen, generation_candidate("p4d.24xlarge", 21.96, placement=EIGHT)),
        "nearest": None,
        "rejected": (
            rejected("g4dn.xlarge", 0.526, reason="gpu_memory", detail=_TOO_SMALL),
            rejected("g6.xlarge", 0.805, reason="too_slow", detail="holds 12 users at most"),
        ),
        "offers_considered": 61,
        "assumptions": (Message("prefix caching and speculative decoding are off"),),
        "warnings": (),
        "today": date(2026, 11, 21),
        "front": with_chosen(KEPT.front, chosen, {}),
        "steps": STEPS,
    }
    return GenerationRecommendation(**{**values, **changes})


_MORE_MONEY = Change(constraint="max_usd_per_hour", option="--max-price", before="1", after="10.6")


def nothing_found():
    """No spec answers, and one that would without its limit."""
    relaxed = Relaxation(changes=(_MORE_MONEY,), gives=generation_candidate())
    return generation_recommendation(
        ranked=(), nearest=generation_candidate(), front=(), steps=(), relaxations=(relaxed,)
    )


def finetuning_candidate(name="g6e.12xlarge", usd_per_hour=10.49):
    return sold_as(KEPT.finetuning, name, usd_per_hour)


def finetuning_recommendation(**changes):
    whole = generation_recommendation()
    values = {
        "request": tuning_question(model=MODEL, tokens=1e9, sequence=2048, max_hours=72.0),
        "ranked": (finetuning_candidate(), finetuning_candidate("p4d.24xlarge", 21.96)),
        "nearest": None,
        "rejected": whole.rejected,
        "offers_considered": 61,
        "assumptions": (Message("activations are recomputed"),),
        "warnings": (),
        "today": whole.today,
    }
    return FineTuningRecommendation(**{**values, **changes})
