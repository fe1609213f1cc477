"""Families of networks, read from the names that timm and torchvision give them."""

from __future__ import annotations

import pytest

from benchmarks.accuracy.network_families import family


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("resnet50.a1_in1k", "resnet"),
        ("seresnext26t_32x4d", "resnet"),
        ("wide_resnet50_2", "resnet"),
        ("tf_efficientnetv2_s", "efficientnet"),
        ("convnextv2_tiny", "convnext"),
        ("vit_base_patch16_224", "vit"),
        ("vgg16_bn", "vgg"),
    ],
)
def test_families_are_read_from_names(name: str, expected: str) -> None:
    """Versions, sizes, weights and their trainers make no family of their own."""
    assert family(name) == expected
