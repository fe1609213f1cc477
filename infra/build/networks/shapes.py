"""Networks of the articles and common ones that no library here has, written from their papers to count their
operations.

Needs torch. They are not trained or checked against results: only shapes matter. Networks that learn against
another network do so in training, where `forward` is one step of both."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from advisor.models.zoo.bert import DecoderLayer, Encoder, EncoderLayer

_HALF = math.sqrt(0.5)


def _block(inputs: int, outputs: int, size: int, stride: int = 1) -> list[nn.Module]:
    return [
        nn.Conv2d(inputs, outputs, size, stride, size // 2),
        nn.InstanceNorm2d(outputs),
        nn.ReLU(inplace=True),
    ]


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*_block(width, width, 3), *_block(width, width, 3)[:2])

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Features of the same shape."""
        result: torch.Tensor = features + self.layers(features)
        return result


class _Patches(nn.Module):
    """A discriminator with patches of 70 pixels; the outputs of all its layers are compared."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        widths = [(channels, 64, 2), (64, 128, 2), (128, 256, 2), (256, 512, 1), (512, 1, 1)]
        self.layers = nn.ModuleList(nn.Conv2d(a, b, 4, stride, 2) for a, b, stride in widths)
        self.norm = nn.InstanceNorm2d(1)

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        """The outputs of every layer."""
        results = [functional.leaky_relu(self.layers[0](images), 0.2)]
        for layer in self.layers[1:-1]:
            results.append(functional.leaky_relu(functional.instance_norm(layer(results[-1])), 0.2))
        return [*results, self.layers[-1](results[-1])]


class Pix2PixHd(nn.Module):
    """Wang et al., arXiv:1711.11585: the global generator against two patch discriminators, with a loss on
    VGG-19's features."""

    def __init__(self, labels: int = 36) -> None:
        super().__init__()
        from advisor.models.zoo.building import build_torchvision

        widths = [64 * 2**place for place in range(5)]
        down = [part for low, high in pairwise(widths) for part in _block(low, high, 3, 2)]
        up: list[nn.Module] = []
        for low, high in pairwise(widths):
            up = [nn.ConvTranspose2d(high, low, 3, 2, 1, 1), *_block(low, low, 3)[1:], *up]
        middle = [_Residual(widths[-1]) for _ in range(9)]
        self.generator = nn.Sequential(
            *_block(labels, 64, 7), *down, *middle, *up, nn.Conv2d(64, 3, 7, padding=3), nn.Tanh()
        )
        self.discriminators = nn.ModuleList(_Patches(labels + 3) for _ in range(2))
        vgg: Any = build_torchvision("vgg19")
        self.compared = vgg.features[:30].requires_grad_(requires_grad=False)

    def forward(self, labels: torch.Tensor, images: torch.Tensor) -> list[torch.Tensor]:
        """Label maps to images; in training, the discriminators' outputs for these and for real `images`."""
        made = self.generator(labels)
        if not self.training:
            return [made]
        with torch.no_grad():
            wanted = self.compared(images)
        results = [self.compared(made) - wanted]
        for picture in (made, made.detach(), images):
            pair = torch.cat([labels, picture], 1)
            for discriminator in self.discriminators:
                results += discriminator(pair)
                pair = functional.avg_pool2d(pair, 3, 2, 1)
        return results


class _Styled(nn.Module):
    """A convolution with channels scaled by a style and outputs normalised to constant length."""

    def __init__(self, inputs: int, outputs: int, size: int = 3, *, up: bool = False) -> None:
        super().__init__()
        self.up, self.padding = up, size // 2
        self.weight = nn.Parameter(torch.empty(outputs, inputs, size, size))
        self.style = nn.Linear(512, inputs)
        self.bias = nn.Parameter(torch.empty(outputs, 1, 1))

    def forward(self, features: torch.Tensor, style: torch.Tensor) -> torch.Tensor:
        """Features styled by `style`, at twice the side if `up`."""
        scale = self.style(style)
        lengths = ((self.weight**2).sum((2, 3)) @ (scale**2).T).T.rsqrt()
        scaled = features * scale[:, :, None, None]
        if self.up:
            wide = functional.conv_transpose2d(scaled, self.weight.transpose(0, 1), stride=2, padding=1)
            result = _smoothed(functional.pad(wide, (0, 1, 0, 1)))
        else:
            result = functional.conv2d(scaled, self.weight, padding=self.padding)
        result = result * lengths[:, :, None, None]
        if self.padding:
            result = result + torch.randn_like(result[:, :1])
        return functional.leaky_relu(result + self.bias, 0.2) if self.padding else result + self.bias


