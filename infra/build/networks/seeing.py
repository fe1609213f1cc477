"""torchvision's networks: classifiers, and networks for segmentation, detection, video and optical flow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from advisor.infra.build.networks.variants import Variant, image_variant

# Image sides that torchvision's weights are made for, where it is not 224.
_SIDES = {
    "inception_v3": (299,),
    "googlenet": (224,),
    "vit_h_14": (224, 518),
    "maxvit_t": (224,),
    "vit_b_16": (224, 384),
    "vit_l_16": (224, 512),
    "regnet_y_16gf": (224, 384),
    "regnet_y_32gf": (224, 384),
    "regnet_y_128gf": (224, 384),
    "efficientnet_b0": (224,),
    "efficientnet_b1": (240, 224),
    "efficientnet_b2": (288, 224, 260),
    "efficientnet_b3": (300, 224),
    "efficientnet_b4": (380, 224),
    "efficientnet_b5": (456, 224),
    "efficientnet_b6": (528, 224),
    "efficientnet_b7": (600, 224),
    "efficientnet_v2_s": (384, 224, 300),
    "efficientnet_v2_m": (480, 224, 384),
    "efficientnet_v2_l": (480, 224, 384),
    "swin_v2_t": (256,),
    "swin_v2_s": (256,),
    "swin_v2_b": (256,),
    "resnet50": (224, 176, 288),
    "resnet18": (224, 176, 288),
}
_SIDE = 224
_SEGMENTED = ((513, 513), (520, 520), (512, 1024))
_DETECTED = ((800, 800), (800, 1333), (800, 1066), (640, 640))
_FIXED = {
    "ssd300_vgg16": ((300, 300),),
    "ssdlite320_mobilenet_v3_large": ((320, 320),),
    "fasterrcnn_mobilenet_v3_large_320_fpn": ((320, 320),),
}
_FILMS = {"r3d_18": (16, 112), "mc3_18": (16, 112), "r2plus1d_18": (16, 112)}
_FILM = (16, 224)
# Regions that torchvision keeps per image: proposals in inference, a sample of them in training, and those
# that get a mask or keypoints (a quarter of that sample in training).
_PROPOSALS, _SAMPLED, _FINDINGS, _POSITIVE = 1000, 512, 100, 128
_BINS, _FINE_BINS = 7, 14

# MLPerf's detector, which torchvision can build but does not list: Open Images has 264 classes.
_MLPERF, _MLPERF_CLASSES = "retinanet-resnext50-fpn", 264
# Networks whose backbone has separate pretrained weights.
_ON_BACKBONES = ("deeplab", "fcn_", "lraspp", "rcnn", "retinanet", "ssd", "fcos")
# The trained layers of a pretrained ResNet backbone: torchvision's default for detectors.
_TUNED = ("layer2", "layer3", "layer4")


def _as_tuned(network: Any) -> Any:
    """A detector as it is fine-tuned: its ResNet has frozen statistics and two frozen stages."""
    from torch import nn
    from torchvision.ops.misc import FrozenBatchNorm2d

    body = getattr(getattr(network, "backbone", None), "body", None)
    if body is None or "layer4" not in body:
        return network
    for name, parameter in body.named_parameters():
        parameter.requires_grad_(name.startswith(_TUNED))
    for module in list(body.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.BatchNorm2d):
                setattr(module, name, FrozenBatchNorm2d(child.num_features))
    return network


def _retinanet_on_resnext() -> Any:
    from torchvision.models.detection import RetinaNet
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
    from torchvision.ops.feature_pyramid_network import LastLevelP6P7

    levels, extra = [2, 3, 4], LastLevelP6P7(256, 256)
    backbone = resnet_fpn_backbone(
        backbone_name="resnext50_32x4d", weights=None, returned_layers=levels, extra_blocks=extra
    )
    return RetinaNet(backbone, _MLPERF_CLASSES)


def _shape(*sizes: int) -> str:
    return "x".join(map(str, sizes))


class Seeing(Struct, frozen=True):
    """A torchvision network that is not an image classifier; `sizes` exclude the batch."""

    name: str
    sizes: tuple[int, ...]

    def build(self) -> Any:
        """Build the network."""
        from advisor.models.zoo.torchvision_operators import import_torchvision

        import_torchvision()
        from torchvision.models import get_model

        if self.name == _MLPERF:
            return _as_tuned(_retinanet_on_resnext())
        if any(part in self.name for part in _ON_BACKBONES):
            return _as_tuned(get_model(self.name, weights=None, weights_backbone=None))
        return get_model(self.name, weights=None)

    def synthetic_batch(self, batch_size: int, device: str = "cpu") -> tuple[Any, Any]:
        """Make inputs and targets on the device."""
        import torch

        return torch.empty(batch_size, *self.sizes, device=device), None

    def forward(self, network: Any, inputs: Any) -> Any:
        """The network's outputs for the inputs."""
        return network(inputs)

    def training_loss(self, network: Any, inputs: Any, targets: Any) -> Any:
        """Cross entropy over classes, which are dimension 1 of the outputs."""
        import torch

        del targets
        outputs = network(inputs)
        logits = outputs["out"] if isinstance(outputs, Mapping) else outputs
        places = (len(logits), *logits.shape[2:])
        classes = torch.zeros(places, dtype=torch.int64, device=logits.device)
        return torch.nn.functional.cross_entropy(logits, classes)


