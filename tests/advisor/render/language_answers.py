"""Answers about language models with defaults: a test shows only what matters to it."""

from datetime import date

from msgspec.structs import replace

from advisor.domain import Change, DiskChoice, DiskRate, Relaxation, Span
from advisor.domain.generation import (
    KvPrecision,
    Link,
    LlmEngine,
    LlmMethod,
    LlmPrecision,
    ServingBind,
    StepKind,
)
from advisor.domain.language import (
    FrontPoint,
    GenerationCandidate,
    GenerationRecommendation,
    GpuMemoryUse,
    ReadyTime,
    ServingPlacement,
    ServingRates,
    ServingStep,
)
from advisor.domain.tuning import FineTuningCandidate, FineTuningRecommendation, TuningMemoryUse
from advisor.engine.tasks.serving.front import with_chosen
from advisor.messages import Message
from advisor.render.document import Sources
from tests.builders import candidate, instance, rejected, serving_question, tuning_question

_TOO_SMALL = "needs 14.96 GiB for the weights alone, has 15 GiB"
MODEL = "meta-llama/Llama-3.1-8B"
SOURCES = Sources(
    model_id="5e4f3a2b1c0d9e8f",
    trained_on="3,359 rows",
    error_percent=9.5,
    catalog_as_of="2026-07-20",
    catalog_sources=("a price list",),
)


def spec(name="g6e.12xlarge", usd_per_hour=10.49):
    """On four cards, with a disk of 40 GiB."""
    whole = candidate(name, usd_per_hour).spec
    choice = DiskChoice(type="gp3", size_gib=40, mib_per_second=250)
    rate = DiskRate(type="gp3", read_mib_per_second=250.0, read_iops=3000.0)
    host = {"vcpus": 48, "physical_cores": 24, "memory_mib": 393216}
    cards = {"gpu_name": "L40S", "gpu_count": 4, "gpu_memory_mib": 46068}
    offer = replace(whole.offer, instance=instance(name, **host, **cards))
    return replace(whole, offer=offer, disk=replace(whole.disk, rate=rate, choice=choice, size_gib=40))


def span(median, spread=1.3):
    return Span(lower=median / spread, median=median, upper=median * spread)


def rates(concurrency=40.0, tpot=0.031):
    output = concurrency / (tpot + 0.0004)
    return ServingRates(
        concurrency=concurrency,
        output_tokens_per_second=span(output),
        requests_per_second=span(output / 211),
        ttft_seconds=span(0.21),
        tpot_seconds=span(tpot),
        e2e_seconds=span(0.21 + 210 * tpot),
    )


def generation_candidate(name="g6e.12xlarge", usd_per_hour=10.49, **changes):
    values = {
        "spec": spec(name, usd_per_hour=usd_per_hour),
        "placement": ServingPlacement(tensor_parallel=2, replicas=2, link=Link.PCIE),
        "model": MODEL,
        "precision": LlmPrecision.BF16,
        "kv_precision": KvPrecision.BF16,
        "engine": LlmEngine.VLLM,
        "engine_version": "0.19.0",
        "input_tokens": 1154.7,
        "output_tokens": 211.13,
        "memory": GpuMemoryUse(
            weights_gib=7.48,
            kv_gib=29.4,
            overhead_gib=3.6,
            free_gib=4.5,
            largest_concurrency=361,
            longest_context=131072,
        ),
        "rates": rates(),
        "most": rates(concurrency=512.0, tpot=0.084),
        "ready": ReadyTime(load_seconds=61.3, start_seconds=38.0, upper_seconds=180.5),
        "binds": ServingBind.WEIGHTS,
    }
    return GenerationCandidate(**{**values, **changes})


def front():
    return tuple(
        FrontPoint(
            placement=ServingPlacement(tensor_parallel=width, replicas=4 // width, link=Link.PCIE),
            rates=rates(concurrency=flight, tpot=tpot),
            usd_per_million_output_tokens=span(1500 / flight),
            misses=misses,
        )
        for width, flight, tpot, misses in (
            (4, 4.0, 0.014, "target"),
            (4, 16.0, 0.018, "target"),
            (2, 60.0, 0.031, ""),
            (1, 200.0, 0.052, "limit"),
            (1, 800.0, 0.13, "limit"),
        )
    )


def steps():
    faster = generation_candidate(
        precision=LlmPrecision.FP8, rates=rates(tpot=0.022), most=rates(concurrency=512.0, tpot=0.061)
    )
    return (
        ServingStep(kind=StepKind.FP8, option="--precision fp8", gives=faster),
        ServingStep(
            kind=StepKind.TENSOR_PARALLEL,
            option="--tensor-parallel 8",
            gives=None,
            why_not=Message("the instance has {count} GPUs", count=4),
        ),
    )


def generation_recommendation(**changes):
    chosen = generation_candidate()
    values = {
        "request": serving_question(
            model=MODEL,
            input_tokens=1154.7,
            output_tokens=211.13,
            users=40,
            max_tpot_ms=50.0,
            context_tokens=4743,
        ),
        "ranked": (
            chosen,
            generation_candidate(
                "p4d.24xlarge", 21.96, placement=ServingPlacement(tensor_parallel=1, replicas=8)
            ),
        ),
        "nearest": None,
        "rejected": (
            rejected("g4dn.xlarge", 0.526, reason="gpu_memory", detail=_TOO_SMALL),
            rejected("g6.xlarge", 0.805, reason="too_slow", detail="holds 12 users at most"),
        ),
        "offers_considered": 61,
        "assumptions": (Message("prefix caching and speculative decoding are off"),),
        "warnings": (),
        "today": date(2026, 11, 21),
        "front": with_chosen(front(), chosen),
        "steps": steps(),
    }
    return GenerationRecommendation(**{**values, **changes})


_MORE_MONEY = Change(constraint="max_usd_per_hour", option="--max-price", before="1", after="10.6")


def nothing_found():
    """No spec answers, and one that would without its limit."""
    relaxed = Relaxation(changes=(_MORE_MONEY,), gives=generation_candidate())
    return generation_recommendation(
        ranked=(), nearest=generation_candidate(), front=(), steps=(), relaxations=(relaxed,)
    )


def finetuning_candidate(name="g6e.12xlarge", usd_per_hour=10.49, **changes):
    values = {
        "spec": spec(name, usd_per_hour=usd_per_hour),
        "model": MODEL,
        "method": LlmMethod.LORA,
        "gpus_used": 4,
        "link": Link.PCIE,
        "micro_batch": 4,
        "checkpointing": True,
        "memory": TuningMemoryUse(
            weights_gib=3.74,
            gradients_gib=0.1,
            optimizer_gib=0.3,
            activations_gib=12.5,
            overhead_gib=2.0,
            free_gib=26.3,
        ),
        "tokens_per_second": span(9800.0, 1.5),
        "hours": span(28.3, 1.5),
    }
    return FineTuningCandidate(**{**values, **changes})


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


def with_engine(answer, engine):
    """The same answer about another engine."""
    return replace(answer, ranked=tuple(replace(candidate, engine=engine) for candidate in answer.ranked))
