"""Captures facts of networks in parallel into a work folder, one file a variant so that a stop loses little,
and writes networks.csv and operations.npy from them."""

from __future__ import annotations

import csv
import json
import multiprocessing
import re
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.infra.build.networks.variants import Variant
from advisor.models.network_columns import MEMORY_COLUMNS
from advisor.models.performance.networks import COLUMNS, NETWORKS, OPERATION, OPERATIONS

_DIGITS = 5
# Endings of class names that state a use, not an architecture.
_USE = re.compile(r"(For[A-Z]\w*|LMHeadModel|MTModel|(2D)?(Condition)?Model|Distilled|CPE|Diff|Enc)$")
_FAMILIES = {
    "AST": "ast",
    "AlexNet": "alexnet",
    "AutoencoderKL": "vae",
    "Bart": "bart",
    "BioGpt": "biogpt",
    "CLIP": "clip",
    "CLIPText": "clip_text",
    "ConditionalDetr": "detr",
    "ConvNeXt": "convnext",
    "ConvNext": "convnext",
    "Data2VecVision": "beit",
    "DebertaV2": "deberta_v3",
    "DeepLabV3": "deeplab_v3",
    "DeiT": "vit",
    "DenseNet": "densenet",
    "DiTTransformer": "dit",
    "Dinov2": "vit",
    "DistilBert": "distilbert",
    "EfficientNet": "efficientnet",
    "FCN": "fcn",
    "FCOS": "fcos",
    "FasterRCNN": "faster_rcnn",
    "FluxTransformer": "mmdit",
    "GPTNeoX": "pythia",
    "GoogLeNet": "googlenet",
    "KeypointRCNN": "keypoint_rcnn",
    "LRASPP": "lraspp",
    "LanguageModel": "lstm",
    "Longformer": "longformer",
    "M2M100": "m2m100",
    "MBart": "bart",
    "MNASNet": "mnasnet",
    "MViT": "mvit",
    "Mask2Former": "mask2former",
    "MaskFormer": "maskformer",
    "MaskRCNN": "mask_rcnn",
    "MobileNetV2": "mobilenet_v2",
    "MobileNetV2ForSemanticSegmentation": "deeplab_v3",
    "MobileNetV3": "mobilenet_v3",
    "MobileViT": "mobilevit",
    "ModernBert": "modernbert",
    "OPT": "opt",
    "OwlViT": "owlvit",
    "PixArtTransformer": "dit",
    "Pretraining": "bert",
    "QuestionAnswering": "bert",
    "RAFT": "raft",
    "RTDetr": "rt_detr",
    "RegNet": "regnet",
    "ResNet": "resnet",
    "RetinaNet": "retinanet",
    "S3D": "s3d",
    "SD3Transformer": "mmdit",
    "SSD": "ssd",
    "Seq2Seq": "seq2seq",
    "ShuffleNetV2": "shufflenet_v2",
    "SqueezeBert": "squeezebert",
    "SqueezeNet": "squeezenet",
    "Swin": "swin",
    "SwinTransformer": "swin",
    "SwinTransformer3d": "swin_3d",
    "SwinTransformerV2": "swin_v2",
    "Swinv2": "swin_v2",
    "UNet": "unet",
    "UNet2DConditionModel": "stable_diffusion",
    "VGG": "vgg",
    "ViT": "vit",
    "ViTMAE": "vit",
    "ViTMSN": "vit",
    "VideoMAE": "videomae",
    "VisionTransformer": "vit",
    "Wav2Vec2": "wav2vec2",
    "XLMRoberta": "roberta",
    "YoloV3": "yolo_v3",
}


def family_of(class_name: str) -> str:
    """`vit` for VisionTransformer, `bert` for BertModel; for other class names, their words in lower case."""
    plain = _USE.sub("", class_name) or class_name
    for existing in (class_name, plain):
        if existing in _FAMILIES:
            return _FAMILIES[existing]
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", plain).lower()


def write_table(variants: Sequence[Variant], facts: Mapping[str, Mapping[str, Any]], folder: Path) -> int:
    """Write both files for the variants that have facts; returns how many these are.

    A variant without facts keeps its line in the existing table, if any."""
    before = _before(folder)
    blocks: dict[bytes, int] = {}
    arrays: list[NDArray[Any]] = []
    lines: list[list[Any]] = []
    taken = 0
    for variant in variants:
        result = _line(variant, facts.get(variant.key), before)
        if result is None:
            continue
        line, steps = result
        for place, rows in zip((0, 2), steps, strict=True):
            raw = rows.tobytes()
            if raw not in blocks:
                blocks[raw] = taken
                arrays.append(rows)
                taken += len(rows)
            line[COLUMNS.index("inference_first") + place] = blocks[raw] if len(rows) else 0
        lines.append(line)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / NETWORKS).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([COLUMNS, *lines])
    np.save(folder / OPERATIONS, np.concatenate(arrays), allow_pickle=False)
    return len(lines)


