"""Families of networks by their names, as timm and torchvision write them.

The family is the run of letters that a name begins with, without a version (`convnextv2_tiny`:
convnext) and without a prefix that says who trained the weights (`tf_`, `gluon_`, ..). Names that
hold `resnet`, `resnext` or `wide_resnet` in their first word are one family (`seresnext50`,
`ecaresnet26t`, `wide_resnet50_2`): they are built of the same layers.
"""

from __future__ import annotations

import re

_TRAINERS = (
    "tf_",
    "gluon_",
    "legacy_",
    "ssl_",
    "swsl_",
    "ig_",
    "ens_adv_",
    "adv_",
    "ens_",
    "tv_",
    "test_",
    "jx_",
    "wide_",
)
_RESIDUAL = ("resnet", "resnext")


def plain_name(name: str) -> str:
    """'tf_efficientnet_b0.ns_jft_in1k' -> 'efficientnet_b0': weights change no rate."""
    plain = name.partition(".")[0].lower()
    for trainer in _TRAINERS:
        plain = plain.removeprefix(trainer)
    return plain


def family(name: str) -> str:
    """The family of a network's name."""
    plain = plain_name(name)
    first = plain.partition("_")[0]
    if any(word in first for word in _RESIDUAL):
        return "resnet"
    letters = re.match(r"[a-z]*", plain)
    root = letters.group() if letters else ""
    versioned = root.endswith("v") and plain[len(root) : len(root) + 1].isdigit()
    return (root[:-1] if versioned and len(root) > 1 else root) or plain
