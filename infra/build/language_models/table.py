"""Turns the fetched and the added configurations into the lines of the bundled table, and corrects cells of
the fetched ones that are missing or differ from the published files."""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from advisor.models.language.config_files import language_model_of_config
from advisor.models.language.configs import model_of_cells
from advisor.models.language.families import FAMILIES, UNCOVERED

# litgpt states the tokenizer's vocabulary; these are the rows of the published embeddings.
PADDED_VOCABULARY: Mapping[int, int] = {
    128000: 128256,
    151643: 151936,
    50254: 50304,
    50257: 51200,
    50280: 50304,
    100278: 100352,
    200019: 200064,
    32000: 32064,
}
# 32000 is padded this way only for Microsoft's Phi-3; 50257 only for phi, not for GPT-2.
PADDED_FOR: Mapping[int, tuple[str, ...]] = {32000: ("microsoft/",), 50257: ("microsoft/",)}
# Other corrected cells, by model name, from the models' published configuration files.
CELLS: Mapping[str, Mapping[str, str]] = {
    "Qwen/Qwen2.5-7B": {"vocab": "152064"},
    "Qwen/Qwen2.5-14B": {"vocab": "152064"},
    "Qwen/Qwen2.5-32B": {"vocab": "152064"},
    "Qwen/Qwen2.5-72B": {"vocab": "152064"},
    "Qwen/Qwen2.5-Coder-32B": {"vocab": "152064"},
    "Qwen/QwQ-32B": {"vocab": "152064"},
    "EleutherAI/pythia-6.9b": {"vocab": "50432"},
    "EleutherAI/pythia-12b": {"vocab": "50688"},
    "tiiuae/falcon-40b": {"tied": "True"},
    "mistralai/Mistral-7B-v0.1": {"max_context": "32768"},
    "mistralai/mathstral-7B-v0.1": {"window": "", "full_attn_layers": ""},
    "google/gemma-2b": {"max_context": "8192"},
    "google/gemma-7b": {"max_context": "8192"},
    "google/codegemma-7b-it": {"max_context": "8192"},
    "microsoft/Phi-3.5-mini-instruct": {"max_context": "131072"},
    "moonshotai/Kimi-K2.5": {"model_type": "kimi_k2"},
    "bigscience/bloom-7b1": {"max_context": "2048"},
}
# Llama 4 attends to chunks of 8,192 tokens in three of four layers.
CHUNKED = {"llama4_text": ("8192", 0.75)}
# DeepSeek's sparse attention: heads, bytes of a key, number of tokens selected.
INDEXERS = {"deepseek_v32": ("64", "128", "2048"), "glm_moe_dsa": ("32", "128", "2048")}
# Architectures that the fetched table marks as not covered by its formula, but that ours covers. The
# configuration of GLM-5.2 describes different layers.
COVERED = ("glm_moe_dsa",)
NOT_COVERED = ("zai-org/GLM-5.2", "zai-org/GLM-5.2-FP8", "nvidia/GLM-5.2-NVFP4")
# Families of litgpt's rows: by the start of the model's name, else by the class of its networks.
FAMILY_OF_NAME: Mapping[str, str] = {
    "falcon-": "falcon",
    "phi-1": "phi",
    "phi-2": "phi",
    "phi-3": "phi3",
    "phi-4": "phi3",
    "gemma-2-": "gemma2",
    "gemma-3-": "gemma3_text",
    "mistral": "mistral",
    "mathstral": "mistral",
    "qwen2": "qwen2",
    "qwq": "qwen2",
    "qwen3": "qwen3",
    "olmo-2": "olmo2",
    "olmo-": "olmo",
    "stablelm-3b": "stablelm",
}
FAMILY_OF_CLASS: Mapping[str, str] = {
    "litgpt:LLaMAMLP": "llama",
    "litgpt:GptNeoxMLP": "gpt_neox",
    "litgpt:GemmaMLP": "gemma",
}
# Image towers with their projections, by the formula of `advisor.models.language.config_values` from sizes in
# published configurations: (layers, width, width of the network, mergers, patch).
TOWERS: Mapping[str, tuple[int, int, int, int, int]] = {
    "Qwen/Qwen3-VL-2B-Instruct": (24, 1024, 4096, 4, 16),
    "Qwen/Qwen3-VL-4B-Instruct": (24, 1024, 4096, 4, 16),
    **dict.fromkeys(
        (
            "Qwen/Qwen3-VL-8B-Instruct",
            "Qwen/Qwen3-VL-32B-Instruct",
            "Qwen/Qwen3-VL-32B-Thinking",
            "Qwen/Qwen3-VL-30B-A3B-Instruct",
            "Qwen/Qwen3-VL-235B-A22B-Instruct",
        ),
        (27, 1152, 4304, 4, 16),
    ),
    **dict.fromkeys(
        ("google/gemma-3-4b-it", "google/gemma-3-12b-it", "google/gemma-3-27b-it"), (27, 1152, 4304, 0, 14)
    ),
    **dict.fromkeys(
        (
            "moonshotai/Kimi-K2.5",
            "nvidia/Kimi-K2.5-NVFP4",
            "nvidia/Kimi-K2.6-NVFP4",
            "nvidia/Kimi-K2.7-Code-NVFP4",
        ),
        (27, 1152, 4304, 1, 14),
    ),
    **dict.fromkeys(
        ("meta-llama/Llama-4-Maverick-17B-128E-Instruct", "meta-llama/Llama-4-Scout-17B-16E-Instruct"),
        (34, 1408, 5632, 1, 14),
    ),
}
# Checkpoints with the same sizes and format as another one.
SAME_AS: Mapping[str, tuple[str, ...]] = {
    "moonshotai/Kimi-K2.5": ("moonshotai/Kimi-K2.6", "moonshotai/Kimi-K2.7-Code")
}
# Shapes without a published checkpoint.
NO_CHECKPOINT = ("bloom-175b", "megatron-lm-175b", "megatron-lm-530b")
# Checkpoints whose sizes in `added.csv` replace their architecture's class defaults.
REPLACED = ("databricks/dbrx-base", "allenai/OLMoE-1B-7B", "stabilityai/stablelm-3b", "microsoft/Phi-3.5-MoE")


