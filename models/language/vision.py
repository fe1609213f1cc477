"""Weights that a model has beside its text's part: a tower that reads pictures, and what joins it.

Towers are transformers of their own; they are loaded with the model, and take memory.
"""

from __future__ import annotations

from advisor.models.language.config_values import ConfigValues

# Towers whose feed-forward networks have three matrices.
_GATED = ("pixtral", "qwen2_5_vl", "qwen2_5_vl_vision")
_COLOURS = 3


def vision_parameters(whole: ConfigValues, hidden: int) -> float:
    """Weights of the tower and of what projects it to `hidden`; 0 where there is no tower.

    Sizes by the formula of a vision transformer: four square matrices and a network a layer, and
    the patches. Norms, biases and learned positions are left out.
    """
    vision = whole.part("vision_config", "vision_model_config")
    if vision is None:
        return 0.0
    layers = vision.whole("depth", "num_hidden_layers", "layers", default=0, least=0)
    width = vision.whole("embed_dim", "hidden_size", "width", default=0, least=0)
    if not layers or not width:
        return 0.0
    ffn = vision.whole("intermediate_size", default=vision.whole("mlp_ratio", default=4) * width)
    matrices = 3 if vision.text("model_type") in _GATED else 2
    blocks = layers * (4.0 * width * width + matrices * float(width) * ffn)
    patch = vision.first_whole("patch_size", default=14)
    frames = vision.whole("temporal_patch_size", default=1)
    patches = float(_COLOURS) * frames * patch * patch * width
    return blocks + patches + _projection(whole, vision, width, hidden)


def _projection(whole: ConfigValues, vision: ConfigValues, width: int, hidden: int) -> float:
    """Qwen merges patches by two matrices, once more for each layer that is passed on; Mistral by
    one before LLaVA's two; others have one matrix."""
    kind = whole.text("model_type")
    if kind.startswith("qwen"):
        merged = vision.whole("spatial_merge_size", default=2) ** 2 * float(width)
        mergers = 1 + len(vision.items("deepstack_visual_indexes"))
        return mergers * merged * (merged + vision.whole("out_hidden_size", default=hidden))
    two = float(width) * hidden + float(hidden) * hidden
    if kind == "mistral3":
        return two + whole.whole("spatial_merge_size", default=2) ** 2 * float(width) * width
    return two if kind.startswith("llava") else float(width) * hidden
