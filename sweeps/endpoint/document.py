"""The anchor of an endpoint: a versioned JSON document of what was measured, and on what."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from advisor.errors import MeasuringError
from advisor.sweeps.endpoint.address import Address
from advisor.sweeps.endpoint.anchors import SCHEMA
from advisor.sweeps.endpoint.session import EndpointSession, warnings_of
from advisor.sweeps.machine.environment import describe_machine, describe_versions
from advisor.sweeps.machine.gpu import gpus

_VERSIONS = ("aiohttp", "uvloop", "numpy", "vllm", "transformers", "torch", "llama-cpp-python")

Document = dict[str, Any]


def anchor_document(
    *,
    session: EndpointSession,
    address: Address,
    model: str,
    seed: int,
    lengths: tuple[int, int],
    deployment: Document,
    engine: Document,
    warnings: Sequence[str] = (),
) -> Document:
    """The document. `deployment` says on which GPUs and in which format the model was served,
    `engine` which server that was, as far as the user knows; what the server tells fills gaps, and
    its own version counts: the package here may be another one's."""
    opening = session.opening
    assert opening is not None  # a session without one has failed before
    ended = [str(session.ended)] if session.ended else []
    return {
        "schema": SCHEMA,
        "measured_at": datetime.now(UTC).isoformat(),
        "seconds": session.seconds,
        "model": model,
        "endpoint": {
            "url": address.base,
            "route": opening.dialect.route,
            "served_model": opening.served_model,
            "forces_length": opening.dialect.forces_length,
            "counts_tokens": opening.counts_tokens,
        },
        "engine": {
            "name": engine.get("name") or opening.engine,
            "version": opening.engine_version or engine.get("version", ""),
            "command": engine.get("command", []),
            "listening_seconds": engine.get("listening_seconds"),
            "ready_seconds": engine.get("ready_seconds"),
        },
        "deployment": deployment,
        "machine": {**describe_machine(), "versions": describe_versions(*_VERSIONS)},
        "traffic": {"input_tokens": lengths[0], "output_tokens": lengths[1], "seed": seed},
        "loads": session.figures,
        "warnings": [*map(str, warnings_of(session)), *warnings, *ended],
    }


def deployment_document(
    *,
    gpu: str | None,
    count: int | None,
    tensor_parallel: int | None,
    link: str | None,
    precision: str | None,
    kv_precision: str | None,
    is_here: bool,
) -> Document:
    """The hardware under the model. On this machine the driver fills in what the user leaves out."""
    facts = _gpus_here() if is_here else []
    names = sorted({str(one["name"]) for one in facts})
    found = gpu or (names[0] if len(names) == 1 else None)
    gpu_count = count or (tensor_parallel if gpu else None) or (1 if found else 0)
    return {
        "gpu": found,
        "gpus": gpu_count,
        "tensor_parallel": tensor_parallel or max(1, gpu_count),
        "link": link,
        "precision": precision,
        "kv_precision": kv_precision,
        "gpu_facts": facts,
    }


def _gpus_here() -> list[Document]:
    """By NVML; nothing on a machine without NVIDIA's driver."""
    try:
        return gpus()
    except MeasuringError:
        return []
