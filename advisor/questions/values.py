"""Parsers and printers of question values that are more than a number or a name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog.prices import has_memory
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
from advisor.messages import FieldName, Message, format_range, gpus_text, size_text
from advisor.models.performance.networks import NetworkFacts
from advisor.quantities import DASHED, parse_memory_mib, parse_positive, parse_range
from advisor.questions.fields import Number, Parsed, Text, comma_parts, error_in

# A function that reads the profile of a data set at a path, for a network.
ProfilePath: TypeAlias = Callable[[Path, NetworkFacts], DatasetProfile]
# Kinds of prices that may be ranked; free ones always are.
RANKED_KINDS = (LIST, OBSERVED, ESTIMATED)
_COUNTED = re.compile(
    r"(?P<first>\d+) ?x ?(?P<behind>\D.*)|(?P<before>.*\w) ?: ?(?P<last>\d+)", re.IGNORECASE
)
_CAPABILITY = re.compile(r"[0-9]{1,2}(\.[0-9])?")


class GpuFilter(Struct, frozen=True):
    """A filter of GPUs by name (any of these), by memory of one GPU, and by compute capability; all apply."""

    names: tuple[str, ...] = ()
    memory_mib: Range = ANY
    compute_capability: Range = ANY

    def __str__(self) -> str:
        """The text that `--gpu` takes: 'A100,40GiB..,cc8.0..'."""
        return gpus_text(self.names, self.memory_mib, self.compute_capability) or "any"

    def attributes(self) -> dict[str, Any]:
        """The same filter as attributes of a question or an `OfferQuery`."""
        return {
            "gpus": self.names,
            "min_gpu_memory_mib": self.memory_mib.least,
            "max_gpu_memory_mib": self.memory_mib.most,
            "compute_capability": self.compute_capability,
        }

    def allows(self, card: Gpu) -> bool:
        """True if a data sheet is within the ranges; this does not compare names."""
        enough = has_memory(card.memory_mib, self.memory_mib.least, self.memory_mib.most)
        return enough and card.capability in self.compute_capability


def parse_gpus(text: str) -> GpuFilter:
    """The filter in a text: 'T4,L4', '24GiB..48GiB', 'cc8.0..', or several: 'A100,40GiB..'. Names are checked
    against the catalogue later. Raises `UsageError`."""
    if text.strip().lower() == "any":
        return GpuFilter()
    parts = comma_parts(text)
    capabilities = [part for part in parts if part.lower().startswith("cc") and part[2:3] in "0123456789."]
    sizes = [part for part in parts if ".." in part and part not in capabilities]
    names = tuple(part for part in parts if part not in (*sizes, *capabilities))
    for name in names:
        _refuse_size(name)
        if counted := _COUNTED.fullmatch(name):
            raise error_in(
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
            raise error_in(
                "gpu",
                "{field} names GPUs, not '{name}'",
                name=name,
                hint="leave it out: instances without a GPU compete anyway; for one of them ask "
                "advisor predict --instance c7i.4xlarge",
            )
    if not parts or max(len(sizes), len(capabilities)) > 1:
        raise error_in(
            "gpu",
            "{field} takes names (T4,L4), one range of memory (24GiB..) and one of compute "
            "capabilities (cc8.0..)",
        )
    numbers = [text.lower().replace("cc", "") for text in capabilities]  # 'cc8.0..cc9.0' -> '8.0..9.0'
    return GpuFilter(
        names=names,
        memory_mib=parse_range(sizes[0], parse_memory_mib) if sizes else ANY,
        compute_capability=parse_range(numbers[0], _parse_capability) if numbers else ANY,
    )


def parse_vcpus(text: str) -> Range:
    """The range in a text: '4..16', '8..', or '8' for exactly 8."""
    return parse_range(text, lambda end: parse_positive(end, "--vcpus"))


def parse_price_kinds(text: str) -> tuple[str, ...]:
    """The kinds of prices to rank in a text: 'list,observed'."""
    kinds = tuple(dict.fromkeys(part.strip().lower() for part in text.split(",")))
    for kind in kinds:
        if kind not in RANKED_KINDS:
            raise unknown_name("kind of price", kind, RANKED_KINDS, field="price_kind")
    return kinds


def parse_ram(text: str) -> Range:
    """The range of MiB in a text: '32GiB..64GiB', '32GiB..'."""
    return parse_range(text, parse_memory_mib)


# The texts that these read.
format_vcpus = partial(format_range, write="{:g}".format)
format_ram = partial(format_range, write=size_text)


def _refuse_size(name: str) -> None:
    """`UsageError` for a size such as '24GiB', which is no name of a GPU."""
    dashed = DASHED.fullmatch(name)
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


def _parse_capability(text: str) -> float:
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


# Data without images have no pixels.
_NO_IMAGE: dict[str, Any] = {"width": 1, "height": 1}


def _text_dataset(name: str, tokens: int, size: int) -> DatasetProfile:
    """A text of `size` bytes, whose samples are tokens."""
    each, facts = size / tokens, _NO_IMAGE | {"sample": "token", "storage_format": "text"}
    return DatasetProfile(name=name, samples=tokens, bytes_per_sample=each, **facts)


def _tensor_dataset(name: str, samples: int) -> DatasetProfile:
    """Tensors of the size that a network takes."""
    facts = _NO_IMAGE | {"sample": "sample", "storage_format": "tensors"}
    return DatasetProfile(name=name, samples=samples, bytes_per_sample=1, **facts)


DATASETS = {
    dataset.name: dataset
    for dataset in (
        IMAGENET,
        _COCO,
        _CIFAR10,
        # Unnamed text: a billion tokens of English, 4.5 bytes each.
        _text_dataset("tokens", 10**9, 4_500_000_000),
        # Penn Treebank as Mikolov prepared it; WikiText-103, train split (Merity et al., 2016).
        _text_dataset("ptb", 929_589, 5_101_618),
        _text_dataset("wikitext", 103_227_021, 539_567_975),
        _tensor_dataset("tensors", 10**6),
        # LibriSpeech, 960 hours: its training utterances, kept as features or waves of one length.
        _tensor_dataset("librispeech", 281_241),
    )
}
# The name of samples that users send to a service, which are on no disk, and their storage formats.
REQUESTS = "requests"
_REQUESTED = {DataKind.IMAGE: "jpeg-requests", DataKind.TOKENS: "text-requests", DataKind.TENSOR: "requests"}
_SMALL_PIXELS = 32 * 32
_DETECTORS = re.compile(r"yolo|rcnn|retina|^ssd|detr|fcos")
_USUAL = {DataKind.TOKENS: "tokens", DataKind.TENSOR: "tensors"}
_NOUNS = {DataKind.IMAGE: "images", DataKind.TOKENS: "text", DataKind.TENSOR: "tensors as they are stored"}


def dataset_for(
    name: str | None, facts: NetworkFacts, task: Task = Task.TRAINING, profile: ProfilePath | None = None
) -> DatasetProfile:
    """The data set as the network takes it, in the network's samples. `name` is a known data set, or a path
    to images or text that `profile` reads; None is the usual data set of such networks in the task. Nobody
    stores tensors for inference, so those are requests; those of other networks are like the usual data.
    `UsageError` for an unknown data set, and for a kind of data that the network cannot take."""
    if name is None and task is Task.INFERENCE and facts.data is DataKind.TENSOR:
        name = REQUESTS
    if name == REQUESTS and task is not Task.INFERENCE:
        raise error_in("dataset", "{field} requests are samples that users send, for {task} inference only")
    known = _dataset_named(name if name and name != REQUESTS else _usual_name(facts), facts, profile)
    if name == REQUESTS:
        known = replace(known, name=name, samples=1, storage_format=_REQUESTED[known.kind])
    if known.kind is not facts.data:
        fitting = [dataset.name for dataset in DATASETS.values() if dataset.kind is facts.data]
        own = "" if facts.data is DataKind.TENSOR else ", or a path of your own"
        raise UsageError(
            "{dataset} is {kind}, and {network} takes {wanted}",
            dataset=known.name,
            kind=Message(_NOUNS[known.kind]),
            network=facts.name,
            wanted=Message(_NOUNS[facts.data]),
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


# Container bytes per JPEG image: WebDataset's two headers and padding, RecordIO's frame. An LMDB has a Datum
# of 256 x 256 pixels on 49 pages of 4 KiB, as Caffe's create_imagenet.sh makes it.
_CONTAINER_BYTES = {"files": 0, "tar": 1_800, "recordio": 33}
_LMDB_SIDE, _LMDB_BYTES = 256, 200_770
FORMATS = (*_CONTAINER_BYTES, "lmdb")


def stored_as(dataset: DatasetProfile, storage_format: str) -> DatasetProfile:
    """A named data set of JPEG files in another storage format; `UsageError` for other data sets."""
    if dataset.storage_format != "jpeg-files" or dataset.name not in DATASETS:
        raise error_in(
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
    size = dataset.bytes_per_sample + _CONTAINER_BYTES[storage_format]
    return replace(dataset, storage_format=stored, bytes_per_sample=size)


def _usual_name(facts: NetworkFacts) -> str:
    if facts.data is not DataKind.IMAGE:
        return "ptb" if "ptb" in facts.name else _USUAL[facts.data]
    if facts.pixels <= _SMALL_PIXELS:
        return "cifar10"
    return "coco" if _DETECTORS.search(facts.family) else "imagenet"


def _dataset_named(name: str, facts: NetworkFacts, profile: ProfilePath | None) -> DatasetProfile:
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
        error = unknown_name("dataset", name, (*DATASETS, REQUESTS), field="dataset")
        if re.fullmatch(r"[\d,._]+[kM]?", name):
            error.hint = Message(
                "the number of samples is {option} {name}", option=FieldName("dataset_samples"), name=name
            )
        raise error
    return profile(Path(name), facts)


_MOST_TENSOR_PARALLEL = 64
_AUTO = "auto"


class ModelName(Text):
    """The name of a language model; a client may not name a file."""

    def __init__(self) -> None:
        super().__init__("NAME")

    def from_json(self, value: Any, field: str) -> str:
        name = str(super().from_json(value, field))
        if name.startswith(("/", ".", "~")) or "\\" in name:
            raise error_in(
                field,
                "{field} names a file, and no file is opened for a client",
                hint="ask by `advisor` where the file is",
            )
        return name


class TensorParallel(Number):
    """The number of GPUs that share one copy of the model; `auto` is stored as None."""

    def __init__(self) -> None:
        super().__init__(whole=True, most=_MOST_TENSOR_PARALLEL, metavar="auto|N")

    def from_json(self, value: Any, field: str) -> Any:
        if isinstance(value, str):
            return self._checked(value, field, self.client_most)
        return super().from_json(value, field)

    def schema(self) -> dict[str, Any]:
        return super().schema() | {"type": ["integer", "string"], "pattern": f"^{_AUTO}$"}

    def _checked(self, value: Any, field: str, most: float) -> Any:
        text = str(value).strip()
        if text.lower() == _AUTO:
            return None
        if not text.lstrip("-").replace(".", "", 1).isdigit():
            raise error_in(field, "{field} must be a number or auto, not '{text}'", text=text[:60])
        return super()._checked(value, field, most)


def joined_values(field: str, form: str, sign: str, refused: Message, *kinds: Number) -> Parsed:
    """A field with several numbers in one text, joined by a sign; `refused` is the error for others."""

    def parsed(text: str) -> str:
        parts = text.lower().split(sign)
        if len(parts) != len(kinds):
            raise error_in(field, refused.text, text=text[:60])
        values = [kind.from_text(part.strip(), field) for kind, part in zip(kinds, parts, strict=True)]
        return sign.join(f"{value:.12g}" for value in values)

    return Parsed(parsed, str, form, joins=sign == ",")
