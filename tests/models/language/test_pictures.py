"""Tokens of pictures, held to the processors of transformers and to configurations that tell them."""

from __future__ import annotations

import ast
import json
import math
from collections import defaultdict
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from advisor.models.language.config_files import language_model_of_config
from advisor.models.language.configs import bundled_language_models

Counter = Callable[[int, int], int]
SIZES = ((1280, 720), (224, 224), (4000, 3000), (336, 1000), (1008, 672), (30, 900), (2000, 40), (513, 1500))


def functions_of(file: str, *names: str) -> Any:
    """Plain functions of transformers, read from its source: their modules import torchvision."""
    transformers = find_spec("transformers")
    if transformers is None or transformers.origin is None:
        pytest.skip("transformers is not installed")
    tree = ast.parse((Path(transformers.origin).parent / "models" / file).read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in names]
    for node in found:
        node.decorator_list, node.returns, node.args.defaults = [], None, []
        for argument in node.args.args:
            argument.annotation = None
    known = {"math": math, "torch": torch, "defaultdict": defaultdict}
    exec(compile(ast.Module(list(found), []), file, "exec"), known)
    return SimpleNamespace(**{name: known[name] for name in names})


def of_budget(side: int, least: int, most: int) -> Counter:
    resize = functions_of("qwen2_vl/image_processing_qwen2_vl.py", "smart_resize").smart_resize
    return lambda height, width: math.prod(resize(height, width, side, least, most)) // side**2 + 2


def of_kimi(height: int, width: int) -> int:
    """With the signs that its template puts around a picture."""
    resize = functions_of("kimi_k25/image_processing_kimi_k25.py", "navit_resize").navit_resize
    return math.prod(resize(height, width, 14, 2, 16384, 512)[1]) // 28**2 + 3


def of_gemma4(height: int, width: int) -> int:
    name = "get_aspect_ratio_preserving_size"
    resize = getattr(functions_of("gemma4/image_processing_gemma4.py", name), name)
    return math.prod(resize(height, width, 16, 280 * 9, 3)) // 48**2 + 2


def of_pixtral(height: int, width: int) -> int:
    """A sign ends each row."""
    ratio = max(height / 1540, width / 1540, 1)
    count = functions_of("pixtral/image_processing_pil_pixtral.py", "_num_image_tokens")._num_image_tokens
    rows, columns = count((math.floor(height / ratio), math.floor(width / ratio)), (28, 28))
    return (columns + 1) * rows


def of_llama4(height: int, width: int) -> int:
    """Tiles of 144 tokens, and one of the whole picture, with the signs between them."""
    names = ("get_factors", "find_supported_resolutions", "get_best_fit")
    own = functions_of("llama4/image_processing_llama4.py", *names)
    own.find_supported_resolutions.__globals__["get_factors"] = own.get_factors
    sizes = torch.tensor(own.find_supported_resolutions(16, SimpleNamespace(height=336, width=336)))
    rows, columns = (int(side) // 336 for side in own.get_best_fit((height, width), sizes, False))
    tiles = rows * columns
    return (tiles * 144 + rows * (columns - 1) + rows if tiles > 1 else 0) + 144 + 3


def of_step(height: int, width: int) -> int:
    own = functions_of("step3p7/image_processing_step3p7.py", "_plan_patches", "_is_extreme_aspect")
    settings = SimpleNamespace(max_image_size=3024, _is_extreme_aspect=own._is_extreme_aspect)
    columns, rows = own._plan_patches(settings, width, height, 728, 504)[3:5]
    return int(rows * columns * (9 * 9 + 2) + max(rows - 1, 0) + 13 * 13 + 2)


@pytest.mark.parametrize(
    ("name", "counter"),
    [
        ("Qwen/Qwen3-VL-8B-Instruct", of_budget(32, 65536, 16777216)),
        ("nvidia/Qwen3.6-27B-NVFP4", of_budget(32, 65536, 16777216)),
        ("Qwen/Qwen2.5-VL-7B-Instruct", of_budget(28, 3136, 12845056)),
        ("MiniMaxAI/MiniMax-M3", of_budget(28, 3136, 451584)),
        ("nvidia/Kimi-K2.6-NVFP4", of_kimi),
        ("google/gemma-4-E2B-it", of_gemma4),
        ("mistralai/Ministral-3-8B-Instruct-2512", of_pixtral),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", of_llama4),
        ("stepfun-ai/Step-3.7-Flash", of_step),
        ("google/gemma-3-4b-it", lambda height, width: 256 + 4),
    ],
)
def test_tokens_of_a_picture_are_those_of_the_published_processor(name: str, counter: Counter) -> None:
    pictures = bundled_language_models().find(name).pictures
    assert pictures is not None
    for width, height in SIZES:
        assert pictures.tokens(width, height) == counter(height, width), (width, height)


def test_a_configuration_tells_whether_pictures_are_read_and_how_large_a_patch_is(tmp_path: Any) -> None:
    text = {"model_type": "qwen3_vl_text", "hidden_size": 2048, "num_hidden_layers": 4, "vocab_size": 1000}
    text |= {"num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 4096, "head_dim": 128}
    tower = {"model_type": "qwen3_vl", "depth": 24, "hidden_size": 1024, "spatial_merge_size": 2}

    def read(**config: Any) -> Any:
        (tmp_path / "config.json").write_text(json.dumps(config))
        return language_model_of_config(tmp_path).pictures

    pictures = read(model_type="qwen3_vl", text_config=text, vision_config=tower | {"patch_size": 16})
    assert pictures.tokens(1024, 1024) == 1024 + 2
    smaller = read(model_type="qwen3_vl", text_config=text, vision_config=tower | {"patch_size": 8})
    assert smaller.tokens(1024, 1024) == 4 * 1024 + 2
    assert pictures.weights == pytest.approx(0.40e9, rel=0.2)
    llava = read(
        model_type="llava", text_config=text | {"model_type": "llama"}, vision_config={"hidden_size": 64}
    )
    assert llava.rule == ""
    assert read(**(text | {"model_type": "qwen3"})) is None
