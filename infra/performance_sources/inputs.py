"""What a source says of a network's input, in the words of the network table.

`3x224x224` is an image of three channels, its height before its width; `4x64x64` a latent image of
a diffusion network; `seq:128` a sequence of tokens.
"""

from __future__ import annotations

import re

_LATENT = re.compile(r"latent\s*(\d+)\s*x\s*(\d+)")
_SEQUENCE = re.compile(r"^seq[ :]*(\d+)")
_CROP = re.compile(r"crop\s*(\d+)\s*x\s*(\d+)")
_SIDES = re.compile(r"^\(?(\d+)\s*[x,]\s*(\d+)\)?")
_SIDE = re.compile(r"^(\d+)\s*px")
_TABLE = re.compile(r"^\d+x\d+x\d+$")


def table_input(text: str) -> str:
    """The input as the network table writes it, or '' where the text tells none.

    Understands `224px`, `800x1066px`, `1333x800 (scale jitter)` (the shorter side is the height),
    `seq 128`, `512px latent 64x64`, `Cityscapes; crop 512x1024`, and the table's own form.
    """
    size = text.strip()
    if _TABLE.match(size):
        return size
    if match := _SEQUENCE.match(size):
        return f"seq:{match[1]}"
    if match := _LATENT.search(size):
        return f"4x{match[1]}x{match[2]}"
    if match := _CROP.search(size) or _SIDES.match(size):
        height, width = sorted((int(match[1]), int(match[2])))
        return f"3x{height}x{width}"
    if match := _SIDE.match(size):
        return f"3x{match[1]}x{match[1]}"
    return ""
