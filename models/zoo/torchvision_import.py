"""The one door to torchvision, which does not open by itself beside a CPU-only torch.

torchvision's wheel registers its compiled operators only where they load. Its Python code
then fails to attach the fake kernels of `nms` and `qnms` to operators that do not exist
(RuntimeError: operator torchvision::nms does not exist). Networks and transforms need
neither, so the two schemas are declared and the import is tried again.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
# A library's registrations vanish with the object, so it is kept for the process's life.
_declared: list[Any] = []


def import_torchvision() -> ModuleType:
    """`torchvision`, with missing operators declared when, and only when, they are missing.

    Raises ImportError where torchvision is not installed, RuntimeError for any other fault.
    """
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
    _declare_missing_operators()
    _forget_half_imported()
    return importlib.import_module("torchvision")


def _declare_missing_operators() -> None:
    import torch

    make_library: Any = torch.library.Library  # carries no types
    library = make_library("torchvision", "DEF")
    for schema in _SCHEMAS:
        library.define(schema)
    _declared.append(library)


def _forget_half_imported() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]
