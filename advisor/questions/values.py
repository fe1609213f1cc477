"""Values of a question that are more than a number or a name: their text in, their text out."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog.match import has_memory
from advisor.domain import (
    ANY,
    ESTIMATED,
    IMAGENET,
    LIST,
    OBSERVED,
    DataKind,
    DatasetProfile,
    Gpu,
    Range,
    Task,
)
from advisor.errors import UsageError, unknown_name
from advisor.messages import FieldName, Message
from advisor.models.performance.networks import NetworkFacts
from advisor.quantities import parse_memory_mib, parse_positive, parse_range
from advisor.questions.fields import wrong
from advisor.units import format_range, gpus_text, size_text

# Reads the profile of a data set that is a path, for a network.
ProfilePath: TypeAlias = Callable[[Path, NetworkFacts], DatasetProfile]
# How prices are known that may be ranked; what is free always is.
RANKED_KINDS = (LIST, OBSERVED, ESTIMATED)
_CAPABILITY = re.compile(r"[0-9]{1,2}(\.[0-9])?")
_COUNTED = re.compile(
    r"(?P<first>\d+) ?x ?(?P<behind>\D.*)|(?P<before>.*\w) ?: ?(?P<last>\d+)", re.IGNORECASE
)
_DASHED = re.compile(r"\s*([^-.]+?)\s*-\s*([^-.]+?)\s*")


class GpuFilter(Struct, frozen=True):
    """GPUs by name (one of them), by the memory of one, and by compute capability; all hold."""

    names: tuple[str, ...] = ()
    memory_mib: Range = ANY
    compute_capability: Range = ANY

    def __str__(self) -> str:
        """The text that `--gpu` takes: 'A100,40GiB..,cc8.0..'."""
        return gpus_text(self.names, self.memory_mib, self.compute_capability) or "any"

    def attributes(self) -> dict[str, Any]:
        """The attributes of a question and of an `OfferQuery` that say the same."""
        return {
            "gpus": self.names,
            "min_gpu_memory_mib": self.memory_mib.least,
            "max_gpu_memory_mib": self.memory_mib.most,
            "compute_capability": self.compute_capability,
        }

    def allows(self, card: Gpu) -> bool:
        """Whether a data sheet is within the ranges; names are compared elsewhere."""
        enough = has_memory(card.memory_mib, self.memory_mib.least, self.memory_mib.most)
        return enough and card.capability in self.compute_capability


def parse_gpus(text: str) -> GpuFilter:
    """'T4,L4', '24GiB..48GiB', 'cc8.0..' or several of them: 'A100,40GiB..'.

    Names are checked against the catalogue later. Raises `UsageError`."""
    if text.strip().lower() == "any":
        return GpuFilter()
    parts = [part.strip() for part in text.split(",") if part.strip()]
    capabilities = [part for part in parts if part.lower().startswith("cc") and part[2:3] in "0123456789."]
    sizes = [part for part in parts if ".." in part and part not in capabilities]
    names = tuple(part for part in parts if part not in (*sizes, *capabilities))
    for name in names:
        _refuse_size(name)
        if counted := _COUNTED.fullmatch(name):
            raise wrong(
                "gpu",
                "{field} names GPUs, not how many: '{name}'",
                name=name,
                hint=Message(
                    "write {gpu} {card}; how many of each instance are used: {max_gpus} {count} at most",
                    gpu=FieldName("gpu"),
                    max_gpus=FieldName("max_gpus"),
                    card=counted["before"] or counted["behind"],
                    count=counted["first"] or counted["last"],
                ),
            )
        if name.lower() in ("none", "cpu"):
            raise wrong(
                "gpu",
                "{field} names GPUs, not '{name}'",
                name=name,
                hint="leave it out: instances without a GPU compete anyway; for one of them ask "
                "advisor predict --instance c7i.4xlarge",
            )
    if not parts or max(len(sizes), len(capabilities)) > 1:
        raise wrong(
            "gpu",
            "{field} takes names (T4,L4), one range of memory (24GiB..) and one of compute "
            "capabilities (cc8.0..)",
        )
    return GpuFilter(
        names=names,
        memory_mib=parse_range(sizes[0], parse_memory_mib) if sizes else ANY,
        compute_capability=_capabilities(capabilities[0]) if capabilities else ANY,
    )


def parse_vcpus(text: str) -> Range:
    """'4..16', '8..', or '8' for 8 alone."""
    return _range(text, lambda end: parse_positive(end, "--vcpus"))


def format_vcpus(limits: Range) -> str:
    """The text that `parse_vcpus` reads."""
    return format_range(limits, "{:g}".format)


def parse_price_kinds(text: str) -> tuple[str, ...]:
    """'list,observed': how prices are known that may be ranked."""
    kinds = tuple(dict.fromkeys(part.strip().lower() for part in text.split(",")))
    for kind in kinds:
        if kind not in RANKED_KINDS:
            raise unknown_name("kind of price", kind, RANKED_KINDS, field="price_kind")
    return kinds


def parse_ram(text: str) -> Range:
    """'32GiB..64GiB', '32GiB..': RAM in MiB."""
    return _range(text, parse_memory_mib)


def format_ram(limits: Range) -> str:
    """The text that `parse_ram` reads."""
    return format_range(limits, size_text)


def _range(text: str, parse: Callable[[str], float]) -> Range:
    dashed = _DASHED.fullmatch(text)
    if dashed:
        raise UsageError(
            "'{text}' is no range",
            text=text,
            hint=Message("write it as {least}..{most}", least=dashed[1], most=dashed[2]),
        )
    return parse_range(text, parse)


def _refuse_size(name: str) -> None:
    """A GPU is never called '24GiB'."""
    dashed = _DASHED.fullmatch(name)
    least, most = dashed.groups() if dashed else (name, "")
    try:
        parse_memory_mib(least)
    except UsageError:
        return
    raise UsageError(
        "'{text}' is no GPU",
        text=name,
        field="gpu",
        hint=Message("for GPUs with so much memory write {least}..{most}", least=least, most=most),
    )


def _capabilities(text: str) -> Range:
    """'cc8.0..9.0' -> 8.0 to 9.0, 'cc8.6' -> 8.6 alone."""
    return parse_range(text.lower().replace("cc", ""), _capability)


def _capability(text: str) -> float:
    if not _CAPABILITY.fullmatch(text):
        raise UsageError(
            "'{text}' is no compute capability", text=text, hint="write it like cc8.0.. or cc7.5..8.9"
        )
    return parse_positive(text, "a compute capability")


# COCO 2017: 118,287 training images in an archive of 19,336,861,798 bytes, most of 640 x 480.
_COCO = DatasetProfile(
    name="coco", samples=118_287, bytes_per_sample=163_474, storage_format="jpeg-files", width=578, height=484
)
# CIFAR-10: 50,000 training images of 32 x 32, three bytes a pixel and one for the label.
_CIFAR10 = DatasetProfile(
    name="cifar10", samples=50_000, bytes_per_sample=3_073, storage_format="pixels", width=32, height=32
)


# What is no image has no pixels.
_NO_IMAGE: dict[str, Any] = {"width": 1, "height": 1}


def _text(name: str, tokens: int, size: int) -> DatasetProfile:
    """A text of `size` bytes; a sample is a token."""
    each, facts = size / tokens, _NO_IMAGE | {"sample": "token", "storage_format": "text"}
    return DatasetProfile(name=name, samples=tokens, bytes_per_sample=each, **facts)


def _tensors(name: str, samples: int) -> DatasetProfile:
    """Tensors as a network takes them; their size is the network's."""
    facts = _NO_IMAGE | {"sample": "sample", "storage_format": "tensors"}
    return DatasetProfile(name=name, samples=samples, bytes_per_sample=1, **facts)


