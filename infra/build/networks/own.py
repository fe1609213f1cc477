"""Networks that the advisor builds: the articles' networks, and some that no library has."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct

from advisor.infra.build.networks.variants import Variant

# Networks of the zoo that torchvision and timm lack.
_OF_THE_ZOO = (
    "cifar10_cnn",
    "yolov3",
    "lstm_ptb_small",
    "lstm_ptb_medium",
    "lstm_ptb_large",
    "transformer_big",
    "bert_base",
    "bert_base_squad",
)
_YOLO_SIDES = (640, 320, 1280)


class OfTheZoo(Struct, frozen=True):
    """A network of `advisor.models.zoo`, by its name."""

    name: str

    def build(self) -> Any:
        """Build the network."""
        return self._runnable().build()

    def synthetic_batch(self, batch_size: int, device: str = "cpu") -> tuple[Any, Any]:
        """Make inputs and targets on the device."""
        batch: tuple[Any, Any] = self._runnable().synthetic_batch(batch_size, device)
        return batch

    def forward(self, network: Any, inputs: Any) -> Any:
        """The network's outputs for the inputs."""
        return self._runnable().forward(network, inputs)

    def training_loss(self, network: Any, inputs: Any, targets: Any) -> Any:
        """The scalar loss of the inputs and targets."""
        return self._runnable().training_loss(network, inputs, targets)

    def _runnable(self) -> Any:
        from advisor.models.zoo.opening import open_network

        return open_network(self.name)


class Plain(Struct, frozen=True):
    """A module with one or several input tensors, whose loss is the mean of its output."""

    make: Callable[[], Any]
    sizes: tuple[tuple[int, ...], ...]
    numbers: tuple[int, ...] = ()

    def build(self) -> Any:
        """Build the network."""
        return self.make()

    def synthetic_batch(self, batch_size: int, device: str = "cpu") -> tuple[Any, Any]:
        """Float inputs, but integers at the positions in `numbers`."""
        import torch

        def tensor(place: int, sizes: tuple[int, ...]) -> Any:
            kind = torch.int64 if place in self.numbers else torch.float32
            return torch.zeros(batch_size, *sizes, dtype=kind, device=device)

        return tuple(tensor(place, sizes) for place, sizes in enumerate(self.sizes)), None

    def forward(self, network: Any, inputs: Any) -> Any:
        """The network's outputs for the inputs."""
        return network(*inputs)

    def training_loss(self, network: Any, inputs: Any, targets: Any) -> Any:
        """The mean of what the module outputs."""
        from advisor.models.zoo.kernels import tensors_in

        del targets
        return sum(entry.float().mean() for entry in tensors_in(network(*inputs)))


def own_variants() -> list[Variant]:
    """The articles' networks, YOLO's families, and common shapes of others."""
    return [*map(_of_the_zoo, _OF_THE_ZOO), *_yolo(), *_others()]


def _of_the_zoo(name: str) -> Variant:
    from advisor.models.zoo.networks import network_info

    info = network_info(name)
    images = info.takes_images
    shape = "x".join(map(str, info.input_shape)) if images else f"seq:{info.input_shape[-1]}"
    return Variant(
        library="advisor",
        name=name,
        input=shape,
        sample="image" if images else "sequence",
        data="image" if images else "tokens",
        subject=lambda: OfTheZoo(name),
    )


def _yolo() -> list[Variant]:
    from advisor.infra.build.networks.yolo_family import V5_SIZES, Yolo

    def variant(version: int, size: str, side: int) -> Variant:
        return Variant(
            library="advisor",
            name=f"yolov{version}{size}",
            input=f"3x{side}x{side}",
            sample="image",
            data="image",
            family=f"yolo_v{version}",
            subject=lambda: Plain(lambda: Yolo(version, size), ((3, side, side),)),
        )

    return [variant(version, size, side) for version in (5, 8) for size in V5_SIZES for side in _YOLO_SIDES]


def _others() -> list[Variant]:
    from advisor.infra.build.networks import shapes

    def variant(
        name: str,
        shape: str,
        make: Callable[[], Any],
        *sizes: tuple[int, ...],
        numbers: tuple[int, ...] = (),
        kind: tuple[str, str] = ("sequence", "tokens"),
        aliases: tuple[str, ...] = (),
    ) -> Variant:
        subject, (sample, data) = Plain(make, sizes, numbers), kind
        return Variant(
            library="advisor",
            name=name,
            input=shape,
            sample=sample,
            data=data,
            aliases=aliases,
            subject=lambda: subject,
        )

    image, row, both = ("image", "image"), ("sample", "tensor"), (0, 1)
    volume, scene = (1, 128, 128, 128), ("image", "tensor")
    cifar, style = shapes.resnet18_cifar, shapes.StyleGan2
    return [
        *(
            variant("unet", f"3x{n}x{n}", shapes.UNet, (3, n, n), kind=image, aliases=("u-net",))
            for n in (512, 256)
        ),
        variant(
            "unet3d",
            "1x128x128x128",
            shapes.UNet3d,
            volume,
            kind=row,
            aliases=("3d-unet", "u-net-3d", "nnunet"),
        ),
        variant("dlrm", "13+26", shapes.Dlrm, (13,), (26,), numbers=(1,), kind=row, aliases=("dlrm-mlperf",)),
        variant("ncf", "2", shapes.Ncf, (), (), numbers=both, kind=row, aliases=("neumf",)),
        *(variant("gnmt", f"seq:{n}", shapes.Gnmt, (n,), (n,), numbers=both) for n in (50, 25)),
        variant("deepspeech2", "161x800", shapes.DeepSpeech2, (1, 161, 800), kind=("sequence", "tensor")),
        variant("resnet18_cifar", "3x32x32", cifar, (3, 32, 32), kind=image, aliases=("resnet18-cifar10",)),
        *(
            variant(
                "pix2pixhd", f"36x{n}x{2 * n}", shapes.Pix2PixHd, (36, n, 2 * n), (3, n, 2 * n), kind=scene
            )
            for n in (512, 1024)
        ),
        *(
            variant(
                "stylegan2", f"3x{n}x{n}", partial(style, n), (3, n, n), kind=image, aliases=("stylegan",)
            )
            for n in (256, 512, 1024)
        ),
        *(
            variant(name, f"seq:{n}", make, (n,), (n,), numbers=both, aliases=(alias,))
            for name, make, alias in (
                ("convs2s", shapes.ConvS2s, "fconv"),
                ("unsupmt", shapes.UnsupervisedMt, "xlm-unsupmt"),
            )
            for n in (50, 25)
        ),
        *(variant("mt-dnn", f"seq:{n}", shapes.MtDnn, (n,), numbers=(0,)) for n in (128, 384)),
    ]
