"""Torchvision's classifiers that a campaign adds to the zoo, as own networks."""

from __future__ import annotations

from functools import partial

from advisor.models.zoo.building import build_torchvision

INPUT_SHAPE = (3, 224, 224)

resnet18 = partial(build_torchvision, "resnet18")
vit_b_16 = partial(build_torchvision, "vit_b_16")
convnext_tiny = partial(build_torchvision, "convnext_tiny")
