"""The table's variants: library networks, by their original names, at the inputs that people use."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from operator import call
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from advisor.errors import MeasuringError, UsageError, unknown_name
from advisor.extras import install_hint
from advisor.infra.build.networks.building import build_on_meta, quiet
from advisor.models.zoo.building import build_torchvision, without_initial_values
from advisor.models.zoo.torchvision_operators import import_torchvision

if TYPE_CHECKING:
    import torch

    from advisor.models.zoo.step_facts import Subject


LIBRARIES = ("torchvision", "timm")
# Suffix for a network whose branches are folded into one convolution after training (RepVGG, ..).
FOLDED = "+folded"
_CLASSES = 1000


def build_library_network(library: str, name: str, side: int, *, on_meta: bool = True) -> torch.nn.Module:
    """The network on the meta device, or with values, for square images of `side` pixels and 1000 classes.

    `library` is one of `LIBRARIES`; names of timm may have a tag of weights (`name.tag`) and end in
    `+folded`. Raises `UsageError` for an unknown name or an unsupported size, `MeasuringError` if the library
    is not installed."""
    build = build_on_meta if on_meta else call
    with without_initial_values() if on_meta else nullcontext(), quiet():
        if library == "torchvision":
            return _torchvision(name, side, build)
        return _timm(name, side, build)


def library_names(library: str) -> tuple[str, ...]:
    """Classifiers that the library has, sorted; for timm without tags and old aliases."""
    if library == "torchvision":
        # Only classifiers: other builders download weights of their backbones.
        models = import_torchvision().models
        return tuple(sorted(models.list_models(module=models)))
    return tuple(sorted(_import_timm().list_models()))


def timm_sizes(name: str) -> tuple[int, ...]:
    """Image sides that timm's weights of this network are made for."""
    result = _import_timm().models.get_arch_pretrained_cfgs(name).values()
    shapes = [shape for entry in result for shape in (entry.input_size, entry.test_input_size)]
    return tuple(sorted({shape[-1] for shape in shapes if shape}))


def timm_default_side(name: str) -> int:
    """Image side that timm's default weights of this network are made for."""
    configured = _import_timm().models.get_pretrained_cfg(name)
    return int(configured.input_size[-1]) if configured and configured.input_size else 224


def timm_aliases() -> dict[str, str]:
    """Old names of timm, and the network that each name stands for now."""
    _import_timm()
    from timm.models import _registry

    old = _registry.get_deprecated_models()
    return {name: str(now).partition(".")[0] for name, now in sorted(old.items()) if now}


def _torchvision(name: str, side: int, build: Callable[[Callable[[], Any]], Any]) -> torch.nn.Module:
    existing = library_names("torchvision")
    if name not in existing:
        raise unknown_name("network of torchvision", name, existing)
    module: torch.nn.Module = build(lambda: build_torchvision(name, side))
    return module


def _timm(name: str, side: int, build: Callable[[Callable[[], Any]], Any]) -> torch.nn.Module:
    timm = _import_timm()
    plain = name.removesuffix(FOLDED).partition(".")[0]
    if not timm.is_model(plain):
        raise unknown_name("network of timm", plain, timm.list_models())
    try:
        module: torch.nn.Module = build(lambda: _at_size(timm, plain, side))
    except Exception as error:
        raise UsageError(
            "timm cannot build {plain} for {side} pixels ({error})", plain=plain, side=side, error=error
        ) from error
    if name.endswith(FOLDED):
        module = timm.utils.reparameterize_model(module)
    return module


def _at_size(timm: Any, name: str, side: int) -> Any:
    """The timm network for this image side, which only networks with position tables take."""
    usual = timm_default_side(name)
    if side != usual:
        try:
            return timm.create_model(name, num_classes=_CLASSES, img_size=side)
        except TypeError:
            pass
    return timm.create_model(name, num_classes=_CLASSES)


def _import_timm() -> Any:
    import_torchvision()
    try:
        import timm
        import timm.utils
    except ImportError as error:
        raise MeasuringError("timm is not installed", hint=install_hint("zoo")) from error
    return timm


# Image sides at which plain vision transformers are fine-tuned.
_VIT_SIDES = (224, 384)


class Variant(Struct, frozen=True, kw_only=True):
    """One network at one input: a line of networks.csv.

    `input` is `3x224x224` (an image), `seq:128` (tokens) or another tensor's sizes. `sample` is the name of
    one row of a batch, `data` its kind: image, tokens or tensor. `aliases` are other names that find the
    network. `subject` builds what is captured."""

    library: str
    name: str
    input: str
    sample: str
    data: str
    subject: Callable[[], Subject]
    aliases: tuple[str, ...] = ()
    family: str = ""
    training: bool = True

    @property
    def key(self) -> str:
        """Identifies the variant, also in file names."""
        return f"{self.library}/{self.name}@{self.input}"


class ImageClassifier(Struct, frozen=True):
    """A classifier of torchvision or timm on square images, trained by cross entropy."""

    library: str
    name: str
    side: int

    def build(self) -> Any:
        """Build the network."""
        return build_library_network(self.library, self.name, self.side)

    def synthetic_batch(self, batch_size: int, device: str = "cpu") -> tuple[Any, Any]:
        """Make inputs and targets on the device."""
        import torch

        images = torch.empty(batch_size, 3, self.side, self.side, device=device)
        return images, torch.zeros(batch_size, dtype=torch.int64, device=device)

    def forward(self, network: Any, inputs: Any) -> Any:
        """The network's outputs for the inputs."""
        return network(inputs)

    def training_loss(self, network: Any, inputs: Any, targets: Any) -> Any:
        """The scalar loss of the inputs and targets."""
        import torch

        outputs = network(inputs)
        logits = outputs[0] if isinstance(outputs, tuple | list) else outputs
        if logits.ndim != 2:  # an encoder, which has no classes
            return logits.float().mean()
        return torch.nn.functional.cross_entropy(logits, targets)


def image_variant(library: str, name: str, side: int, aliases: Sequence[str] = ()) -> Variant:
    """An image classifier at this side."""
    return Variant(
        library=library,
        name=name,
        input=f"3x{side}x{side}",
        sample="image",
        data="image",
        aliases=tuple(aliases),
        subject=lambda: ImageClassifier(library, name, side),
    )


def timm_variants(aliases: Mapping[str, str]) -> list[Variant]:
    """All timm networks at the sizes of their weights, and plain vision transformers at common sizes.

    `aliases` maps timm's old names to today's."""
    from advisor.infra.build.networks.variants import library_names, timm_default_side, timm_sizes

    before: dict[str, list[str]] = defaultdict(list)
    for old, now in aliases.items():
        before[now].append(old)
    result = []
    for name in library_names("timm"):
        usual = timm_default_side(name)
        sides = dict.fromkeys([usual, *timm_sizes(name), *_more_sides(name)])
        result += [image_variant("timm", name, side, before[name]) for side in sides]
    return result


def _more_sides(name: str) -> tuple[int, ...]:
    return _VIT_SIDES if re.fullmatch(r"(vit|deit3?)_(tiny|small|base|large)_patch16_\d+", name) else ()


def unique(variants: Sequence[Variant]) -> list[Variant]:
    """Each variant once: the first with each key."""
    return list({variant.key: variant for variant in reversed(variants)}.values())[::-1]