def _smoothed(images: torch.Tensor, stride: int = 1) -> torch.Tensor:
    channels = images.shape[1]
    kernel = images.new_ones(channels, 1, 4, 4)
    return functional.conv2d(functional.pad(images, (2, 1, 2, 1)), kernel, stride=stride, groups=channels)


class _Narrowing(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first, self.second = (
            nn.Conv2d(inputs, inputs, 3, padding=1),
            nn.Conv2d(inputs, outputs, 3, 2, 1),
        )
        self.beside = nn.Conv2d(inputs, outputs, 1, bias=False)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Features at half the side."""
        hidden = functional.leaky_relu(self.first(features), 0.2)
        hidden = functional.leaky_relu(self.second(_smoothed(hidden)), 0.2)
        result: torch.Tensor = (hidden + self.beside(_smoothed(features, 2))) * _HALF
        return result


class StyleGan2(nn.Module):
    """Karras et al., arXiv:1912.04958, configuration F: a generator with skips against a residual
    discriminator, without the penalties that are applied every few steps."""

    def __init__(self, side: int) -> None:
        super().__init__()
        sides = [2**power for power in range(2, side.bit_length())]
        widths = [min(512, 32768 // each) for each in sides]
        self.mapping = nn.Sequential(
            *(nn.Sequential(nn.Linear(512, 512), nn.LeakyReLU(0.2)) for _ in range(8))
        )
        self.constant = nn.Parameter(torch.empty(1, 512, 4, 4))
        self.start = _Styled(512, 512)
        self.larger = nn.ModuleList(_Styled(a, b, up=True) for a, b in pairwise(widths))
        self.same = nn.ModuleList(_Styled(width, width) for width in widths[1:])
        self.colours = nn.ModuleList(_Styled(width, 3, 1) for width in widths)
        self.judge = nn.Sequential(
            nn.Conv2d(3, widths[-1], 1),
            nn.LeakyReLU(0.2),
            *(_Narrowing(high, low) for low, high in list(pairwise(widths))[::-1]),
            nn.Conv2d(512, 512, 3, padding=1),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
            nn.Linear(512 * 16, 512),
            nn.LeakyReLU(0.2),
            nn.Linear(512, 1),
        )

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        """As many new images as `images`; in training, the discriminator's outputs for both."""
        made = self._made(images)
        return [self.judge(each) for each in (made, made.detach(), images)] if self.training else [made]

    def _made(self, images: torch.Tensor) -> torch.Tensor:
        style = self.mapping(images.new_zeros(len(images), 512))
        features = self.start(self.constant.expand(len(images), -1, -1, -1), style)
        picture: torch.Tensor = self.colours[0](features, style)
        for larger, same, colour in zip(self.larger, self.same, self.colours[1:], strict=True):
            features = same(larger(features, style), style)
            picture = functional.interpolate(picture, scale_factor=2) + colour(features, style)
        return picture


class ConvS2s(nn.Module):
    """Gehring et al., arXiv:1705.03122, English to German: 15 layers per side, 40,000 word parts."""

    def __init__(self, vocabulary: int = 40_000, width: int = 768) -> None:
        super().__init__()
        layers = [(512, 3)] * 9 + [(1024, 3)] * 4 + [(2048, 1)] * 2
        pairs = list(pairwise([(512, 0), *layers]))
        self.words = nn.ModuleList(nn.Embedding(vocabulary, width) for _ in range(2))
        self.places = nn.ModuleList(nn.Embedding(1024, width) for _ in range(2))
        self.enter = nn.ModuleList(nn.Linear(width, 512) for _ in range(2))
        self.encoder, self.decoder = (
            nn.ModuleList(nn.Conv1d(low, 2 * high, size) for (low, _), (high, size) in pairs)
            for _ in range(2)
        )
        self.widened, self.widened_too = (
            nn.ModuleList(
                nn.Linear(low, high) if low != high else nn.Identity() for (low, _), (high, _) in pairs
            )
            for _ in range(2)
        )
        self.memory = nn.Linear(2048, width)
        self.asks = nn.ModuleList(nn.Linear(size, width) for size, _ in layers)
        self.answers = nn.ModuleList(nn.Linear(width, size) for size, _ in layers)
        self.leave, self.classifier = nn.Linear(2048, 512), nn.Linear(512, vocabulary)
        self.dropout = nn.Dropout(0.1)

    def _entered(self, place: int, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        at = torch.arange(words.shape[1], device=words.device)
        embedded = self.dropout(self.words[place](words) + self.places[place](at))
        return embedded, self.enter[place](embedded)

    def _convolved(self, layer: Any, hidden: torch.Tensor, *, causal: bool) -> torch.Tensor:
        before = layer.kernel_size[0] - 1
        padding = (before, 0) if causal else (before // 2, before // 2)
        wide = layer(functional.pad(self.dropout(hidden).transpose(1, 2), padding))
        return functional.glu(wide, 1).transpose(1, 2)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Words (batch, n) and (batch, m) to logits (batch, m, words)."""
        embedded, hidden = self._entered(0, source)
        for layer, widened in zip(self.encoder, self.widened, strict=True):
            hidden = (self._convolved(layer, hidden, causal=False) + widened(hidden)) * _HALF
        keys = self.memory(hidden)
        values = (keys + embedded) * _HALF
        wanted, hidden = self._entered(1, target)
        layers = zip(self.decoder, self.widened_too, self.asks, self.answers, strict=True)
        for layer, widened, ask, answer in layers:
            convolved = self._convolved(layer, hidden, causal=True)
            query = (ask(convolved) + wanted) * _HALF
            scores = torch.softmax(torch.bmm(query, keys.transpose(1, 2)), -1)
            attended = (answer(torch.bmm(scores, values)) + convolved) * _HALF
            hidden = (attended + widened(hidden)) * _HALF
        logits: torch.Tensor = self.classifier(self.dropout(self.leave(hidden)))
        return logits


class UnsupervisedMt(nn.Module):
    """Lample and Conneau, arXiv:1901.07291: six layers of 1024 per side, 60,000 word parts."""

    def __init__(self, vocabulary: int = 60_000, width: int = 1024) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(512, width)
        self.encoder = nn.ModuleList(
            EncoderLayer(width, 8, 4 * width, activation=functional.gelu) for _ in range(6)
        )
        self.decoder = nn.ModuleList(DecoderLayer(width, 8, 4 * width) for _ in range(6))
        self.dropout = nn.Dropout(0.1)

    def _entered(self, words: torch.Tensor) -> torch.Tensor:
        at = torch.arange(words.shape[1], device=words.device)
        entered: torch.Tensor = self.dropout(self.words(words) + self.places(at))
        return entered

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Words (batch, n) and (batch, m) to logits (batch, m, words)."""
        memory, hidden = self._entered(source), self._entered(target)
        for layer in self.encoder:
            memory = layer(memory)
        for layer in self.decoder:
            hidden = layer(hidden, memory)
        return functional.linear(hidden, self.words.weight)


class MtDnn(nn.Module):
    """Liu et al., arXiv:1901.11504: BERT base with the multi-step reasoning module for sentence pairs."""

    def __init__(self, classes: int = 3, steps: int = 5) -> None:
        super().__init__()
        self.encoder, self.steps = Encoder(30_522), steps
        self.summary, self.query = nn.Linear(768, 1), nn.Linear(768, 768)
        self.cell = nn.GRUCell(768, 768)
        self.classifier = nn.Linear(4 * 768, classes)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Words (batch, n), both sentences, to classes (batch, classes)."""
        premise, hypothesis = self.encoder(words).chunk(2, 1)
        state = (torch.softmax(self.summary(hypothesis), 1) * hypothesis).sum(1)
        results = []
        for _ in range(self.steps):
            weights = torch.softmax(torch.bmm(premise, self.query(state)[:, :, None]), 1)
            found = (weights * premise).sum(1)
            together = torch.cat([state, found, (state - found).abs(), state * found], 1)
            results.append(self.classifier(together))
            state = self.cell(found, state)
        return torch.stack(results).mean(0)


class _Twice(nn.Sequential):
    def __init__(self, inputs: int, outputs: int, dimensions: int) -> None:
        convolution: Any = (nn.Conv2d, nn.Conv3d)[dimensions - 2]
        norm: Any = (nn.BatchNorm2d, nn.InstanceNorm3d)[dimensions - 2]
        layers: list[nn.Module] = []
        for before in (inputs, outputs):
            layers += [convolution(before, outputs, 3, padding=1, bias=False), norm(outputs)]
            layers.append(nn.ReLU(inplace=True))
        super().__init__(*layers)


class _Unet(nn.Module):
    def __init__(self, channels: int, widths: tuple[int, ...], classes: int, dimensions: int):
        super().__init__()
        convolution: Any = (nn.Conv2d, nn.Conv3d)[dimensions - 2]
        transposed: Any = (nn.ConvTranspose2d, nn.ConvTranspose3d)[dimensions - 2]
        pool: Any = (nn.MaxPool2d, nn.MaxPool3d)[dimensions - 2]
        self.pool = pool(2)
        steps = list(pairwise((channels, *widths)))
        self.down = nn.ModuleList(_Twice(low, high, dimensions) for low, high in steps)
        up = [(high, low) for low, high in pairwise(widths)][::-1]
        self.widen = nn.ModuleList(transposed(high, low, 2, 2) for high, low in up)
        self.up = nn.ModuleList(_Twice(2 * low, low, dimensions) for _, low in up)
        self.head = convolution(widths[0], classes, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images to class maps of the same size."""
        kept: list[torch.Tensor] = []
        features = images
        for place, block in enumerate(self.down):
            features = block(self.pool(features) if place else features)
            kept.append(features)
        for widen, block, beside in zip(self.widen, self.up, kept[-2::-1], strict=True):
            features = block(torch.cat([beside, widen(features)], 1))
        classes: torch.Tensor = self.head(features)
        return classes


class UNet(_Unet):
    """Ronneberger et al., arXiv:1505.04597, padded and with batch normalisation: 31 M parameters."""

    def __init__(self) -> None:
        super().__init__(3, (64, 128, 256, 512, 1024), 2, 2)


class UNet3d(_Unet):
    """The 3D U-Net of MLPerf and nnU-Net: 32 to 320 channels, instance normalisation."""

    def __init__(self) -> None:
        super().__init__(1, (32, 64, 128, 256, 320, 320), 3, 3)


class Dlrm(nn.Module):
    """Naumov et al., arXiv:1906.00091, with MLPerf's layers; table sizes as for Kaggle."""

    pairs: torch.Tensor

    def __init__(self, rows: int = 1_300_000, width: int = 128) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width, sparse=True) for _ in range(26))
        self.bottom = _layers(13, 512, 256, width)
        pairs = 27 * 26 // 2
        self.top = _layers(pairs + width, 1024, 1024, 512, 256)
        self.head = nn.Linear(256, 1)
        self.pairs: torch.Tensor
        self.register_buffer("pairs", torch.zeros(pairs, dtype=torch.int64))

    def forward(self, numbers: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        """13 numbers and 26 categories per sample to a score."""
        dense = self.bottom(numbers)
        result = [table(categories[:, place]) for place, table in enumerate(self.tables)]
        vectors = torch.stack([dense, *result], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
        chosen = products.index_select(1, self.pairs)
        score: torch.Tensor = self.head(self.top(torch.cat([dense, chosen], 1)))
        return score


class Ncf(nn.Module):
    """Neural collaborative filtering (arXiv:1708.05031) on MovieLens-20M."""

    def __init__(self, users: int = 138_493, items: int = 26_744) -> None:
        super().__init__()
        self.tables = nn.ModuleList(
            nn.Embedding(rows, width) for width in (64, 128) for rows in (users, items)
        )
        self.layers = _layers(256, 256, 128, 64)
        self.head = nn.Linear(128, 1)

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        """Indices of users and items (batch) to a score."""
        entry, two, three, four = (
            table(place) for table, place in zip(self.tables, (user, item) * 2, strict=True)
        )
        mixed = self.layers(torch.cat([three, four], -1))
        score: torch.Tensor = self.head(torch.cat([entry * two, mixed], -1))
        return score


class Gnmt(nn.Module):
    """Wu et al., arXiv:1609.08144, with the four layers of NVIDIA's GNMT v2; all words at once."""

    def __init__(self, vocabulary: int = 32_320, width: int = 1024) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.both_ways = nn.LSTM(width, width, bidirectional=True, batch_first=True)
        self.first = nn.LSTM(2 * width, width, batch_first=True)
        self.encoder = nn.ModuleList(nn.LSTM(width, width, batch_first=True) for _ in range(2))
        self.start = nn.LSTM(width, width, batch_first=True)
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.energy = nn.Linear(width, 1)
        self.decoder = nn.ModuleList(nn.LSTM(2 * width, width, batch_first=True) for _ in range(3))
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(width, vocabulary)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Words (batch, n) and (batch, m) to logits (batch, m, words)."""
        memory, _ = self.both_ways(self.embedding(source))
        memory, _ = self.first(self.dropout(memory))
        for layer in self.encoder:
            memory = memory + layer(self.dropout(memory))[0]
        hidden, _ = self.start(self.embedding(target))
        summed = self.query(hidden)[:, :, None] + self.key(memory)[:, None]
        scores = self.energy(torch.tanh(summed))[..., 0]
        attended = torch.bmm(torch.softmax(scores, -1), memory)
        for place, layer in enumerate(self.decoder):
            mixed = layer(self.dropout(torch.cat([hidden, attended], -1)))[0]
            hidden = mixed + hidden if place else mixed
        logits: torch.Tensor = self.classifier(hidden)
        return logits


class DeepSpeech2(nn.Module):
    """Amodei et al., arXiv:1512.02595, with five bidirectional LSTMs of width 1024, on 8 s of sound."""

    def __init__(self, hidden: int = 1024, letters: int = 29) -> None:
        super().__init__()
        self.sound = nn.Sequential(
            nn.Conv2d(1, 32, (41, 11), (2, 2), (20, 5), bias=False),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20, inplace=True),
            nn.Conv2d(32, 32, (21, 11), (2, 1), (10, 5), bias=False),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20, inplace=True),
        )
        self.layers = nn.ModuleList(
            nn.LSTM(2 * hidden if place else 32 * 41, hidden, bidirectional=True, batch_first=True)
            for place in range(5)
        )
        self.head = nn.Linear(2 * hidden, letters)

    def forward(self, spectrogram: torch.Tensor) -> torch.Tensor:
        """Spectrograms (batch, 1, 161, frames) to letters (batch, frames / 2, letters)."""
        hidden = self.sound(spectrogram).flatten(1, 2).transpose(1, 2)
        for layer in self.layers:
            hidden, _ = layer(hidden)
        letters: torch.Tensor = self.head(hidden)
        return letters


def resnet18_cifar() -> nn.Module:
    """ResNet-18 for images of 32 pixels: a 3 x 3 stem without pooling."""
    from advisor.models.zoo.building import build_torchvision

    network: Any = build_torchvision("resnet18")
    network.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    network.maxpool = nn.Identity()
    network.fc = nn.Linear(512, 10)
    module: nn.Module = network
    return module


def _layers(*widths: int) -> nn.Sequential:
    parts: list[nn.Module] = []
    for low, high in pairwise(widths):
        parts += [nn.Linear(low, high), nn.ReLU()]
    return nn.Sequential(*parts)
