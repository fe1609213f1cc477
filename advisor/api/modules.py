"""Saves networks that are Python objects as files that a question can name.

Other processes need the network too, to trace its memory or to measure an anchor. A `torch.nn.Module` is
therefore saved as a file `NAME.py` with a function `build`, next to its pickle. The folder is removed when
this process ends."""

from __future__ import annotations

import atexit
import hashlib
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from advisor.domain.words import LanguageTask
from advisor.errors import CANNOT_FOLLOW, AdvisorError, UsageError
from advisor.messages import Message


class Module(Protocol):
    """The part of a `torch.nn.Module` that type checkers need."""

    def parameters(self) -> Any:
        """The network's weights."""


class ModelConfig(Protocol):
    """The part of a `transformers` configuration that type checkers need."""

    model_type: str

    def to_json_string(self, use_diff: bool = ...) -> str:
        """The configuration as JSON."""


_NOT_A_NAME = re.compile(r"\W+")
_FILE = '''"""A network of another process: {title}."""

import pickle
import sys
from pathlib import Path

import torch
from torch.utils._python_dispatch import _disable_current_modes

for folder in {path!r}:
    if folder not in sys.path:
        sys.path.append(folder)
{imports}

def _kept():
    with _disable_current_modes(), Path(__file__).with_suffix(".pickle").open("rb") as file:
        return pickle.load(file)


def _here(tensor):
    """As a tensor of its size is made here: where a network is traced, none has values."""
    made = torch.empty(tensor.shape, dtype=tensor.dtype)
    return tensor if type(made) is torch.Tensor and made.device.type == "cpu" else made


def build():
    kept = _kept()["network"]
    return kept._apply(_here) if isinstance(kept, torch.nn.Module) else kept()
'''
# A torchvision that was not built for the installed torch fails to import without this.
_TORCHVISION = """
from contextlib import suppress

from advisor.models.zoo.torchvision_operators import import_torchvision

with suppress(ImportError):
    import_torchvision()
"""
_USERS_OF_TORCHVISION = (b"torchvision", b"transformers", b"timm")
_EXAMPLE = """

def example_batch(batch_size):
    from torch.utils._pytree import tree_map

    def rows(tensor):
        if not getattr(tensor, "ndim", 0):
            return tensor
        return _here(tensor)[:1].expand(batch_size, *tensor.shape[1:]).contiguous()

    inputs, targets = _kept()["example"]
    return tree_map(rows, inputs), tree_map(rows, targets)


INPUT_SHAPE = {shape!r}
"""
_LOSS = """

def loss(outputs, targets):
    return _kept()["loss"](outputs, targets)
"""


def network(
    module_or_function: Any, example: Any = None, *, loss: Any = None, name: str | None = None
) -> str:
    """Save a network of your own; return a name that every question accepts as `model`.

    `module_or_function` is a `torch.nn.Module`, or a function without arguments that returns one. `example`
    is an input batch, or a tuple (inputs, targets); each batch repeats its first row. Without it, batches
    are noise of shape 3 x 224 x 224. `loss(outputs, targets)` defaults to cross entropy over classes, `name`
    to the name of the class.

    Nothing is computed here. Classes defined in a notebook are saved with the network; those of importable
    modules are imported again. Raises `UsageError` if this is not a network or cannot be saved."""
    if not is_module(module_or_function) and not callable(module_or_function):
        raise UsageError(
            "{kind} is no network",
            kind=type(module_or_function).__name__,
            field="model",
            hint="give a torch.nn.Module, or a function that returns one",
        )
    title = name or str(getattr(module_or_function, "__name__", type(module_or_function).__name__))
    is_pair = isinstance(example, tuple) and len(example) == 2
    inputs, targets = example if is_pair else (example, None)
    if example is not None and not is_pair:
        import torch

        targets = torch.zeros(1, dtype=torch.long)
    kept = _pickled({"network": module_or_function, "example": (inputs, targets), "loss": loss})
    text = _FILE.format(
        title=title,
        path=[folder for folder in sys.path if folder],
        imports=_TORCHVISION if any(package in kept for package in _USERS_OF_TORCHVISION) else "",
    )
    if example is not None:
        from torch.utils._pytree import tree_leaves

        shapes = (tuple(leaf.shape[1:]) for leaf in tree_leaves(inputs) if hasattr(leaf, "shape"))
        text += _EXAMPLE.format(shape=next(shapes, ()) or (1,))
    text += _LOSS if loss is not None else ""
    digest = hashlib.sha256(kept + text.encode()).hexdigest()[:8]
    stem = _NOT_A_NAME.sub("_", title).strip("_") or "network"
    folder = kept_folder() / digest
    folder.mkdir(exist_ok=True)
    (folder / f"{stem}.pickle").write_bytes(kept)
    (folder / f"{stem}.py").write_text(text, encoding="utf-8")
    return f"{folder / stem}.py:build"