class Flow(Seeing, frozen=True):
    """Optical flow between two images; `sizes` are those of one image."""

    def forward(self, network: Any, inputs: Any) -> Any:
        """The network's outputs for the inputs."""
        return network(inputs, inputs)

    def training_loss(self, network: Any, inputs: Any, targets: Any) -> Any:
        """The mean over all refinements."""
        del targets
        return sum(flow.mean() for flow in network(inputs, inputs))


class Detector(Seeing, frozen=True):
    """A detector's dense parts, with the largest number of boxes that torchvision lets through to each.

    Which boxes reach the heads depends on the image, so selecting them is left out: it is cheap, and an
    untrained network does not select realistically."""

    def forward(self, network: Any, inputs: Any) -> Any:
        """The network's outputs for the inputs."""
        levels = _levels(network, inputs)
        if not hasattr(network, "rpn"):
            return list(network.head(levels).values())
        scores, boxes = network.rpn.head(levels)
        heads, training = network.roi_heads, network.training
        regions = _regions(levels, _SAMPLED if training else _PROPOSALS, _BINS)
        results = [*scores, *boxes, *heads.box_predictor(heads.box_head(regions))]
        result = _POSITIVE if training else _FINDINGS
        for kind in ("mask", "keypoint"):
            if getattr(heads, f"{kind}_head", None) is not None:
                regions = _regions(levels, result, _FINE_BINS)
                outlined = getattr(heads, f"{kind}_head")(regions)
                results.append(getattr(heads, f"{kind}_predictor")(outlined))
        return results

    def training_loss(self, network: Any, inputs: Any, targets: Any) -> Any:
        """The mean of all predictions; for the classes of every anchor, torchvision's loss, which keeps
        several copies of them."""
        del targets
        if hasattr(network, "rpn"):
            return sum(entry.float().mean() for entry in self.forward(network, inputs))
        outputs = network.head(_levels(network, inputs))
        classes = outputs.pop("cls_logits").clone()  # the anchors that count
        return sum(entry.float().mean() for entry in outputs.values()) + self._class_loss(classes)

    def _class_loss(self, classes: Any) -> Any:
        from torch.nn.functional import cross_entropy
        from torchvision.ops import sigmoid_focal_loss

        if self.name.startswith("ssd"):
            return cross_entropy(classes.flatten(0, 1), classes[..., 0].flatten().long())
        return sigmoid_focal_loss(classes, classes.new_zeros(classes.shape), reduction="sum")


def _levels(network: Any, inputs: Any) -> list[Any]:
    features = network.backbone(inputs)
    return list(features.values()) if isinstance(features, Mapping) else [features]


def _regions(levels: list[Any], boxes: int, bins: int) -> Any:
    """Features (batch x boxes, channels, bins, bins) looked up in the finest level, like regions of boxes."""
    import torch

    flat = levels[0].flatten(2)
    places = torch.zeros(boxes * bins * bins, dtype=torch.int64, device=flat.device)
    looked_up = flat.index_select(2, places)
    rows, channels = flat.shape[:2]
    result = looked_up.unflatten(2, (boxes, bins * bins)).transpose(1, 2)
    return result.reshape(rows * boxes, channels, bins, bins)


def torchvision_variants() -> list[Variant]:
    """All networks that torchvision lists, except its quantised ones."""
    from advisor.infra.build.networks.variants import library_names
    from advisor.models.zoo.torchvision_operators import import_torchvision

    models = import_torchvision().models
    classifiers = [
        image_variant("torchvision", name, side)
        for name in library_names("torchvision")
        for side in _SIDES.get(name, (_SIDE,))
    ]
    others: list[Variant] = []
    for name in models.list_models(module=models.segmentation):
        others += [_seeing(Seeing, name, (3, *size), "image") for size in _SEGMENTED]
    for name in models.list_models(module=models.detection):
        sizes = _FIXED.get(name, _DETECTED)
        others += [_seeing(Detector, name, (3, *size), "image") for size in sizes]
    others.append(_seeing(Detector, _MLPERF, (3, 800, 800), "image"))
    for name in models.list_models(module=models.video):
        frames, side = _FILMS.get(name, _FILM)
        others.append(_seeing(Seeing, name, (3, frames, side, side), "clip"))
    for name in models.list_models(module=models.optical_flow):
        others.append(_seeing(Flow, name, (3, 520, 960), "image"))
    return classifiers + others


def _seeing(kind: type[Seeing], name: str, sizes: tuple[int, ...], sample: str) -> Variant:
    return Variant(
        library="torchvision",
        name=name,
        input=_shape(*sizes),
        sample=sample,
        data="image" if sample == "image" else "tensor",
        subject=lambda: kind(name, sizes),
    )
