"""Values of a configuration that somebody else wrote: by any of their names, checked.

What is refused says why by the kind of what is not covered. Towers that read pictures are transformers of
their own: they are loaded with the model, and take memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from advisor.errors import UsageError
from advisor.messages import FieldName, Message
from advisor.strict_json import UnfitError, check_json

_T = TypeVar("_T")
FIELD = "config"
_MOST_BYTES = 4 * 2**20
# Beyond these a number is no size of a language model of these years.
_MOST = 10**9
# Configurations leave out what their class takes by itself: type -> key -> value, of transformers
# 5.23 (`python -m advisor.infra.build.language_models.class_defaults`).
CLASS_DEFAULTS = Path(__file__).parents[3] / "advisor" / "data" / "language" / "class_defaults.json"
_SAVE_ALL = Message(
    "name the model by {model}, or save its whole configuration: "
    "config.to_json_file(path, use_diff=False) in transformers",
    model=FieldName("model"),
)


class ConfigValues:
    """The keys of a `config.json`; each look-up names all the spellings that libraries use.

    `usual` has the values of keys that are left out."""

    def __init__(self, name: str, values: Mapping[str, Any], usual: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self._given, self._usual = values, usual or {}
        self._values = {**self._usual, **values}

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def says(self, *keys: str) -> bool:
        """True if the configuration has one of the keys."""
        return any(self._given.get(key) is not None for key in keys)

    def with_class(self, kind: str) -> ConfigValues:
        """These keys, completed by the defaults of the class of this `model_type`."""
        return ConfigValues(self.name, self._given, class_defaults().get(kind))

    def whole(self, *keys: str, default: int | None = None, least: int = 1) -> int:
        """The first of the keys that has a value, as a whole number of at least `least`.

        `UsageError` where none has one and there is no default, and for what is no such number."""
        whole = self.maybe_whole(*keys, least=least)
        if whole is not None:
            return whole
        if default is None:
            reason = Message("its configuration has no {key}", key=keys[0])
            raise self.error(reason, hint=_SAVE_ALL)
        return default

    def first_whole(self, key: str, default: int | None, least: int = 1) -> int:
        """The whole number of a key, of a list its first: square patches are written as two sides."""
        value = self._values.get(key)
        if not isinstance(value, list):
            return self.whole(key, default=default, least=least)
        return ConfigValues(self.name, {key: value[0] if value else None}).whole(key, least=least)

    def maybe_whole(self, *keys: str, least: int = 0) -> int | None:
        """The whole number of a key, or None where no key has a value."""
        # A spelling that the class does not have stands for the one that it has.
        foreign = any(key in self._given and key not in self._usual for key in keys)
        values = self._given if foreign else self._values
        for key in keys:
            value = values.get(key)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise self.error(Message("{key} must be a whole number", key=key))
            if not least <= value <= _MOST or value != int(value):
                raise self.error(
                    Message(
                        "{key} must be a whole number from {least} to {most}, not {value:g}",
                        key=key,
                        least=least,
                        most=_MOST,
                        value=float(value),
                    )
                )
            return int(value)
        return None

    def flag(self, key: str, default: bool) -> bool:
        """True if the key is true."""
        value = self._typed(key, bool, Message("{key} must be true or false"))
        return default if value is None else value

    def text(self, key: str, default: str = "") -> str:
        """The text of the key."""
        value = self._typed(key, str, Message("{key} must be a text"))
        return default if value is None else value

    def texts(self, key: str) -> tuple[str, ...]:
        """The texts of a list; empty where there is none."""
        refused = Message("{key} must be a list of texts")
        values = self._typed(key, list, refused) or []
        if not all(isinstance(entry, str) for entry in values):
            raise self.error(Message(refused.text, key=key))
        return tuple(values)

    def items(self, key: str) -> tuple[Any, ...]:
        """The items of a list; empty where there is none."""
        return tuple(self._typed(key, list, Message("{key} must be a list")) or ())

    def has(self, key: str, kind: type) -> bool:
        """True if the key has a value of a kind: a text or a list, where files differ."""
        return isinstance(self._values.get(key), kind)

    def _typed(self, key: str, kind: type[_T], refused: Message) -> _T | None:
        value = self._values.get(key)
        if value is not None and not isinstance(value, kind):
            raise self.error(Message(refused.text, key=key))
        return value

    def part(self, *keys: str) -> ConfigValues | None:
        """The first of the keys that holds keys of its own, with what its class takes."""
        for key in keys:
            value = self._typed(key, dict, Message("{key} must be an object"))
            if value is None:
                continue
            usual = self._usual.get(key, {})
            kind = str(value.get("model_type") or usual.get("model_type"))
            known = class_defaults().get(kind, {})
            if known and key in self._given:  # what a class takes for no part at all, it leaves
                usual = {"model_type": kind}
            return ConfigValues(self.name, value, {**known, **usual})
        return None

    def own_part(self, *keys: str) -> ConfigValues | None:
        """The part of that name as it is written in the file, without defaults."""
        return self.part(*keys) if self.says(*keys) else None

    def parts(self) -> dict[str, ConfigValues]:
        """All values that hold keys of their own, by their keys."""
        parts = ((key, part) for key, part in self._values.items() if isinstance(part, dict))
        return {key: ConfigValues(self.name, part) for key, part in parts}

    def parts_of(self, key: str) -> list[ConfigValues]:
        """The items of a list that hold keys of their own."""
        return [ConfigValues(self.name, item) for item in self.items(key) if isinstance(item, dict)]

    def maybe_number(self, key: str) -> float | None:
        """The number of a key above 0, or None where it has no value."""
        value = self._values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= _MOST:
            raise self.error(Message("{key} must be a number above 0", key=key))
        return float(value)

    def error(self, reason: Message, hint: Message | None = None) -> UsageError:
        """The error that says why this configuration cannot be used."""
        return UsageError("{name}: {reason}", name=self.name, reason=reason, field=FIELD, hint=hint)


@cache
def class_defaults() -> Mapping[str, Mapping[str, Any]]:
    """The table of `CLASS_DEFAULTS`."""
    table: Mapping[str, Mapping[str, Any]] = json.loads(CLASS_DEFAULTS.read_text(encoding="utf-8"))
    return table


def read_config(path: Path) -> ConfigValues:
    """The keys of a local `config.json`; `UsageError` where it is none, or no sane one."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(
            "{path} cannot be read: {reason}",
            path=str(path),
            reason=error.strerror or "no such file",
            field=FIELD,
            hint="name the config.json beside the model's weights",
        ) from error
    values = _parsed(content) if len(content) <= _MOST_BYTES else None
    if not isinstance(values, dict):
        raise UsageError(
            "{path} is no config.json of a model",
            path=str(path),
            field=FIELD,
            hint="name the config.json beside the model's weights",
        )
    return ConfigValues(str(path), values)