FETCHED = Path(__file__).with_name("model_configs.csv")
ADDED = Path(__file__).with_name("added.csv")
# Published configurations, reduced to the keys that are read; models of the same size share a line.
CONFIGS = Path(__file__).with_name("configs.jsonl")
_MOST_APART = 0.015
_SOURCES = (
    ("aiconfigurator", "aiconfigurator"),
    ("litgpt", "litgpt"),
    ("llm-analysis", "llm-analysis"),
    ("transformers", "transformers"),
)
# `names` are joined by semicolons: checkpoints with the same sizes. `uncovered` is the kind of
# layers that no formula here covers; of such a model nothing else is known. `mixed` are the numbers of
# `Mixed`, by spaces.
HEADER = (
    "names,family,uncovered,layers,hidden,heads,kv_heads,head_dim,ffn,vocab,tied,"
    "experts,experts_per_token,shared_experts,expert_ffn,dense_layers,expert_step,"
    "kv_lora,q_lora,rope,nope,v,index_heads,index_head_dim,index_top_k,window,window_layers,mixed,"
    "max_context,own_precision,own_bits,sixteen_bit,other_parameters,source"
)
COLUMNS = HEADER.split(",")
Cells = Mapping[str, str]


def lines(fetched: Path) -> list[dict[str, str]]:
    """All lines of the table, sorted by name; `fetched` is model_configs.csv.

    `ValueError` if an added model's sizes give a number of weights that differs by more than 1.5 % from the
    number its maker publishes."""
    found = {line["names"]: line for line in _fetched_lines(fetched)}
    for line in (*_added_lines(), *_config_lines()):
        new = set(line["names"].split(";"))
        found = {names: kept for names, kept in found.items() if new.isdisjoint(names.split(";"))}
        found[line["names"]] = line
    return sorted(found.values(), key=lambda line: line["names"].casefold())


def written(built: Iterable[Cells]) -> str:
    """The file's text for these lines; cells contain no commas."""
    rows = [",".join(line[name] for name in COLUMNS) for line in built]
    return "\n".join([HEADER, *rows]) + "\n"