def named_model(values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call, after networks and configurations given as objects were replaced by files."""
    given, is_of_language = values.get("model"), values.get("task") in tuple(LanguageTask)
    if is_config(given):
        if not is_of_language:
            raise UsageError(
                "{kind} is a configuration, which says enough for task {tasks} alone",
                tasks=" and ".join(LanguageTask),
                kind=type(given).__name__,
                field="model",
                hint="for other tasks build it: model=advisor.network(lambda: "
                "AutoModel.from_config(config), batch), with a batch of token ids or pixels",
            )
        return {**values, "model": None, "config": _config_file(given)}
    several = given if isinstance(given, (list, tuple)) else [given]
    modules = [model for model in several if is_module(model)]
    if modules and is_of_language:
        raise UsageError(
            "task {task} takes a language model by its name or configuration, not {kind}",
            task=str(values["task"]),
            kind=type(modules[0]).__name__,
            field="model",
            hint="give model.config of a model of transformers",
        )
    named = [network(model) if is_module(model) else model for model in several]
    return {**values, "model": named if isinstance(given, (list, tuple)) else named[0]}


def with_way_out(error: AdvisorError, values: Mapping[str, Any]) -> None:
    """Adapt an error's field and hint to a call whose `model` is an object, not a name or file."""
    if error.field == "config" and is_config(values.get("model")):
        error.field = "model"
    if error.code == CANNOT_FOLLOW and is_module(values.get("model")):
        error.hint = Message(
            "say what it takes: model=advisor.network(module, batch); or measure it: "
            "anchor=advisor.anchor(module, batch)"
        )


def is_config(value: object) -> bool:
    """True if a value looks like a configuration of `transformers`; `transformers` is not imported."""
    has_both = hasattr(value, "to_json_file") and hasattr(value, "model_type")
    return has_both and not isinstance(value, type)


def is_module(value: object) -> bool:
    """True if a value is a `torch.nn.Module`; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


@cache
def kept_folder() -> Path:
    """The folder of saved networks; it is removed when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="advisor-networks-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _config_file(config: Any) -> Path:
    """Write a configuration with all keys: sizes equal to their defaults would otherwise be unknown."""
    title = getattr(config, "name_or_path", "") or type(config).__name__
    keys = json.loads(config.to_json_string(use_diff=False)) | {"_name_or_path": title}
    text, name = json.dumps(keys), _NOT_A_NAME.sub("-", title)
    file = kept_folder() / hashlib.sha256(text.encode()).hexdigest()[:8] / name / "config.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def _pickled(kept: dict[str, Any]) -> bytes:
    """The pickle of a network, including the code of classes that a notebook defines."""
    try:
        import cloudpickle

        return bytes(cloudpickle.dumps(kept))
    except Exception as error:
        raise UsageError(
            "the network cannot be kept ({why})",
            why=f"{type(error).__name__}: {error}",
            field="model",
            hint="name a file that builds it: path/to/file.py:build",
        ) from error
