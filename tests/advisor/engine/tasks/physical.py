"""A small physical predictor for tests of the engine alone, with intervals of a fixed width."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.catalog import load_catalog
from advisor.engine.tasks.serving.task import ServingTask
from advisor.messages import Message
from advisor.models.bayes import Bounds
from advisor.models.language.configs import bundled_language_models
from advisor.models.language.deployments import Deployment, Traffic
from advisor.models.language.memory import kv_bytes_per_token, weight_gib_per_gpu
from advisor.models.language.serving import bundled_serving_predictor
from advisor.models.language.serving.rates import ServingRates

TODAY = date(2026, 11, 23)
EIGHT_B = "Meta-Llama-3.1-8B"
Floats = NDArray[np.float64]
_SPREAD = 1.25  # upper over median, of all times


class Physical:
    """Times are exact products of a median and a spread; more in flight is never sooner."""

    def __init__(self, uncalibrated: Sequence[str] = ()) -> None:
        self._uncalibrated = frozenset(uncalibrated)

    def engine_version(self, engine: str) -> str:
        """Some version."""
        return f"1.0 of {engine}"

    def unmeasured(self, deployment: Deployment) -> tuple[Message, ...]:
        """Physics is of every GPU."""
        return ()

    def withheld(self, deployment: Deployment, in_flight: float) -> None:
        """Nothing was kept from physics."""

    def closed_loop(
        self, deployments: Sequence[Deployment], traffic: Traffic, concurrency: Floats, confidence: float
    ) -> ServingRates:
        """Steps that read weights and KV, and prompts between them; users in flight by repetition."""
        b = users = np.asarray(concurrency, dtype=float)
        for _ in range(60 if traffic.think_seconds else 1):
            step, prompt = self._parts(deployments, traffic, b)
            tpot = step + b * prompt / traffic.output_tokens
            ttft = 0.03 + prompt * (1 + 0.1 * np.maximum(b - 1, 0))
            seconds = ttft + (traffic.output_tokens - 1) * tpot
            b = users * seconds / (seconds + traffic.think_seconds)
        return self._served(deployments, traffic, b, ttft, tpot)

    def under_load(
        self, deployments: Sequence[Deployment], traffic: Traffic, arriving: Floats, confidence: float
    ) -> ServingRates:
        """As many in flight as arrive while one is served, found by repetition."""
        rate = np.asarray(arriving, dtype=float)
        b = np.ones(len(rate))
        for _ in range(60):
            step, prompt = self._parts(deployments, traffic, b)
            tpot = step + b * prompt / traffic.output_tokens
            b = np.clip(rate * (prompt + traffic.output_tokens * tpot), 1.0, 4096.0)
        ttft = 0.03 + prompt * (1 + 0.1 * b)
        beyond = b >= 4096
        ttft, tpot = np.where(beyond, np.nan, ttft), np.where(beyond, np.nan, tpot)
        return self._served(deployments, traffic, b, ttft, tpot)

    def _parts(self, deployments: Sequence[Deployment], traffic: Traffic, b: Floats) -> tuple[Floats, Floats]:
        weights, kv, bandwidth, flops, reduce = np.array([_facts(deployment) for deployment in deployments]).T
        context = traffic.input_tokens + traffic.output_tokens / 2
        step = (weights + kv * b * context) / bandwidth + reduce + 0.002
        parameters = np.array([deployment.model.active_parameters for deployment in deployments])
        prompt = 2 * parameters * traffic.input_tokens * (1 - traffic.prefix_share) / flops
        return step, prompt

    def _served(
        self, deployments: Sequence[Deployment], traffic: Traffic, b: Floats, ttft: Floats, tpot: Floats
    ) -> ServingRates:
        output = b * traffic.output_tokens / (ttft + (traffic.output_tokens - 1) * tpot)
        known = np.array([deployment.gpu.name not in self._uncalibrated for deployment in deployments])
        bounds = [Bounds(median / _SPREAD, median, median * _SPREAD) for median in (tpot, ttft, output)]
        return ServingRates(*bounds, b, np.zeros(len(b), dtype=np.intp), known)


def _facts(deployment: Deployment) -> tuple[float, float, float, float, float]:
    """Bytes of weights and of a token's KV, bytes and operations a second, seconds of all-reduces."""
    split = deployment.tensor_parallel
    weights = weight_gib_per_gpu(deployment.model, deployment.precision, split) * 2**30
    link = {"none": 0.0, "nvlink": 1e-5, "pcie": 1e-4}[deployment.link] * deployment.model.layers
    kv = kv_bytes_per_token(deployment.model, deployment.kv_precision, split)
    gpu = deployment.gpu
    return weights, kv, 0.7e9 * gpu.bandwidth_gb_s, 0.4e12 * gpu.tflops * split, link


@cache
def serving(model: str = EIGHT_B, predictor: Any = None) -> ServingTask:
    """One model, kept for all tests."""
    return ServingTask(load_catalog(), bundled_language_models().find(model), predictor or Physical())


@cache
def shipped(model: str) -> ServingTask:
    """One model by the predictor that users have."""
    return ServingTask(load_catalog(), bundled_language_models().find(model), bundled_serving_predictor())
