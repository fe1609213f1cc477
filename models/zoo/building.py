"""Builds networks as torch modules, with random weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from advisor.errors import MeasuringError
from advisor.extras import install_hint
from advisor.models.zoo.bert import DecoderLayer, EncoderLayer, Pretraining, QuestionAnswering
from advisor.models.zoo.detectors import YoloV3, mask_rcnn
from advisor.models.zoo.networks import NetworkInfo, network_info
from advisor.models.zoo.torchvision_operators import import_torchvision

# Hidden units and dropout of the paper's three models; all have two layers.
SIZES = {"lstm_ptb_small": (200, 0.0), "lstm_ptb_medium": (650, 0.5), "lstm_ptb_large": (1500, 0.65)}


class LanguageModel(nn.Module):
    """Two LSTM layers between an embedding and a softmax over the vocabulary.

    Each step starts from a hidden state of zeros: carrying it over is no work."""

    def __init__(self, vocabulary: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(hidden, hidden, num_layers=2, dropout=dropout, batch_first=True)
        self.decoder = nn.Linear(hidden, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Word numbers (batch, unroll) to logits of the next word (batch, unroll, words)."""
        hidden, _ = self.lstm(self.dropout(self.embedding(tokens)))
        logits: torch.Tensor = self.decoder(self.dropout(hidden))
        return logits


_WIDTH, _HEADS, _INNER, _LAYERS = 1024, 16, 4096, 6
# The paper's dropout for the big model on English to German.
_DROPOUT = 0.3
_LONGEST = 1024