def _parsed(content: bytes) -> object:
    try:
        check_json(content)
        return json.loads(content)
    except (UnfitError, ValueError, RecursionError):
        return None


_HINT = Message("name a model whose layers all keep keys and values, or measure this one")
_CONFIG = Message("give {config} FILE, its config.json", config=FieldName("config"))
_BUILT = Message(
    "ask for training or inference of the network that you build: {field} file.py:build, or in "
    "Python advisor.network(..)",
    field=FieldName("model"),
)
_REASONS = {
    "layers": Message("some of its layers are of a kind that is not covered"),
    "no_decoder": Message("it is no decoder that generates text"),
    "partial": Message("its layers differ, and the bundled table does not have all of them"),
    "tuned": Message("its layers differ, and tuning such a model is not covered"),
}


def uncovered(name: str, kind: str, *, field: str = "model") -> UsageError:
    """The error for a model whose attention or layers the formulas do not cover."""
    return UsageError(
        "'{model}' cannot be sized: {reason}",
        model=name,
        reason=_REASONS[kind],
        field=field,
        hint={"no_decoder": _BUILT, "partial": _CONFIG}.get(kind, _HINT),
        code="uncovered_model",
    )


# Towers whose feed-forward networks have three matrices.
_GATED = ("pixtral", "qwen2_5_vl", "qwen2_5_vl_vision")
_COLOURS = 3
VISION_PARTS = ("vision_config", "vision_model_config")


def vision_parameters(whole: ConfigValues, hidden: int) -> float:
    """Weights of the tower and of what projects it to `hidden`; 0 where there is no tower.

    Sizes by the formula of a vision transformer: four square matrices and a network a layer, and the patches.
    Norms, biases and learned positions are left out."""
    vision = whole.part(*VISION_PARTS)
    if vision is None:
        return 0.0
    layers = vision.whole("depth", "num_hidden_layers", "layers", default=0, least=0)
    width = vision.whole("embed_dim", "hidden_size", "width", default=0, least=0)
    if not layers or not width:
        return 0.0
    ffn = vision.whole("intermediate_size", default=int((vision.maybe_number("mlp_ratio") or 4) * width))
    matrices = 3 if vision.text("model_type") in _GATED else 2
    blocks = layers * (4.0 * width * width + matrices * float(width) * ffn)
    patch = vision.first_whole("patch_size", default=14)
    frames = vision.whole("temporal_patch_size", default=1)
    patches = float(_COLOURS) * frames * patch * patch * width
    return blocks + patches + _projection(whole, vision, width, hidden)


def _projection(whole: ConfigValues, vision: ConfigValues, width: int, hidden: int) -> float:
    """Weights of the projection: Qwen merges patches by two matrices, Mistral adds one to LLaVA's."""
    kind = whole.text("model_type")
    if kind.startswith("qwen"):
        merged = vision.whole("spatial_merge_size", default=2) ** 2 * float(width)
        mergers = 1 + len(vision.items("deepstack_visual_indexes"))
        return mergers * merged * (merged + vision.whole("out_hidden_size", default=hidden))
    two = float(width) * hidden + float(hidden) * hidden
    if kind == "mistral3":
        return two + whole.whole("spatial_merge_size", default=2) ** 2 * float(width) * width
    return two if kind.startswith("llava") else float(width) * hidden
