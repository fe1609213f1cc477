"""Networks of transformers with their checkpoints' configurations: nothing is downloaded.

`encoders.json` has families of one class: their checkpoints' public config.json (without the class's default
values), the inputs that people use, and other names."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from advisor.infra.build.networks.variants import Variant

Config = Mapping[str, Any]
Shapes = Mapping[str, Sequence[int]]

# The last stages of a detector's backbone are trained. transformers freezes the others of its ResNet by names
# that only timm's ResNet has.
_TUNED = re.compile(r"backbone\..*\.stages\.[1-3]\.")
_MANY_CLASSES = 1000


class Encoder(Struct, frozen=True):
    """A class of transformers with a configuration, and its input sizes by name.

    Inputs whose names end in `ids` are integers, others floats."""

    model: str
    config: Config
    takes: Shapes

    def build(self) -> Any:
        """Build the network."""
        import transformers

        made: Any = getattr(transformers, self.model)
        network = made(_config(made.config_class, self.config))
        for name, parameter in network.named_parameters():
            if _TUNED.search(name):
                parameter.requires_grad_(True)
        return network

    def synthetic_batch(self, batch_size: int, device: str = "cpu") -> tuple[Any, Any]:
        """Make inputs and targets on the device."""
        import torch

        def tensor(name: str, shape: Sequence[int]) -> Any:
            kind = torch.int64 if name.endswith(("ids", "mask")) else torch.float32
            return torch.ones(batch_size, *shape, dtype=kind, device=device)

        return {name: tensor(name, shape) for name, shape in self.takes.items()}, None

    def forward(self, network: Any, inputs: Any) -> Any:
        """The network's outputs for the inputs."""
        return network(**inputs)

    def training_loss(self, network: Any, inputs: Any, targets: Any) -> Any:
        """Cross entropy over a vocabulary if there is one, else the mean of the first output."""
        import torch

        del targets
        outputs = network(**inputs)
        first = _first(outputs)
        if first.ndim == 3 and first.shape[-1] > _MANY_CLASSES and "logits" in outputs:
            logits = first.flatten(0, 1)
            classes = torch.zeros(len(logits), dtype=torch.int64, device=logits.device)
            return torch.nn.functional.cross_entropy(logits, classes)
        return sum(value_.float().mean() for value_ in _floats(outputs))


def _config(made: Any, values: Config) -> Any:
    """Make a configuration and those nested in it, such as a backbone's or those of text and images."""
    import transformers

    plain = dict(values)
    for name, value in values.items():
        if isinstance(value, Mapping) and "class" in value:
            inner = dict(value)
            plain[name] = _config(getattr(transformers, inner.pop("class")), inner)
    return made(**plain)


def _floats(outputs: Any) -> list[Any]:
    """All float outputs that need a gradient: the loss of a network with several outputs uses them."""
    from advisor.models.zoo.kernels import tensors_in

    values = outputs.to_tuple() if hasattr(outputs, "to_tuple") else outputs
    return [entry for entry in tensors_in(values) if entry.requires_grad and entry.is_floating_point()]


def _first(outputs: Any) -> Any:
    from advisor.models.zoo.kernels import tensors_in

    if "logits" in outputs:
        return outputs["logits"]
    return next(tensors_in(outputs.to_tuple()))


def transformers_variants() -> list[Variant]:
    """Encoders and encoder-decoders of text, images and speech, and small language models: every checkpoint
    of `encoders.json` at every input of its family, or at its specific inputs."""
    families = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return [
        _variant(family, checkpoint, shape, takes)
        for family in families
        for checkpoint in family["checkpoints"]
        for shape, takes in checkpoint.get("inputs") or family["inputs"]
    ]


def _variant(family: Config, checkpoint: Config, shape: str, takes: Shapes) -> Variant:
    model, config = family["model"], {**family["common"], **checkpoint["config"]}
    return Variant(
        library="transformers",
        name=checkpoint["name"],
        input=shape,
        sample=family["sample"],
        data=family["data"],
        aliases=tuple(checkpoint["aliases"]),
        subject=lambda: Encoder(model, config, takes),
    )
