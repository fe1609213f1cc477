"""C01 to C08: memory and batch size (article A4)."""

from __future__ import annotations

from typing import Any

from advisor.catalog import load_catalog
from advisor.domain import Task
from advisor.errors import UsageError
from advisor.models.performance.networks import bundled_networks
from benchmarks.claims.predicting import gpu_rate, needed_mib
from benchmarks.claims.rows_vcpus import predicted
from benchmarks.claims.words import Finding, Kind, Verdict, agrees_if, published_points

_MIB = 2**20


def c01() -> Finding:
    """Parameters x2, x3, x4 for SGD, momentum and Adam."""
    copies = {name: _copies(name) for name in ("sgd", "momentum", "adam")}
    exact = [round(copies[name], 2) for name in ("sgd", "momentum", "adam")]
    return Finding(
        kind=Kind.MEASURED,
        verdict=agrees_if(exact == [2.0, 3.0, 4.0]),
        ours=" / ".join(f"x{value:g}" for value in exact),
        why="Bytes that PyTorch holds after a step of AlexNet: weights, gradients and the "
        "optimiser's state. The memory model counts SGD with momentum; that of mixed precision "
        "has a 16-bit copy more.",
        numbers=copies,
    )


def c02() -> Finding:
    """Activations count twice in training."""
    facts = bundled_networks()["resnet50"]
    rule, saved = 2 * _leaf_outputs_mib("resnet50"), facts.saved_activation_mib
    peak = published_points()["resnet50_mib_per_image"]
    return Finding(
        kind=Kind.MODELLED,
        verdict=Verdict.DIFFERS,
        ours=f"ResNet-50, MiB an image: {rule:.1f} by the rule, {saved:.1f} saved for the backward "
        f"pass (counted), {peak:.1f} measured by others",
        why="The rule is wrong as a peak: batch normalisation and ReLU in place keep one tensor of "
        "two, and gradients of activations live briefly. The memory model does not use it.",
        numbers={"rule_mib": rule, "saved_mib": saved, "published_peak_mib": peak},
    )


def c03() -> Finding:
    """Feature maps grow with the batch, parameters do not."""
    import numpy as np

    batches = np.array([1, 2, 4, 8, 16, 32, 64], dtype=float)
    needed = np.array([needed_mib("resnet50", int(batch)) for batch in batches])
    slope, fixed = np.polyfit(batches, needed, 1)
    left = needed - (slope * batches + fixed)
    r2 = 1 - float((left**2).sum() / ((needed - needed.mean()) ** 2).sum())
    return Finding(
        kind=Kind.MODELLED,
        verdict=agrees_if(r2 >= 0.99),
        ours=f"ResNet-50 training: {fixed:.0f} MiB + {slope:.1f} MiB an image, R2 {r2:.4f}",
        why="Affine by construction, up to the capped convolution workspace. Measured peaks of "
        "others over 11 batch sizes: 103.2 MiB an image, R2 0.994; ours errs upwards by design.",
        numbers={"fixed_mib": fixed, "mib_per_image": slope, "r2": r2},
    )


def c04() -> Finding:
    """`no_grad` saves the activations."""
    training = needed_mib("resnet50", 32)
    inference = needed_mib("resnet50", 32, Task.INFERENCE)
    return Finding(
        kind=Kind.MODELLED,
        verdict=agrees_if(inference < 0.75 * training),
        ours=f"ResNet-50, batch 32: training {training:.0f} MiB, inference {inference:.0f} MiB",
        why="Inference keeps an operation's input and output only; the rest is context, library "
        "scratch and weights.",
        numbers={"training_mib": training, "inference_mib": inference},
    )


def c05() -> Finding:
    """Beyond saturation a doubled batch gives no speed."""
    rates = {batch: gpu_rate("resnet50", "V100", batch) for batch in (8, 16, 32, 64, 128)}
    first, last = rates[16] / rates[8] - 1, rates[128] / rates[64] - 1
    return Finding(
        kind=Kind.MODELLED,
        verdict=agrees_if(last < first and last <= 0.1),
        ours=f"ResNet-50 training on a V100: 8 to 16 images {first:+.0%}, 64 to 128 {last:+.0%}",
        why="The curve of published step times (others measured +6 % from 64 to 128).",
        numbers={str(batch): round(rate, 1) for batch, rate in rates.items()},
    )


