"""The data set of a question: a known one, a folder or text of one's own, as a network takes it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from advisor.domain import IMAGENET, DataKind, DatasetProfile
from advisor.errors import UsageError, unknown_name
from advisor.messages import FieldName, Message
from advisor.records import replace
from models.performance.networks import NetworkFacts

# COCO 2017: 118,287 training images in an archive of 19,336,861,798 bytes, most of 640 x 480.
_COCO = DatasetProfile(
    name="coco",
    samples=118_287,
    bytes_per_sample=163_474,
    storage_format="jpeg-files",
    width=578,
    height=484,
)
# CIFAR-10: 50,000 training images of 32 x 32, three bytes a pixel and one for the label.
_CIFAR10 = DatasetProfile(
    name="cifar10",
    samples=50_000,
    bytes_per_sample=3_073,
    storage_format="pixels",
    width=32,
    height=32,
)


def _text(name: str, tokens: int, size: int) -> DatasetProfile:
    """A text of `size` bytes; a sample is a token."""
    return DatasetProfile(
        name=name,
        samples=tokens,
        bytes_per_sample=size / tokens,
        storage_format="text",
        width=1,
        height=1,
        sample="token",
    )


def _tensors(name: str, samples: int) -> DatasetProfile:
    """Tensors as a network takes them; their size is the network's."""
    return DatasetProfile(
        name=name,
        samples=samples,
        bytes_per_sample=1,
        storage_format="tensors",
        width=1,
        height=1,
        sample="sample",
    )


DATASETS = {
    one.name: one
    for one in (
        IMAGENET,
        _COCO,
        _CIFAR10,
        # What no text is named for: a billion tokens of English, 4.5 bytes each.
        _text("tokens", 10**9, 4_500_000_000),
        # Penn Treebank as Mikolov prepared it; WikiText-103, train split (Merity et al., 2016).
        _text("ptb", 929_589, 5_101_618),
        _text("wikitext", 103_227_021, 539_567_975),
        _tensors("tensors", 10**6),
        # LibriSpeech, 960 hours: its training utterances, kept as features or waves of one length.
        _tensors("librispeech", 281_241),
    )
}
_SMALL_PIXELS = 32 * 32
_DETECTORS = re.compile(r"yolo|rcnn|retina|^ssd|detr|fcos")
_USUAL = {DataKind.TOKENS: "tokens", DataKind.TENSOR: "tensors"}
_WORDS = {
    DataKind.IMAGE: "images",
    DataKind.TOKENS: "text",
    DataKind.TENSOR: "tensors as they are stored",
}


def dataset_for(name: str | None, facts: NetworkFacts) -> DatasetProfile:
    """The data set as the network takes it: samples are the network's own.

    `name` is a known one, a path of images or of text, or None: what such networks usually take.
    Raises `UsageError` for an unknown one, and for a kind that the network cannot take.
    """
    profile = _named(name or _usual(facts), facts)
    if profile.kind is not facts.data:
        fitting = [one.name for one in DATASETS.values() if one.kind is facts.data]
        own = "" if facts.data is DataKind.TENSOR else ", or a path of your own"
        raise UsageError(
            "{dataset} is {kind}, and {network} takes {wanted}", dataset=profile.name,
            kind=Message(_WORDS[profile.kind]), network=facts.name,
            wanted=Message(_WORDS[facts.data]), field="dataset",
            hint=Message("{field} takes {names}{own}", field=FieldName("dataset"),
                         names=", ".join(fitting), own=Message(own)),
        )  # fmt: skip
    if facts.data is DataKind.IMAGE:
        return profile
    if facts.data is DataKind.TENSOR:
        return replace(profile, bytes_per_sample=facts.input_bytes, sample=facts.sample)
    length = 1 if facts.sample == profile.sample else facts.input_shape[-1]
    return replace(
        profile,
        samples=max(1, profile.samples // length),
        bytes_per_sample=profile.bytes_per_sample * length,
        sample=facts.sample,
    )


def _usual(facts: NetworkFacts) -> str:
    """What networks of that kind are usually trained on."""
    if facts.data is not DataKind.IMAGE:
        return _USUAL[facts.data]
    if facts.pixels <= _SMALL_PIXELS:
        return "cifar10"
    return "coco" if _DETECTORS.search(facts.family) else "imagenet"


def _named(name: str, facts: NetworkFacts) -> DatasetProfile:
    if name.lower() in DATASETS:
        return DATASETS[name.lower()]
    if not Path(name).exists():
        if os.sep in name:
            raise UsageError("no folder '{name}'", name=name, field="dataset")
        raise unknown_name("dataset", name, DATASETS, field="dataset")
    if facts.data is DataKind.TOKENS:
        from sweeps.datasets.text import profile_text

        return replace(profile_text(Path(name)), sample="token")
    from sweeps.datasets import profile_folder

    return profile_folder(Path(name))