def _line(
    variant: Variant, facts: Mapping[str, Any] | None, before: Mapping[str, Any]
) -> tuple[list[Any], tuple[NDArray[Any], NDArray[Any]]] | None:
    """The cells of a variant, and its operations in inference and in training."""
    aliases = ";".join(variant.aliases)
    if facts is None:
        if variant.key not in before:
            return None
        cells, steps = before[variant.key]
        return [*cells[:-1], aliases], steps
    inference, training = _rows(facts["inference"]), _rows(facts["training"])
    head = [
        variant.name,
        variant.library,
        variant.family or family_of(facts["family"]),
        variant.input,
        variant.sample,
        variant.data,
        facts["parameters"],
        facts["weight_tensors"],
        _number(facts["weights_mib"]),
        _number(facts["trained_mib"]),
        round(facts["input_bytes"]),
        0,
        len(inference),
        0,
        len(training),
    ]
    memory = [_number(facts["memory"][name]) for name in MEMORY_COLUMNS]
    return [*head, *memory, aliases], (inference, training)


def _rows(rows: Iterable[Sequence[float]]) -> NDArray[Any]:
    return np.array([tuple(row) for row in rows], dtype=OPERATION)


def _before(folder: Path) -> dict[str, Any]:
    if not (folder / NETWORKS).exists():
        return {}
    operations = np.load(folder / OPERATIONS)
    result: dict[str, Any] = {}
    with (folder / NETWORKS).open(newline="") as file:
        for row in csv.DictReader(file):
            if tuple(row) != COLUMNS:
                return {}
            steps = tuple(
                operations[int(row[f"{task}_first"]) :][: int(row[f"{task}_rows"])]
                for task in ("inference", "training")
            )
            result[f"{row['library']}/{row['name']}@{row['input']}"] = (list(row.values()), steps)
    return result


def _number(value: float) -> str:
    return f"{value:.{_DIGITS}g}"


# A worker process is replaced after this many variants: the libraries keep memory of what they build.
_VARIANTS_A_WORKER = 150


class TooLongError(BaseException):
    """A variant exceeded its time limit; no other way to capture it is tried."""


def result_path(folder: Path, key: str) -> Path:
    """Path of a variant's result."""
    return folder / (key.replace("/", "__").replace(":", "=") + ".json")


def write_result(folder: Path, document: Mapping[str, Any]) -> None:
    """Write the result of the variant `document["key"]` atomically."""
    path = result_path(folder, document["key"])
    part = path.with_suffix(".part")
    part.write_text(json.dumps(document, separators=(",", ":")))
    part.replace(path)


def failure(error: BaseException) -> str:
    """The reason why a variant could not be captured, in one line."""
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first[:200]}"


def is_captured(path: Path) -> bool:
    """True if the file has facts; failed variants are tried again."""
    return path.exists() and "failed" not in json.loads(path.read_text())


def capture_all(
    variants: Sequence[Variant], folder: Path, *, processes: int, seconds_each: float
) -> Iterator[tuple[str, str]]:
    """Yield (key, reason for failure) as each variant without a file is done; the reason is '' on success."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [entry for entry in variants if not is_captured(result_path(folder, entry.key))]
    if processes == 1:
        for variant in missing:
            yield _captured(variant, folder, seconds_each)
        return
    # Variants contain functions, which only a fork can pass on.
    context = multiprocessing.get_context("fork")
    work = [(variant, folder, seconds_each) for variant in missing]
    _SHARED[:] = work
    with context.Pool(processes, maxtasksperchild=_VARIANTS_A_WORKER) as pool:
        yield from pool.imap(_numbered, range(len(work)))


_SHARED: list[tuple[Variant, Path, float]] = []


def _numbered(number: int) -> tuple[str, str]:
    return _captured(*_SHARED[number])


def _captured(variant: Variant, folder: Path, seconds: float) -> tuple[str, str]:
    import torch

    from advisor.infra.build.networks.building import quiet
    from advisor.infra.build.networks.live import facts_with_memory

    if is_captured(result_path(folder, variant.key)):
        return variant.key, ""
    torch.set_num_threads(1)
    start = time.monotonic()
    document: dict[str, Any]
    try:
        with quiet(), within(seconds):
            facts = facts_with_memory(variant.subject(), training=variant.training)
        document, why = {"key": variant.key, **facts}, ""
    except (Exception, TooLongError) as error:
        why = failure(error)
        document = {"key": variant.key, "failed": why}
    write_result(folder, {**document, "seconds": round(time.monotonic() - start, 2)})
    return variant.key, why


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Context manager: raises `TooLongError` if its body takes longer than `seconds`."""

    def stop(*_: Any) -> None:
        raise TooLongError(f"longer than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
