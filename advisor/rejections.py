"""Why instance types are not recommended, as people say it."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.messages import Message

# By the code of a reason: so many types, and what stood against them.
_COUNTED = {
    "too_slow": Message("{count:,} too slow"),
    "latency": Message("{count:,} over the latency limit"),
    "too_long": Message("{count:,} over the time limit"),
    "over_max_cost": Message("{count:,} over the budget of the run"),
    "over_max_price": Message("{count:,} over the price limit"),
    "no_interval": Message("{count:,} without a calibrated interval"),
    "gpu_memory": Message("{count:,} with too little GPU memory"),
    "memory": Message("{count:,} with too little RAM"),
    "no_disk": Message("{count:,} without a fitting disk"),
    "no_price": Message("{count:,} without a price"),
    "quota": Message("{count:,} beyond the quota"),
    "unsupported": Message("{count:,} unsupported"),
    "not_offered": Message("{count:,} not offered"),
    "facts_missing": Message("{count:,} with missing facts"),
    "weights": Message("{count:,} too small for the weights"),
    "kv": Message("{count:,} too small for the KV cache"),
    "gpus": Message("{count:,} with too few GPUs"),
    "ttft": Message("{count:,} over the TTFT limit"),
    "tpot": Message("{count:,} over the TPOT limit"),
    "e2e": Message("{count:,} over the limit of a whole request"),
    "users": Message("{count:,} with room for fewer users"),
    "load": Message("{count:,} below the request rate"),
    "ready": Message("{count:,} not ready in time"),
}
_OTHER = Message("{count:,} {reason}")


def counted_reasons(counts: Mapping[str, int]) -> Message:
    """'1,317 too slow, 7 with missing facts': how many types each reason took out."""
    counted = (
        Message(_COUNTED.get(reason, _OTHER).text, count=count, reason=reason.replace("_", " "))
        for reason, count in counts.items()
    )
    return Message("{reasons}", reasons=tuple(counted))
