"""Texts that name specs, places, networks and settings; with the cloud if a question covers several."""

from __future__ import annotations

import re
from collections.abc import Mapping

from advisor.domain import DataKind, MemoryFormat, Spec, Task
from advisor.messages import FieldName, Message
from advisor.questions.network import NetworkQuestion
from advisor.questions.spec import SpecQuestion

# For each reason code, the text that counts the instance types rejected for it.
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
    """The number of instance types that each reason rejected: '1,317 too slow, 7 with missing facts'."""
    counted = (
        Message(_COUNTED.get(reason, _OTHER).text, count=count, reason=reason.replace("_", " "))
        for reason, count in counts.items()
    )
    return Message("{reasons}", reasons=tuple(counted))


_EVERY_CLOUD = "any"
# Audio is input as frames of so many frequency bands, 10 ms apart, or as samples at 16 kHz.
_BANDS, _FRAMES_PER_SECOND, _WAVES_PER_SECOND = (80, 128, 161), 100, 16_000
# The channels of a latent image, and the pixels per latent value along each side.
_LATENT_CHANNELS, _LATENT_PIXELS = (4, 16), 8


def covers_clouds(request: SpecQuestion) -> bool:
    """True if a question covers more than one cloud."""
    return request.cloud == _EVERY_CLOUD


def setting_text(precision: str, memory_format: str) -> str:
    """The precision and, unless it is PyTorch's default, the memory format: 'bf16, channels_last'."""
    return str(precision) + ("" if memory_format == MemoryFormat.CONTIGUOUS else f", {memory_format}")


def asked_of(request: NetworkQuestion) -> Message:
    """What a question is about: 'yolov8s inference, fp32, images of 640 x 640 pixels (..)'."""
    size, names = sample_size(request), other_names(request)
    parts: list[Message | str] = [
        Message("{network} {task}", network=request.network, task=Message(str(request.task)))
    ]
    parts += [str(request.precision)] if request.precision and request.task is not Task.PREPROCESSING else []
    parts += [size] if size and request.input else []
    if names:
        return Message("{parts} ({names})", parts=parts, names=names)
    return Message("{parts}", parts=parts)


def other_names(request: NetworkQuestion) -> list[Message]:
    """Notes on what the user's name was taken as, and on a namesake that is not meant; [] if it is clear."""
    name, model, namesake = request.network, request.model_asked, request.namesake
    taken = [Message("{name}: taken as {network}", name=model, network=name)] if model else []
    if not namesake:
        return taken
    not_it = Message(
        "another implementation than {other}, for which write {model} {other}",
        other=namesake,
        model=FieldName("model"),
    )
    return [*taken, not_it]


def sample_size(request: NetworkQuestion) -> Message | None:
    """The size of one sample: 'images of 640 x 640 pixels', 'sequences of 128 tokens'; None if unknown."""
    text = request.sample_input
    if not text:
        return None
    sizes, data = [int(size) for size in re.findall(r"\d+", text)], request.dataset
    if data.kind is DataKind.TOKENS:
        return Message("sequences of {count:,} tokens", count=sizes[-1])
    if text.startswith("wave:"):
        return Message("{seconds:g} s of audio", seconds=sizes[-1] / _WAVES_PER_SECOND)
    if data.sample == "sequence" and len(sizes) == 2 and min(sizes) in _BANDS:
        return Message("{seconds:g} s of audio", seconds=max(sizes) / _FRAMES_PER_SECOND)
    if len(sizes) == 3 and data.kind is DataKind.IMAGE:
        return Message("images of {height} x {width} pixels", height=sizes[1], width=sizes[2])
    if len(sizes) == 3 and sizes[0] in _LATENT_CHANNELS and data.sample in ("step", "image"):
        height, width = (_LATENT_PIXELS * size for size in sizes[1:])
        image = Message("images of {height} x {width} pixels", height=height, width=width)
        if not data.steps:
            return image
        return Message(
            "{image} in {steps} steps ({passes} passes)", image=image, steps=data.steps, passes=data.passes
        )
    return Message("inputs of {sizes}", sizes=text)


def others_text(request: NetworkQuestion, count: int) -> Message | None:
    """A note on how many other specs answer, where `count` is how many do; None if there may be more."""
    if count == 0 or count >= request.max_results:
        return None
    if request.target_throughput is None:
        if count == 1:
            return Message("no other spec that answers has a fiftieth of its rate")
        return Message("other specs with a fiftieth of its rate at least: {count}", count=count - 1)
    if count == 1:
        return Message("no other spec meets the target")
    return Message("other specs that meet the target: {count}", count=count - 1)


def spec_name(spec: Spec, request: SpecQuestion) -> Message | str:
    """The spec as 'g2-standard-4', or 'g2-standard-4 of gcp' if the question covers several clouds."""
    if not covers_clouds(request):
        return spec.name
    return Message("{name} of {cloud}", name=spec.name, cloud=spec.offer.instance.cloud)
