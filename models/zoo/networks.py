"""The networks that are measured, by name; nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct

from advisor.domain import Task, require_positive
from advisor.domain.workload import is_own_code
from advisor.errors import UsageError, unknown_name

# The class of a word that no loss counts.
NO_TARGET = -100


class Kind(StrEnum):
    """The kind of a network's inputs and outputs, which decides its targets and its loss.

    `text` is one stream of words (a language model), `sequence` are sentences."""

    IMAGE = "image"
    TEXT = "text"
    DETECTION = "detection"
    SEGMENTATION = "segmentation"
    SEQUENCE = "sequence"


_COMPUTED = (Task.TRAINING, Task.INFERENCE)
_WITH_PHOTOGRAPHS = (*_COMPUTED, Task.PREPROCESSING)


class NetworkInfo(Struct, frozen=True, kw_only=True):
    """The facts of a network that are needed before it is built.

    `input_shape` is one row of a batch: (3, height, width) of an RGB image in floats, or the shape of its
    word numbers. `unit` is what one sample is called; a row holds `samples_per_row` of them, so a step on
    `batch_size` rows is batch_size x samples_per_row samples. `classes` counts what it tells apart: classes,
    or the words of its vocabulary. `tasks` has no preprocessing where its input is stored ready to use. Batch
    normalisation of single values needs `min_training_batch` rows. `needs` is the extra of this package that
    builds it."""

    name: str
    title: str
    input_shape: tuple[int, ...]
    kind: Kind = Kind.IMAGE
    unit: str = "image"
    samples_per_row: int = 1
    classes: int = 1000
    tasks: tuple[Task, ...] = _WITH_PHOTOGRAPHS
    min_training_batch: int = 1
    needs: str = "sweep"

    def __post_init__(self) -> None:
        require_positive(
            samples_per_row=self.samples_per_row,
            classes=self.classes,
            min_training_batch=self.min_training_batch,
        )
        if not self.input_shape or min(self.input_shape) < 1:
            raise ValueError(f"{self.name}: input_shape has sizes above 0, not {self.input_shape}")

    @property
    def takes_images(self) -> bool:
        """Return whether a row is an RGB image."""
        return len(self.input_shape) == 3 and self.input_shape[0] == 3

    @property
    def input_pixels(self) -> int:
        """The side of its square RGB input in pixels. Raises `UsageError` for a network that takes words."""
        if not self.takes_images:
            raise UsageError(f"{self.name} takes words, not images", hint="use it with a text data set")
        return self.input_shape[-1]


def _image(name: str, title: str, pixels: int, needs: str = "sweep") -> NetworkInfo:
    return NetworkInfo(name=name, title=title, input_shape=(3, pixels, pixels), needs=needs)


def _lstm(name: str, title: str, unroll: int) -> NetworkInfo:
    """An LSTM of Zaremba, Sutskever, Vinyals, 'Recurrent neural network regularization', 2014."""
    return NetworkInfo(
        name=name,
        title=title,
        input_shape=(unroll,),
        kind=Kind.TEXT,
        unit="token",
        samples_per_row=unroll,
        classes=10_000,
        tasks=_COMPUTED,
    )


def _segmentation(name: str, title: str) -> NetworkInfo:
    """A network for 513 pixels and the 21 classes of PASCAL VOC, as in Chen et al., arXiv:1706.05587."""
    return NetworkInfo(
        name=name,
        title=title,
        input_shape=(3, 513, 513),
        kind=Kind.SEGMENTATION,
        classes=21,
        min_training_batch=2,
    )


def _detection(name: str, title: str, pixels: int, classes: int) -> NetworkInfo:
    return NetworkInfo(
        name=name, title=title, input_shape=(3, pixels, pixels), kind=Kind.DETECTION, classes=classes
    )


def _bert(name: str, title: str, length: int) -> NetworkInfo:
    """A BERT of Devlin et al., arXiv:1810.04805, with the uncased vocabulary of 30,522 word pieces."""
    return NetworkInfo(
        name=name,
        title=title,
        input_shape=(length,),
        kind=Kind.SEQUENCE,
        unit="sequence",
        classes=30_522,
        tasks=_COMPUTED,
    )


_ALL = (
    _image("alexnet", "AlexNet", 224),
    _image("googlenet", "GoogLeNet", 224),
    _image("resnet50", "ResNet-50", 224),
    _image("vgg16", "VGG-16", 224),
    _image("inception_v3", "Inception v3", 299),
    _image("nasnetalarge", "NASNet-A-Large", 331, needs="zoo"),
    # CIFAR-10 is stored decoded, 3 kB an image: there is nothing to preprocess.
    NetworkInfo(
        name="cifar10_cnn",
        title="Small CNN for CIFAR-10",
        input_shape=(3, 32, 32),
        classes=10,
        tasks=_COMPUTED,
    ),
    _detection("yolov3", "YOLOv3", 416, classes=80),
    # 90 categories of COCO and the background, numbered as torchvision does.
    _detection("maskrcnn_resnet50_fpn", "Mask R-CNN ResNet-50-FPN", 800, classes=91),
    _segmentation("deeplabv3_resnet50", "DeepLabv3 ResNet-50"),
    _segmentation("deeplabv3_resnet101", "DeepLabv3 ResNet-101"),
    _lstm("lstm_ptb_small", "LSTM 2 x 200, PennTreeBank", 20),
    _lstm("lstm_ptb_medium", "LSTM 2 x 650, PennTreeBank", 35),
    _lstm("lstm_ptb_large", "LSTM 2 x 1500, PennTreeBank", 35),
    # A row is 32 source words and 32 target words; rates of translation count the latter.
    NetworkInfo(
        name="transformer_big",
        title="Transformer-Big, WMT en-de",
        input_shape=(2, 32),
        kind=Kind.SEQUENCE,
        unit="token",
        samples_per_row=32,
        classes=32_768,
        tasks=_COMPUTED,
    ),
    _bert("bert_base", "BERT base, pre-training", 128),
    _bert("bert_base_squad", "BERT base, SQuAD fine-tuning", 384),
)
NETWORKS: Mapping[str, NetworkInfo] = MappingProxyType({info.name: info for info in _ALL})


def network_info(name: str) -> NetworkInfo:
    """The facts of a network. Raises `UsageError`, with what to do, if none is measured by that name."""
    if name not in NETWORKS:
        error = unknown_name("network", name, NETWORKS, field="model")
        near = f"did you mean {' or '.join(error.suggestions)}? Else " if error.suggestions else ""
        error.message = (
            f"measurements run {len(NETWORKS)} networks by name, and not '{name}': {', '.join(NETWORKS)}"
        )
        error.hint = f"{near}write it into a file, and name that as --model file.py:build"
        raise error
    return NETWORKS[name]


def can_be_run(reference: str) -> bool:
    """Return whether trials can run a network, which is one of the zoo or a user's file."""
    return is_own_code(reference) or reference in NETWORKS


def is_read_as_photographs(info: NetworkInfo) -> bool:
    """Return whether a network's input is stored as photographs, which are preprocessed."""
    return info.takes_images and Task.PREPROCESSING in info.tasks
