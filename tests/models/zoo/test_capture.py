"""What is captured of a step without computing it."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from advisor.domain import Precision, Task  # noqa: E402
from advisor.errors import UsageError  # noqa: E402
from advisor.operations.capturing import capture_step  # noqa: E402
from models.zoo.capture import classifier_kernels, operation_rows  # noqa: E402
from models.zoo.fusing import fused  # noqa: E402
from models.zoo.kernels import Kernel  # noqa: E402


def small_network() -> torch.nn.Module:
    with torch.device("meta"):
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, padding=1, bias=False),
            torch.nn.BatchNorm2d(16),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(16 * 8 * 8, 10),
        )


def captured(**options: bool) -> list[Kernel]:
    defaults = {"training": False, "autocast": False}
    return classifier_kernels(small_network(), 8, **{**defaults, **options})


def by_kind(kernels: list[Kernel], kind: str) -> list[Kernel]:
    return [kernel for kernel in kernels if kernel.kind == kind]


def test_counts_are_those_of_the_layers() -> None:
    """FLOPs are 2 x MAC per sample; weights are moved once a step, activations per sample."""
    (convolution,) = by_kind(captured(), "conv_3x3")
    assert convolution.flops == 2 * 8 * 8 * 16 * 27
    assert convolution.sample_bytes == 4 * (3 + 16) * 64
    assert convolution.fixed_bytes == 4 * 16 * 27
    assert (convolution.reduction, convolution.width) == (27, 16)


def test_autocast_casts_inputs_and_weights_and_halves_activations() -> None:
    """In mixed precision products read and write 16 bits, after casts of input and weights."""
    kernels = captured(autocast=True)
    (convolution,) = by_kind(kernels, "conv_3x3")
    assert convolution.sample_bytes == 2 * (3 + 16) * 64
    assert len(by_kind(kernels, "cast")) == 4  # images, and one or two weights a product


def test_training_starts_kernels_from_python_and_from_autograd() -> None:
    """The backward pass of a product is two products, of its input and of its weights."""
    kernels = captured(training=True)
    assert not kernels[0].backward
    assert kernels[-1].backward
    products = [kernel for kernel in kernels if kernel.flops]
    assert sum(k.flops for k in products if k.backward) == pytest.approx(
        2 * sum(k.flops for k in products if not k.backward) - 2 * 8 * 8 * 16 * 27
    )  # images need no gradient


def test_compiling_joins_light_kernels_and_moves_less() -> None:
    """Normalisation and activation become one kernel; products stay as they are."""
    eager = captured()
    compiled = fused(eager)
    assert len(compiled) < len(eager)
    assert sum(k.sample_bytes for k in compiled) < sum(k.sample_bytes for k in eager)
    assert [k.flops for k in compiled if k.flops] == [k.flops for k in eager if k.flops]


def test_rows_keep_the_totals() -> None:
    """Kernels that are alike become one row without losing work or launches."""
    kernels = captured(training=True)
    rows = operation_rows(kernels)
    assert sum(row.kernels for row in rows) == len(kernels)
    assert sum(row.flops * row.kernels for row in rows) == pytest.approx(
        sum(kernel.flops for kernel in kernels), rel=1e-3
    )


def test_attention_is_one_kernel_as_on_a_gpu() -> None:
    """Fused attention is not taken apart into products and a softmax."""

    class Attends(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            words = images.flatten(2)
            return torch.nn.functional.scaled_dot_product_attention(words, words, words)

    kernels = classifier_kernels(Attends(), 8, training=False, autocast=False)
    (attention,) = by_kind(kernels, "attention")
    assert attention.flops == 2 * 3 * 3 * (64 + 64)
    assert not by_kind(kernels, "softmax")


def test_ones_own_network_is_captured(tmp_path: Path) -> None:
    """A file with build() is enough, for inference and for training."""
    path = tmp_path / "mine.py"
    path.write_text(
        "from torch import nn\nINPUT_SHAPE = (3, 8, 8)\n"
        "def build():\n    return nn.Sequential(nn.Flatten(), nn.Linear(192, 10))\n"
    )
    for task in (Task.INFERENCE, Task.TRAINING):
        step = capture_step(f"{path}:build", task, Precision.AMP)
        assert step.flops @ step.count >= 2 * 192 * 10


def test_a_builder_that_computes_is_captured_too(tmp_path: Path) -> None:
    """Drop rates are often taken from a tensor while building, which the meta device cannot."""
    path = tmp_path / "computing.py"
    path.write_text(
        "import torch\nfrom torch import nn\nINPUT_SHAPE = (3, 8, 8)\n"
        "def build():\n    width = int(torch.linspace(1, 16, 4)[-1].item())\n"
        "    return nn.Conv2d(3, width, 1)\n"
    )
    assert capture_step(f"{path}:build", Task.INFERENCE).flops.sum() == 2 * 64 * 3 * 16


def test_a_network_that_cannot_be_followed_says_so(tmp_path: Path) -> None:
    """Where a branch depends on values, the error names the network and the way out."""
    path = tmp_path / "branching.py"
    path.write_text(
        "import torch\nINPUT_SHAPE = (3, 8, 8)\n"
        "class Branching(torch.nn.Module):\n"
        "    def forward(self, x):\n        return x if x.sum() > 0 else -x\n"
        "def build():\n    return Branching()\n"
    )
    with pytest.raises(UsageError, match="measure it instead") as told:
        capture_step(f"{path}:build", Task.INFERENCE)
    assert "\n" not in str(told.value)
