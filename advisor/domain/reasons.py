"""Why instance types are not recommended, as people say it."""

from __future__ import annotations

from collections.abc import Mapping

# What stands behind a number of types; of other reasons the words of their code.
_WORDS = {
    "latency": "over the latency limit",
    "too_long": "over the time limit",
    "over_max_cost": "over the budget of the run",
    "over_max_price": "over the price limit",
    "no_interval": "without a calibrated interval",
    "gpu_memory": "with too little GPU memory",
    "memory": "with too little RAM",
    "no_disk": "without a fitting disk",
    "no_price": "without a price",
    "quota": "beyond the quota",
    "facts_missing": "with missing facts",
    "weights": "too small for the weights",
    "kv": "too small for the KV cache",
    "gpus": "with too few GPUs",
    "ttft": "over the TTFT limit",
    "tpot": "over the TPOT limit",
    "e2e": "over the limit of a whole request",
    "users": "with room for fewer users",
    "load": "below the request rate",
    "ready": "not ready in time",
}


def counts_text(counts: Mapping[str, int]) -> str:
    """'1,317 too slow, 7 with missing facts': how many types each reason took out."""
    return ", ".join(
        f"{count:,} {_WORDS.get(reason, reason.replace('_', ' '))}"
        for reason, count in counts.items()
    )
