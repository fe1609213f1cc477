"""Formats names, numbers and commands for answers about language models."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from math import isfinite
from typing import Any

from advisor.domain.language import GenerationCandidate
from advisor.domain.words import ENGINES, LlmEngine
from advisor.messages import Message, ceil_significant
from advisor.questions.language import ServingQuestion
from advisor.render.text import shortened

_SECONDS_FROM = 1.0
_MOST_LETTERS = 16


def engine_text(candidate: GenerationCandidate) -> str:
    """Return the name and version of a candidate's engine: 'vLLM 0.19.0'."""
    name = ENGINES.get(str(candidate.engine), str(candidate.engine))
    return f"{name} {candidate.engine_version or 'of an unknown version'}"


def way_text(placed: Mapping[str, Any]) -> str:
    """Return a placement: '2 x TP4' (replicas, tensor parallel) or '1 x DP8' (data parallel)."""
    ranks = placed.get("data_parallel", 1)
    return f"{placed['replicas']} x " + (f"DP{ranks}" if ranks > 1 else f"TP{placed['tensor_parallel']}")


def gpu_text(name: str) -> str:
    """Return a GPU's name without its memory and form factor: 'H100', 'RTX PRO 6000'."""
    return re.split("-| Blackwell", name)[0]


def gpus_text(name: str, count: int) -> str:
    """Return the number and name of GPUs, short enough for tables: '8 x H100'."""
    return f"{count} x {shortened(gpu_text(name), _MOST_LETTERS)}"


def seconds_text(seconds: float, *, up: bool = False) -> str:
    """Return seconds with three digits: '38 ms', '1.25 s', '75 s'. Bounds are rounded `up`."""
    if not isfinite(seconds):
        return "unknown"
    amount, unit = (seconds, "s") if seconds >= _SECONDS_FROM else (1000 * seconds, "ms")
    return f"{ceil_significant(amount) if up else float(f'{amount:.3g}'):,g} {unit}"


def gib_text(gib: float) -> str:
    """Return GiB with three digits: '14.9', '0.52'."""
    return f"{gib:,.0f}" if gib >= 100 else f"{gib:.3g}"


def count_text(count: float) -> str:
    """Return a number of requests in flight: '1,020', '40', '2.5'."""
    return f"{count:,.0f}" if count >= 10 else f"{count:.3g}"


# Defaults of `advisor measure` for a language model.
_USUAL = {("--precision", "bf16"), ("--kv-precision", "bf16")}


def speculation_words(tokens: str, drafter: str | None) -> list[str]:
    """Return vLLM's arguments to draft tokens in each step, with a model or n-grams of the prompt."""
    draft = {"model": drafter} if drafter else {"method": "ngram"}
    return ["--speculative-config", json.dumps({**draft, "num_speculative_tokens": int(tokens)})]


def speculation_message(request: Mapping[str, Any]) -> Message | None:
    """Return '4 tokens a step drafted by meta-llama/Llama-3.1-8B', or None without speculation."""
    if not request.get("draft_acceptance"):
        return None
    return Message(
        "{tokens} tokens a step drafted by {drafter}",
        tokens=request["draft_acceptance"].partition(",")[2],
        drafter=request["draft_model"] or Message("n-grams of the prompt"),
    )


def trial_command(candidate: GenerationCandidate, request: ServingQuestion) -> str:
    """Return the command that measures one replica on one instance, at its share of the whole load. A
    command that starts vLLM has the arguments for speculative decoding, too."""
    placement = candidate.placement
    replicas = placement.replicas * candidate.spec.count // placement.nodes
    alone = placement.nodes == placement.ranks == 1  # else an export starts it
    options = {
        **({"--engine": str(candidate.engine)} if alone else {"--endpoint": "http://FIRST:8000"}),
        "--model": candidate.model,
        "--input-tokens": f"{candidate.input_tokens:.0f}",
        "--output-tokens": f"{candidate.output_tokens:.0f}",
        "--concurrency": str(max(1, round(candidate.rates.concurrency / replicas))),
        "--gpus": str(candidate.placement.tensor_parallel),
        "--precision": str(candidate.precision),
        "--kv-precision": str(candidate.kv_precision),
    }
    given = " ".join(
        f"{name} {shlex.quote(value)}" for name, value in options.items() if (name, value) not in _USUAL
    )
    if alone and request.draft_acceptance and candidate.engine is LlmEngine.VLLM:
        _, tokens = request.draft_acceptance.split(",")
        given += f" -- {shlex.join(speculation_words(tokens, request.draft_model))}"
    return f"advisor measure {given}"