class TransformerBig(nn.Module):
    """The big Transformer: 6 + 6 layers; source, target and softmax share one embedding."""

    positions: torch.Tensor

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, _WIDTH)
        # Logits through a tied embedding of unit variance would start out enormous.
        nn.init.normal_(self.embedding.weight, std=_WIDTH**-0.5)
        self.register_buffer("positions", _sinusoids(_LONGEST, _WIDTH), persistent=False)
        self.dropout = nn.Dropout(_DROPOUT)
        self.encoder = nn.ModuleList(
            EncoderLayer(_WIDTH, _HEADS, _INNER, dropout=_DROPOUT) for _ in range(_LAYERS)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(_WIDTH, _HEADS, _INNER, dropout=_DROPOUT) for _ in range(_LAYERS)
        )
        # torch.nn.Transformer ends each stack with one more normalisation; so does this.
        self.encoder_norm = nn.LayerNorm(_WIDTH)
        self.decoder_norm = nn.LayerNorm(_WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Source and target words (batch, 2, length) to logits (batch, length, words).

        All target words are computed at once, as in training and in scoring; generating word by word is
        another workload."""
        source, target = tokens.unbind(1)
        memory = self._embed(source)
        for layer in self.encoder:
            memory = layer(memory)
        memory = self.encoder_norm(memory)
        hidden = self._embed(target)
        for layer in self.decoder:
            hidden = layer(hidden, memory)
        return nn.functional.linear(self.decoder_norm(hidden), self.embedding.weight)

    def _embed(self, tokens: torch.Tensor) -> torch.Tensor:
        scaled = self.embedding(tokens) * math.sqrt(_WIDTH)
        embedded: torch.Tensor = self.dropout(scaled + self.positions[: tokens.shape[-1]])
        return embedded


def _sinusoids(length: int, width: int) -> torch.Tensor:
    """Position encodings (length, width) by section 3.5 of the paper: sines, then cosines."""
    positions = torch.arange(length)[:, None]
    frequency = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    return torch.cat([torch.sin(positions * frequency), torch.cos(positions * frequency)], dim=1)


# Their auxiliary heads only help training to converge, and are no part of the measured classifier.
_WITHOUT_AUXILIARY_HEADS = frozenset({"googlenet", "inception_v3"})


def build(name: str) -> nn.Module:
    """The network `name` with random weights, since speed does not depend on their values.

    Its inputs and outputs are those of its library; `forward` and `training_loss` know how to call it. Raises
    `UsageError` for an unknown name, `MeasuringError` when a library is missing."""
    info = network_info(name)
    make = _BUILDERS.get(info.name)
    return make(info) if make else build_torchvision(info.name)


def build_torchvision(name: str, side: int | None = None) -> nn.Module:
    """A classification network of torchvision by its name there, with random weights.

    Vision transformers need the `side` of their images in pixels if it is not 224."""
    import_torchvision()
    from torchvision.models import get_model

    options: dict[str, Any] = {"weights": None}
    if side is not None and name.startswith("vit_"):
        options["image_size"] = side
    if name in _WITHOUT_AUXILIARY_HEADS:
        options |= {"aux_logits": False, "init_weights": False}
    module: nn.Module = get_model(name, **options)
    return module


@contextmanager
def without_initial_values() -> Iterator[None]:
    """A context in which networks are built without drawing initial values.

    Drawing takes most of the time of building, and meta tensors have no values."""
    names = [name for name in dir(torch.nn.init) if name.endswith("_") and name[0] != "_"]
    before = {name: getattr(torch.nn.init, name) for name in names}
    try:
        for name in names:
            setattr(torch.nn.init, name, lambda tensor, *_, **__: tensor)
        yield
    finally:
        for name, function in before.items():
            setattr(torch.nn.init, name, function)


def make_fake(network: torch.nn.Module, mode: Any) -> None:
    """Replace the parameters and buffers of a network by fake tensors; shared ones stay shared."""
    swapped: dict[int, Any] = {}

    def fake(tensor: Any) -> Any:
        if id(tensor) not in swapped:
            copy = mode.from_tensor(tensor.detach())
            is_weight = isinstance(tensor, torch.nn.Parameter)
            fresh = torch.nn.Parameter(copy, tensor.requires_grad) if is_weight else copy
            swapped[id(tensor)] = (fresh, tensor)  # keep the old one: its id must stay its own
        return swapped[id(tensor)][0]

    for module in network.modules():
        for values in (module._parameters, module._buffers):
            for name, tensor in values.items():
                if tensor is not None:
                    values[name] = fake(tensor)


def _timm(info: NetworkInfo) -> nn.Module:
    import_torchvision()
    try:
        import timm
    except ImportError as error:
        raise MeasuringError(
            f"{info.name} comes from timm, which is not installed", hint=install_hint("zoo")
        ) from error
    module: nn.Module = timm.create_model(info.name, num_classes=info.classes)
    return module


def _segmentation(info: NetworkInfo) -> nn.Module:
    import_torchvision()
    from torchvision.models import get_model

    module: nn.Module = get_model(
        info.name, weights=None, weights_backbone=None, aux_loss=False, num_classes=info.classes
    )
    return module


def cifar10_cnn(classes: int) -> nn.Module:
    """The network of Keras's example cifar10_cnn.py, from images (batch, 3, 32, 32) to logits.

    Four 3x3 convolutions and two linear layers: 1,250,858 parameters and 20.7 million multiply-accumulates
    for ten classes."""
    return nn.Sequential(
        *_convolution_block(3, 32),
        *_convolution_block(32, 64),
        nn.Flatten(),
        nn.Linear(64 * 6 * 6, 512),
        nn.ReLU(inplace=True),
        nn.Dropout(0.5),
        nn.Linear(512, classes),
    )


def _convolution_block(channels: int, filters: int) -> list[nn.Module]:
    return [
        nn.Conv2d(channels, filters, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(filters, filters, 3),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
    ]


_BUILDERS: Mapping[str, Callable[[NetworkInfo], nn.Module]] = {
    "nasnetalarge": _timm,
    "cifar10_cnn": lambda info: cifar10_cnn(info.classes),
    "yolov3": lambda info: YoloV3(info.classes),
    "maskrcnn_resnet50_fpn": lambda info: mask_rcnn(info.classes),
    "deeplabv3_resnet50": _segmentation,
    "deeplabv3_resnet101": _segmentation,
    **dict.fromkeys(SIZES, lambda info: LanguageModel(info.classes, *SIZES[info.name])),
    "transformer_big": lambda info: TransformerBig(info.classes),
    "bert_base": lambda info: Pretraining(info.classes),
    "bert_base_squad": lambda info: QuestionAnswering(info.classes),
}
