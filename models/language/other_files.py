"""What a file is that stands beside a model's config.json, and was given in its place."""

from __future__ import annotations

from pathlib import Path

from advisor.errors import UsageError
from advisor.messages import FieldName, Message
from advisor.models.language.config_values import FIELD, ConfigValues

# A folder that has no config.json is told by the first of these that it has.
_NAMES = ("config.json", "adapter_config.json", "params.json", "model_index.json")
# A key that no other file has, and what the file is.
_KINDS = {
    "peft_type": Message("an adapter's settings"),
    "weight_map": Message("the list of its weight files"),
    "_class_name": Message("a diffusion model or a part of one"),
    "_diffusers_version": Message("a diffusion model or a part of one"),
    "tokenizer_class": Message("its tokenizer's settings"),
    "added_tokens": Message("its tokenizer"),
    "image_processor_type": Message("its preprocessor's settings"),
    "processor_class": Message("its preprocessor's settings"),
    "n_layers": Message("in Mistral's or Llama's own form"),
    "quantization": Message("the format of its weights alone"),
    "quant_method": Message("the format of its weights alone"),
    "bits": Message("the format of its weights alone"),
    "w_bit": Message("the format of its weights alone"),
    "do_sample": Message("its settings for generating"),
    "eos_token_id": Message("its settings for generating"),
}
_TAKE = Message(
    "take the config.json beside the weights (in Hugging Face's form), or name the model by {model}",
    model=FieldName("model"),
)


def file_of(path: Path) -> Path:
    """The file itself; of a folder its config.json, or what stands there in its place."""
    if not path.is_dir():
        return path
    found = (path / name for name in _NAMES if (path / name).is_file())
    return next(found, path / _NAMES[0])


def no_model_config(values: ConfigValues) -> UsageError:
    """The error for a file that names no architecture: what it is, and what to take instead."""
    what = next((kind for key, kind in _KINDS.items() if key in values), None)
    base = values.text("base_model_name_or_path")
    hint = Message("take the config.json of its base model, {base}", base=base) if base else _TAKE
    if what is None:
        reason = Message("it has no model_type, so that its architecture is unknown")
        return values.error(reason, hint=hint)
    return UsageError(
        "{path} is no config.json of a model: it is {what}",
        path=values.name,
        what=what,
        field=FIELD,
        hint=hint,
    )
