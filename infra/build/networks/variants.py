"""What the table has: networks of libraries at the inputs that people use."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from advisor.models.zoo.step_facts import Subject

# Sides that plain vision transformers are fine-tuned at.
_VIT_SIDES = (224, 384)


class Variant(Struct, frozen=True, kw_only=True):
    """One network at one input: a line of networks.csv.

    `input` is `3x224x224` (an image), `seq:128` (tokens) or another tensor's sizes. `sample` is
    what one row of a batch is called, `data` what it is made of: image, tokens or tensor.
    `aliases` are other names that find it. `subject` makes what is captured.
    """

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
        """Names the variant, in file names too."""
        return f"{self.library}/{self.name}@{self.input}"


class ImageClassifier(Struct, frozen=True):
    """A classifier of torchvision or timm on square images, trained by cross entropy."""

    library: str
    name: str
    side: int

    def build(self) -> Any:
        """See `Subject`."""
        from advisor.infra.build.networks.libraries import build_library_network

        return build_library_network(self.library, self.name, self.side)

    def synthetic_batch(self, batch_size: int, device: str = "cpu") -> tuple[Any, Any]:
        """See `Subject`."""
        import torch

        images = torch.empty(batch_size, 3, self.side, self.side, device=device)
        return images, torch.zeros(batch_size, dtype=torch.int64, device=device)

    def forward(self, network: Any, inputs: Any) -> Any:
        """See `Subject`."""
        return network(inputs)

    def training_loss(self, network: Any, inputs: Any, targets: Any) -> Any:
        """See `Subject`."""
        import torch

        outputs = network(inputs)
        logits = outputs[0] if isinstance(outputs, tuple | list) else outputs
        if logits.ndim != 2:  # an encoder, which has no classes
            return logits.float().mean()
        return torch.nn.functional.cross_entropy(logits, targets)


def image_variant(library: str, name: str, side: int, aliases: Sequence[str] = ()) -> Variant:
    """A classifier at images of that side."""
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
    """All of timm at the sizes of its weights, and plain vision transformers at usual ones.

    `aliases` are names that timm had before, with today's.
    """
    from advisor.infra.build.networks.libraries import library_names, timm_default_side, timm_sizes

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
    """Each variant once, the first of a key."""
    return list({variant.key: variant for variant in reversed(variants)}.values())[::-1]
