"""D01 to D05: the workstation test (article A2)."""

from __future__ import annotations

from typing import Any

from advisor.catalog import load_catalog
from benchmarks.claims.predicting import gpu_rate
from benchmarks.claims.words import Finding, Kind, Verdict, agrees_if, out_of_scope, published_points

_IMAGES = 1_281_167
_CARD_MIB = 48_601


def d01() -> Finding:
    """What deviceQuery tells of an RTX 8000."""
    gpu = load_catalog().gpus["Quadro RTX 8000"]
    return Finding(
        kind=Kind.PUBLISHED,
        verdict=Verdict.PARTLY,
        ours=f"catalogue: {gpu.memory_mib:,} MiB nominal, {gpu.fp32_tflops:.1f} TFLOP/s, "
        f"{gpu.memory_gb_per_second:g} GB/s",
        why=f"The usable {_CARD_MIB:,} MiB of deviceQuery are 1.1 % less than nominal. `advisor "
        "probe` prints deviceQuery's fields (memory, multiprocessors, clocks, bus, cache) where "
        "there is a GPU; there was none here.",
    )


def d02() -> Finding:
    """ResNet-50 on ImageNet in 3.5 hours on two RTX 8000."""
    rate = gpu_rate("resnet50", "Quadro RTX 8000", 64)
    published = published_points()["resnet50_rtx8000_fp32"]
    epochs = 3.5 * 3600 * 2 * rate / _IMAGES
    return Finding(
        kind=Kind.MODELLED,
        verdict=Verdict.PARTLY,
        ours=f"{rate:.0f} images/s a card in fp32 (published {published:.0f}): 3.5 h on two are "
        f"{epochs:.1f} epochs",
        why="So 3.5 h is no full training of 90 epochs, if the network is the usual one. The "
        "article's batch 5000 contradicts its own out-of-memory at 512, and the CIFAR-10 CNN has "
        "no published GPU rate.",
        numbers={"images_per_second": round(rate, 1), "epochs": round(epochs, 2)},
    )


def d03() -> Finding:
    """YOLOv3's 50,020 iterations in 5 and 34 hours."""
    voc, coco = (50_020 / (hours * 3600) for hours in (5, 34))
    return out_of_scope(
        f"{voc:.2f} and {coco:.2f} iterations/s by arithmetic, at an unknown batch size and input "
        "size, so that there is nothing to compare; the model has no rates of YOLOv3"
    )


def d04() -> Finding:
    """CIFAR-10 out of memory at batch 512."""
    saved = _saved_mib("cifar10_cnn", 512)
    return Finding(
        kind=Kind.MODELLED,
        verdict=Verdict.DIFFERS,
        ours=f"the small CNN saves {saved:.0f} MiB of activations at batch 512: far below 48 GB",
        why="Counted on the meta device. The article's out-of-memory has another cause (another "
        "network, a leak, all data put on the card, or memory that another process held).",
        numbers={"saved_mib": round(saved, 1), "mib_per_image": round(saved / 512, 3)},
    )


def d05() -> Finding:
    """Two Gold 6240 with 72 cores and 144 threads."""
    from advisor.sweeps.machine.size import physical_cores

    cores = physical_cores()
    return Finding(
        kind=Kind.PUBLISHED,
        verdict=agrees_if(False),
        ours="a Xeon Gold 6240 has 18 cores: two are 36 cores and 72 threads",
        why="The article counts threads as cores. `advisor probe` and each trial's environment "
        f"tell physical cores apart from threads (this machine: {cores:g} cores).",
    )


def _saved_mib(name: str, batch_size: int) -> float:
    """Tensors that autograd saves in a training step, each once, weights left out."""
    import torch

    from advisor.models.zoo.opening import open_network

    opened = open_network(name)
    network = opened.build().to("meta").train()
    weights = {id(weight) for weight in network.parameters()}
    saved: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> Any:
        if id(tensor) not in weights:
            saved[id(tensor)] = tensor
        return tensor

    inputs = torch.empty((batch_size, *opened.info.input_shape), device="meta")
    targets = torch.zeros(batch_size, dtype=torch.long, device="meta")
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        opened.training_loss(network, inputs, targets)
    return sum(one.numel() * one.element_size() for one in saved.values()) / 2**20
