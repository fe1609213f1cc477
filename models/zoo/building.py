"""Builds networks as torch modules; torch is imported when the first one is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from torch import nn

from advisor.errors import MeasuringError
from advisor.extras import install_hint
from advisor.models.zoo.networks import NetworkInfo, network_info
from advisor.models.zoo.torchvision_operators import import_torchvision

if TYPE_CHECKING:
    import torch


Builder = Callable[[NetworkInfo], "torch.nn.Module"]

# The auxiliary heads serve convergence, not the classifier whose speed is asked for.
_WITHOUT_AUXILIARY_HEADS = frozenset({"googlenet", "inception_v3"})


def build(name: str) -> torch.nn.Module:
    """The network `name` with random weights: speed does not depend on their values.

    It takes and gives what its file says; `forward` and `training_loss` know how to call it.
    Raises `UsageError` for an unknown name, `MeasuringError` when a library is missing.
    """
    info = network_info(name)
    return _BUILDERS.get(info.name, _classifier)(info)


def build_on_meta(make: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    """What `make` builds, without memory for its weights.

    A builder that computes with values cannot run on the meta device: it builds on the CPU, and
    the network is moved. Raises what `make` raises there.
    """
    import torch

    try:
        with torch.device("meta"):
            return make()
    except Exception:
        with torch.device("cpu"):
            return make().to("meta")


def build_torchvision(name: str, side: int | None = None) -> torch.nn.Module:
    """Any classification network of torchvision by its torchvision name, random weights.

    Its vision transformers need the side of their images where it is not 224.
    """
    import_torchvision()
    from torchvision.models import get_model

    options: dict[str, Any] = {"weights": None}
    if side is not None and name.startswith("vit_"):
        options["image_size"] = side
    if name in _WITHOUT_AUXILIARY_HEADS:
        options |= {"aux_logits": False, "init_weights": False}
    module: torch.nn.Module = get_model(name, **options)
    return module


def _classifier(info: NetworkInfo) -> torch.nn.Module:
    return build_torchvision(info.name)


def _timm(info: NetworkInfo) -> torch.nn.Module:
    import_torchvision()
    try:
        import timm
    except ImportError as error:
        raise MeasuringError(
            "{info} comes from timm, which is not installed", hint=install_hint("zoo"), info=info.name
        ) from error
    module: torch.nn.Module = timm.create_model(info.name, num_classes=info.classes)
    return module


def _cifar(info: NetworkInfo) -> torch.nn.Module:
    from advisor.models.zoo.building import cifar10_cnn

    return cifar10_cnn(info.classes)


def _yolo(info: NetworkInfo) -> torch.nn.Module:
    from advisor.models.zoo.yolo import YoloV3

    return YoloV3(info.classes)


def _mask_rcnn(info: NetworkInfo) -> torch.nn.Module:
    from advisor.models.zoo.detection import mask_rcnn

    return mask_rcnn(info.classes)


def _segmentation(info: NetworkInfo) -> torch.nn.Module:
    import_torchvision()
    from torchvision.models import get_model

    module: torch.nn.Module = get_model(
        info.name, weights=None, weights_backbone=None, aux_loss=False, num_classes=info.classes
    )
    return module


def _language_model(info: NetworkInfo) -> torch.nn.Module:
    from advisor.models.zoo.lstm import language_model

    return language_model(info.name, info.classes)


def _translator(info: NetworkInfo) -> torch.nn.Module:
    from advisor.models.zoo.lstm import TransformerBig

    return TransformerBig(info.classes)


def _bert(info: NetworkInfo) -> torch.nn.Module:
    from advisor.models.zoo.bert import Pretraining

    return Pretraining(info.classes)


def _bert_squad(info: NetworkInfo) -> torch.nn.Module:
    from advisor.models.zoo.bert import QuestionAnswering

    return QuestionAnswering(info.classes)


_BUILDERS: Mapping[str, Builder] = {
    "nasnetalarge": _timm,
    "cifar10_cnn": _cifar,
    "yolov3": _yolo,
    "maskrcnn_resnet50_fpn": _mask_rcnn,
    "deeplabv3_resnet50": _segmentation,
    "deeplabv3_resnet101": _segmentation,
    "lstm_ptb_small": _language_model,
    "lstm_ptb_medium": _language_model,
    "lstm_ptb_large": _language_model,
    "transformer_big": _translator,
    "bert_base": _bert,
    "bert_base_squad": _bert_squad,
}


def cifar10_cnn(classes: int) -> nn.Module:
    """Four 3x3 convolutions and two linear layers: images (batch, 3, 32, 32) to logits.

    Layer by layer the network of Keras's example cifar10_cnn.py: 1,250,858 parameters and 20.7
    million multiply-accumulates for ten classes.
    """
    return nn.Sequential(
        *_block(3, 32),
        *_block(32, 64),
        nn.Flatten(),
        nn.Linear(64 * 6 * 6, 512),
        nn.ReLU(inplace=True),
        nn.Dropout(0.5),
        nn.Linear(512, classes),
    )


def _block(channels: int, filters: int) -> list[nn.Module]:
    return [
        nn.Conv2d(channels, filters, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(filters, filters, 3),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
    ]
