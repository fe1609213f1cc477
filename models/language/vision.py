"""Weights that a model has beside its text's part: a tower that reads pictures, and what joins it.

Towers are transformers of their own; they are loaded with the model, and take memory.
"""

from __future__ import annotations

from models.language.config_values import ConfigValues


def vision_parameters(whole: ConfigValues, hidden: int) -> float:
    """Weights of the tower and its projection to `hidden`; 0 where there is no tower.

    Sizes by the formula of a vision transformer: four square matrices and a network of two a
    layer, patches and positions; Qwen's mergers are counted as they are (its DeepStack has one for
    each layer that is passed on), others' as two matrices.
    """
    vision = whole.part("vision_config", "vision_model_config")
    if vision is None:
        return 0.0
    layers = vision.whole("depth", "num_hidden_layers", "layers", default=0, least=0)
    width = vision.whole("hidden_size", "embed_dim", "width", default=0, least=0)
    if not layers or not width:
        return 0.0
    ffn = vision.whole("intermediate_size", default=4 * width)
    blocks = layers * (4.0 * width * width + 2.0 * width * ffn)
    patch = vision.whole("patch_size", default=14)
    merge = vision.whole("spatial_merge_size", default=1) ** 2 * width
    mergers = 1 + len(vision.items("deepstack_visual_indexes"))
    joined = mergers * merge * (merge + hidden) if merge > width else width * hidden
    return blocks + 3.0 * patch * patch * width + joined