def _fetched_lines(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            name = row["name"]
            if row["kind"] not in ("llm", "vlm") or name in NO_CHECKPOINT + REPLACED:
                continue
            if "default)" in name or "?" in name:
                continue
            yield _line({**row, **CELLS.get(name, {})})


def _line(row: Cells) -> dict[str, str]:
    family = _family(row)
    line = dict.fromkeys(COLUMNS, "")
    names = ";".join((row["name"], *SAME_AS.get(row["name"], ())))
    line |= {"names": names, "family": family, "source": _source(row["source"])}
    covered = row["formula_ok"] == "True" or family in COVERED
    if family in UNCOVERED or not covered or row["name"] in NOT_COVERED:
        return line | {"uncovered": UNCOVERED.get(family, "partial")}
    line |= {
        "layers": row["layers"],
        "hidden": row["hidden"],
        "heads": row["heads"],
        "kv_heads": row["kv_heads"],
        "head_dim": row["head_dim"],
        "vocab": _vocabulary(row),
        "tied": "01"[row["tied"] == "True"],
        "max_context": row["max_context"],
    }
    return line | _experts(row) | _latent(row, family) | _window(row, family) | _format(row)


def _family(row: Cells) -> str:
    family = row["model_type"]
    if family in FAMILY_OF_CLASS:
        name = row["name"].rpartition("/")[2].casefold()
        named = (of for start, of in FAMILY_OF_NAME.items() if name.startswith(start))
        return next(named, FAMILY_OF_CLASS[family])
    return family or "opt"  # the one checkpoint without a type is OPT's largest


def _source(text: str) -> str:
    return next(name for part, name in _SOURCES if part in text)


def _vocabulary(row: Cells) -> str:
    size = int(row["vocab"])
    if _source(row["source"]) != "litgpt" or not row["name"].startswith(PADDED_FOR.get(size, ("",))):
        return row["vocab"]
    return str(PADDED_VOCABULARY.get(size, size))


def _experts(row: Cells) -> dict[str, str]:
    if not row["experts"]:
        return {"ffn": row["ffn"]}
    return {
        "ffn": row["dense_ffn"].removesuffix(".0") or row["ffn"],
        "experts": row["experts"],
        "experts_per_token": row["experts_per_token"],
        "shared_experts": row["shared_experts"].removesuffix(".0"),
        "expert_ffn": row["moe_ffn"] or row["ffn"],
        "dense_layers": row["first_dense"],
        "expert_step": row["moe_step"].removesuffix(".0"),
    }


def _latent(row: Cells, family: str) -> dict[str, str]:
    if not row["kv_lora_rank"]:
        return {}
    names = ("index_heads", "index_head_dim", "index_top_k")
    sizes = INDEXERS.get(family)
    indexer = dict(zip(names, sizes, strict=True)) if sizes else {}
    return indexer | {
        "kv_lora": row["kv_lora_rank"],
        "q_lora": row["q_lora_rank"],
        "rope": row["qk_rope_dim"],
        "nope": row["qk_nope_dim"],
        "v": row["v_head_dim"],
    }


def _window(row: Cells, family: str) -> dict[str, str]:
    layers = int(row["layers"])
    if family in CHUNKED:
        chunk, share = CHUNKED[family]
        return {"window": chunk, "window_layers": str(int(layers * share))}
    window, context = int(row["window"] or 0), int(row["max_context"] or 0)
    if not window or window >= context:
        return {}
    full = int(float(row["full_attn_layers"] or 0))
    return {"window": str(window), "window_layers": str(layers - full)}


def _format(row: Cells) -> dict[str, str]:
    name, quant = row["name"], row["quant"]
    cells = {"other_parameters": _other(row)}
    if quant == "mxfp4":
        return cells | {"own_precision": "mxfp4", "sixteen_bit": "attention"}
    if quant == "compressed-tensors":
        return cells | {
            "own_precision": "int4-awq",
            "own_bits": "4.5",
            "sixteen_bit": "attention dense shared",
        }
    if name.endswith("-NVFP4"):
        latent = "attention" if row["kv_lora_rank"] else ""
        return cells | {"own_precision": "nvfp4", "sixteen_bit": latent}
    if quant == "fp8" or "-FP8" in name:
        return cells | {"own_precision": "fp8"}
    return cells | {"own_precision": "bf16"}


def _other(row: Cells) -> str:
    """Number of weights in a tower or in learned positions; '' if there are none."""
    hidden, context = int(row["hidden"]), int(row["max_context"] or 0)
    if row["name"] in TOWERS:
        layers, width, ffn, mergers, patch = TOWERS[row["name"]]
        blocks = layers * (4 * width * width + 2 * width * ffn) + 3 * patch * patch * width
        merge = 4 * width
        return str(blocks + (mergers * merge * (merge + hidden) if mergers else width * hidden))
    known = FAMILIES.get(_family(row))
    if known is None or known.positions is None:
        return ""
    return str((context + known.positions) * hidden)


def _added_lines() -> Iterator[dict[str, str]]:
    with ADDED.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            line = dict.fromkeys(COLUMNS, "") | {"source": "published"}
            line |= {name: cell for name, cell in row.items() if name in COLUMNS}
            published = float(row["published"])
            model = model_of_cells(row["names"].partition(";")[0], line)
            apart = model.parameters / published - 1
            if abs(apart) > _MOST_APART:
                raise ValueError(f"{row['names']}: {model.parameters:.4g}, published {published:.4g}")
            yield line


def _config_lines() -> Iterator[dict[str, str]]:
    """Lines of models whose configuration is read in the same way as a user's."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.json"
        for text in CONFIGS.read_text(encoding="utf-8").splitlines():
            entry = json.loads(text)
            file.write_text(json.dumps(entry["config"]), encoding="utf-8")
            model = language_model_of_config(file)
            facts = {name: getattr(model, name) for name in COLUMNS if hasattr(model, name)}
            facts |= (model.latent._asdict() if model.latent else {}) | {
                f"index_{name}": value
                for name, value in (model.indexer._asdict() if model.indexer else {}).items()
            }
            facts |= {"names": ";".join(entry["names"]), "source": entry["source"], "tied": int(model.tied)}
            facts["mixed"] = " ".join(f"{number:.10g}" for number in model.mixed or ())
            facts["sixteen_bit"] = " ".join(model.sixteen_bit)
            facts["own_bits"] = f"{model.own_bits:.6g}"
            plain = {"expert_step": 1, "dense_layers": 0, "window_layers": 0, "other_parameters": 0.0}
            yield {
                name: ""
                if facts.get(name) in (None, 0, plain.get(name)) and name != "tied"
                else _cell(facts[name])
                for name in COLUMNS
            }


def _cell(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)