def c06() -> Finding:
    """A T4's data sheet."""
    gpu = load_catalog().gpus["T4"]
    same = (
        round(gpu.fp32_tflops, 1) == 8.1
        and round(gpu.fp16_tflops or 0) == 65
        and gpu.memory_gb_per_second == 320
        and gpu.memory_mib == 16 * 1024
    )
    return Finding(
        kind=Kind.PUBLISHED,
        verdict=Verdict.PARTLY if same else Verdict.DIFFERS,
        ours=f"fp32 {gpu.fp32_tflops:.2f}, fp16 {gpu.fp16_tflops:.1f} TFLOP/s, "
        f"{gpu.memory_gb_per_second:g} GB/s, {gpu.memory_mib // 1024} GiB",
        why="The article also writes 7.76 TFLOPS for the same card, and 75 W where NVIDIA says 70. "
        "Cores and watts are not in the catalogue: no answer depends on them.",
    )


def c07() -> Finding:
    """Which batches of YOLO fit."""
    cards = {4: 4.0, 8: 8.0, 16: 12.0, 32: 16.0}
    try:
        needs = {batch: needed_mib("yolov3", batch) / 1024 for batch in cards}
    except UsageError as error:
        return Finding(
            kind=Kind.OUT_OF_SCOPE,
            verdict=Verdict.UNKNOWN,
            ours="-",
            why=f"the memory model cannot tell of YOLOv3 yet: {str(error).partition(';')[0]}",
        )
    fits = {batch: needs[batch] <= cards[batch] for batch in cards}
    return Finding(
        kind=Kind.MODELLED,
        verdict=agrees_if(fits[8] and fits[16]) if not fits[4] else Verdict.PARTLY,
        ours=", ".join(f"batch {batch} {gib:.1f} GiB" for batch, gib in needs.items()),
        why="A4's batch 4 ended out of memory at iteration 10 on 4 GB: input sizes varied, which "
        "no figure of one size can foresee. Its own steps (0.5 GB an image from 8 to 16) give "
        "20 GB at 32.",
        numbers={str(batch): round(gib, 2) for batch, gib in needs.items()},
    )


def c08() -> Finding:
    """The same T4 is slower beside a weaker CPU."""
    two, sixteen = (predicted("googlenet", vcpus, "T4").median for vcpus in (2.0, 16.0))
    points = published_points()
    few, many = points["yolov3_spp_v100_8_vcpus"], points["yolov3_spp_v100_16_vcpus"]
    return Finding(
        kind=Kind.MODELLED,
        verdict=agrees_if(two < 0.9 * sixteen),
        ours=f"GoogLeNet inference on a T4 from JPEG files: {two:.0f} images/s with 2 vCPUs (as a "
        f"Colab had), {sixteen:.0f} with 16",
        why="The host stage. Others measured YOLOv3-SPP training on a V100 with 8 and 16 vCPUs: "
        f"{few:.0f} and {many:.0f} images/s.",
        numbers={"2_vcpus": round(two, 1), "16_vcpus": round(sixteen, 1)},
    )


def _copies(optimizer: str) -> float:
    """Bytes of weights, gradients and optimiser state over those of the weights."""
    import torch

    from advisor.models.zoo.opening import open_network

    network = open_network("alexnet").build()
    weights = list(network.parameters())
    made: Any = (
        torch.optim.Adam(weights)
        if optimizer == "adam"
        else torch.optim.SGD(weights, lr=0.1, momentum=0.9 if optimizer == "momentum" else 0.0)
    )
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    made.step()
    state = sum(
        value.numel() * value.element_size()
        for one in made.state.values()
        for value in one.values()
        if isinstance(value, torch.Tensor) and value.dim()
    )
    size = sum(weight.numel() * weight.element_size() for weight in weights)
    return (2 * size + state) / size


def _leaf_outputs_mib(name: str) -> float:
    """fp32 outputs of all layers for one sample, counted on the meta device."""
    import torch

    from advisor.models.zoo.opening import open_network

    opened = open_network(name)
    network = opened.build().to("meta").eval()
    total = 0

    def count(_module: Any, _inputs: Any, output: Any) -> None:
        nonlocal total
        total += output.numel() * 4

    for module in network.modules():
        if not list(module.children()):
            module.register_forward_hook(count)
    with torch.no_grad():
        opened.forward(network, torch.empty((1, *opened.info.input_shape), device="meta"))
    return total / _MIB
