"""The campaign's cells: which there are, their order and the shapes of the models.

One shape stands for dense models and one for mixtures of experts, as in their config.json. Weights are
random: step times depend on shapes and formats, not on values. With random weights, a mixture of experts
routes tokens evenly."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from advisor.records import asdict

Config = Mapping[str, Any]

# https://huggingface.co/meta-llama/Llama-3.1-8B and Qwen/Qwen3-30B-A3B, config.json.
SHAPES: Mapping[str, Config] = MappingProxyType(
    {
        "meta-llama/Llama-3.1-8B": {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": 128256,
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-5,
            "rope_theta": 500000.0,
            "max_position_embeddings": 131072,
            "tie_word_embeddings": False,
        },
        "Qwen/Qwen3-30B-A3B": {
            "architectures": ["Qwen3MoeForCausalLM"],
            "model_type": "qwen3_moe",
            "vocab_size": 151936,
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "moe_intermediate_size": 768,
            "num_hidden_layers": 48,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "head_dim": 128,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "rope_theta": 1000000.0,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "norm_topk_prob": True,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
            "max_position_embeddings": 40960,
            "tie_word_embeddings": False,
        },
    }
)
# A trial run of the campaign, which works on any CPU; none of its rows is used as data.
TINY_SHAPES: Mapping[str, Config] = MappingProxyType(
    {
        "tiny-dense": {
            **SHAPES["meta-llama/Llama-3.1-8B"],
            "vocab_size": 512,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
        },
        "tiny-experts": {
            **SHAPES["Qwen/Qwen3-30B-A3B"],
            "vocab_size": 512,
            "hidden_size": 64,
            "intermediate_size": 128,
            "moe_intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "num_experts": 8,
            "num_experts_per_tok": 2,
        },
    }
)
# One token for each byte, so that any text is a valid prompt.
_BYTES = 256


def write_model_folder(config: Config, folder: Path) -> Path:
    """Write the files that a server loads, except weights: the configuration and a tokenizer with as many
    tokens as the model. There is no end token, so answers always reach their full length."""
    folder.mkdir(parents=True, exist_ok=True)
    ends = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    whole = {**config, **ends, "dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(whole))
    (folder / "generation_config.json").write_text(json.dumps(ends))
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer(config["vocab_size"])))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    return folder


def _tokenizer(size: int) -> dict[str, Any]:
    """A tokenizer.json of Hugging Face, version 1.0: byte-level BPE without merges. Tokens above 255 are
    made-up words that occur in no text."""
    words = [*_byte_letters(), *(f"<{number}>" for number in range(_BYTES, size))]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {word: n for n, word in enumerate(words)},
            "merges": [],
        },
    }


def _byte_letters() -> list[str]:
    """A printable character for each byte, following GPT-2's byte-level BPE."""
    shown = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(_BYTES) if byte not in shown]
    return [chr(byte) if byte in shown else chr(_BYTES + hidden.index(byte)) for byte in range(_BYTES)]


VLLM, TRANSFORMERS = "vllm", "transformers"


class Server(Struct, frozen=True, kw_only=True):
    """A server configuration, loaded once for many cells. `graphs` says whether CUDA graphs are used."""

    engine: str
    model: str
    precision: str
    graphs: bool


class Cell(Struct, frozen=True, kw_only=True):
    """One load: a number of requests in flight (plain transformers: sequences in a batch), and the input and
    output tokens of each."""

    server: Server
    input_tokens: int
    output_tokens: int
    concurrency: int

    @property
    def key(self) -> str:
        """An identifier that is the same for the same cell in every run."""
        one = self.server
        return "/".join(
            (
                one.engine,
                one.model,
                one.precision,
                "graphs" if one.graphs else "eager",
                f"{self.input_tokens}+{self.output_tokens}",
                f"b{self.concurrency}",
            )
        )

    def row(self) -> dict[str, Any]:
        """The cell's columns in the campaign's file."""
        return {
            **asdict(self.server),
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "concurrency": self.concurrency,
        }


class Grid(Struct, frozen=True, kw_only=True):
    """The campaign's size. `lengths` are (tokens in, tokens out); `cell_seconds` is the time per cell."""

    shapes: Mapping[str, Mapping[str, Any]]
    lengths: tuple[tuple[int, int], ...]
    concurrency: tuple[int, ...]
    cell_seconds: float
    start_seconds: float


_LENGTHS = ((1024, 128), (128, 128), (1024, 1024), (128, 1024), (4096, 256), (8192, 256))
_CONCURRENCY = (1, 4, 16, 64, 256, 2, 8, 32, 128)


def full_grid(shapes: Mapping[str, Mapping[str, Any]]) -> Grid:
    """The full campaign: about 300 rows in 40 minutes on one large GPU."""
    return Grid(
        shapes=shapes, lengths=_LENGTHS, concurrency=_CONCURRENCY, cell_seconds=6.0, start_seconds=150.0
    )


def quick_grid(shapes: Mapping[str, Mapping[str, Any]]) -> Grid:
    """A small grid for trying out the campaign."""
    return Grid(
        shapes=shapes, lengths=((32, 8), (64, 8)), concurrency=(1, 2), cell_seconds=1.0, start_seconds=60.0
    )


def servers(grid: Grid, engine: str, *, has_fp8: bool, has_cuda: bool) -> list[Server]:
    """Servers in the order to measure them, most common first, since time may run out after any. Plain
    transformers has no fp8; a CPU has neither fp8 nor CUDA graphs."""
    settings = [("bf16", has_cuda)]
    if has_fp8 and engine == VLLM:
        settings.append(("fp8", True))
    if has_cuda:
        settings.append(("bf16", False))
    return [
        Server(engine=engine, model=model, precision=precision, graphs=graphs)
        for precision, graphs in settings
        for model in grid.shapes
    ]


def cells(server: Server, grid: Grid) -> Iterator[Cell]:
    """A cell for each length and number of requests within the model's maximum positions: a coarse grid over
    everything first, then the values between."""
    longest = grid.shapes[server.model]["max_position_embeddings"]
    for count in grid.concurrency:
        for given, wanted in grid.lengths:
            if given + wanted <= longest:
                yield Cell(server=server, input_tokens=given, output_tokens=wanted, concurrency=count)


def missing(every: Iterator[Cell], done: Mapping[str, Mapping[str, Any]]) -> list[Cell]:
    """Cells without a row, except batches larger than one that ran out of memory at the same lengths."""
    full = [row for row in done.values() if row["status"] == "out_of_memory"]
    return [one for one in every if one.key not in done and not _is_beyond(one, full)]


def _is_beyond(cell: Cell, full: Sequence[Mapping[str, Any]]) -> bool:
    same = {**cell.row(), "concurrency": None}
    return any(
        {**{name: row[name] for name in same}, "concurrency": None} == same
        and cell.concurrency >= row["concurrency"]
        for row in full
    )