DATASETS = {
    dataset.name: dataset
    for dataset in (
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
# What a service is sent: nothing of it lies on a disk.
_REQUESTS = replace(_tensors("tensors", 1), name="requests", storage_format="requests")
_SMALL_PIXELS = 32 * 32
_DETECTORS = re.compile(r"yolo|rcnn|retina|^ssd|detr|fcos")
_USUAL = {DataKind.TOKENS: "tokens", DataKind.TENSOR: "tensors"}
_WORDS = {DataKind.IMAGE: "images", DataKind.TOKENS: "text", DataKind.TENSOR: "tensors as they are stored"}


def dataset_for(
    name: str | None, facts: NetworkFacts, task: Task = Task.TRAINING, profile: ProfilePath | None = None
) -> DatasetProfile:
    """The data set as the network takes it: samples are the network's own.

    `name` is a known one, a path of images or of text that `profile` reads, or None: what such networks
    usually take in the task. Nobody keeps tensors to infer from: these are requests. Raises `UsageError` for
    an unknown one, and for a kind that the network cannot take."""
    is_served = name is None and task is Task.INFERENCE and facts.data is DataKind.TENSOR
    known = _REQUESTS if is_served else _named(name or _usual(facts), facts, profile)
    if known.kind is not facts.data:
        fitting = [dataset.name for dataset in DATASETS.values() if dataset.kind is facts.data]
        own = "" if facts.data is DataKind.TENSOR else ", or a path of your own"
        raise UsageError(
            "{dataset} is {kind}, and {network} takes {wanted}",
            dataset=known.name,
            kind=Message(_WORDS[known.kind]),
            network=facts.name,
            wanted=Message(_WORDS[facts.data]),
            field="dataset",
            hint=Message(
                "{field} takes {names}{own}",
                field=FieldName("dataset"),
                names=", ".join(fitting),
                own=Message(own),
            ),
        )
    if facts.data is DataKind.IMAGE:
        return known
    if facts.data is DataKind.TENSOR:
        return replace(known, bytes_per_sample=facts.input_bytes, sample=facts.sample)
    length = 1 if facts.sample == known.sample else facts.input_shape[-1]
    return replace(
        known,
        samples=max(1, known.samples // length),
        bytes_per_sample=known.bytes_per_sample * length,
        sample=facts.sample,
    )


# Bytes of a container beside those of a JPEG image: of WebDataset's two headers and padding, of RecordIO's
# frame. An LMDB has a Datum of 256 x 256 pixels on 49 pages of 4 KiB, as Caffe's create_imagenet.sh makes it.
_BESIDE_AN_IMAGE = {"files": 0, "tar": 1_800, "recordio": 33}
_LMDB_SIDE, _LMDB_BYTES = 256, 200_770
FORMATS = (*_BESIDE_AN_IMAGE, "lmdb")


def stored_as(dataset: DatasetProfile, storage_format: str) -> DatasetProfile:
    """A named data set of JPEG files in another format; `UsageError` for one that is no such."""
    if dataset.storage_format != "jpeg-files" or dataset.name not in DATASETS:
        raise wrong(
            "data_format",
            "{dataset} is {stored} already",
            dataset=dataset.name,
            stored=dataset.storage_format,
            hint="{dataset} of your own says itself how it is stored",
        )
    if storage_format == "lmdb":
        return replace(
            dataset, storage_format="lmdb", bytes_per_sample=_LMDB_BYTES, width=_LMDB_SIDE, height=_LMDB_SIDE
        )
    stored = dataset.storage_format if storage_format == "files" else storage_format
    size = dataset.bytes_per_sample + _BESIDE_AN_IMAGE[storage_format]
    return replace(dataset, storage_format=stored, bytes_per_sample=size)


def _usual(facts: NetworkFacts) -> str:
    if facts.data is not DataKind.IMAGE:
        return "ptb" if "ptb" in facts.name else _USUAL[facts.data]
    if facts.pixels <= _SMALL_PIXELS:
        return "cifar10"
    return "coco" if _DETECTORS.search(facts.family) else "imagenet"


def _named(name: str, facts: NetworkFacts, profile: ProfilePath | None) -> DatasetProfile:
    if name.lower() in DATASETS:
        return DATASETS[name.lower()]
    if profile is None or not Path(name).exists():
        if "://" in name:
            raise UsageError(
                "'{name}' is an address, and no data set is fetched",
                name=name,
                field="dataset",
                hint="copy a part of it here and name that folder, or take the known name that is "
                "most like it (imagenet, coco, tokens, ..): what counts is the size of its files",
            )
        if os.sep in name:
            raise UsageError(
                "no folder '{name}'",
                name=name,
                field="dataset",
                hint=Message("name one that is here, or one of {names}", names=tuple(DATASETS)),
            )
        raise unknown_name("dataset", name, DATASETS, field="dataset")
    return profile(Path(name), facts)
