"""The bundled table of language models: a line for each configuration, read late.

`advisor/data/language/SOURCES.md` says where its lines come from; `python -m
advisor.infra.build.language_models`
builds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from advisor.domain.generation import LlmPrecision
from advisor.errors import DataError
from advisor.models.language.families import FAMILIES
from advisor.models.language.formats import BITS
from advisor.models.language.language_model import Indexer, LanguageModel, Latent

TABLE = Path(__file__).parents[3] / "advisor" / "data" / "language" / "models.csv"
# `names` are joined by semicolons: checkpoints with the same sizes. `uncovered` is the kind of
# layers that no formula here covers; of such a model nothing else is known.
COLUMNS = (
    "names",
    "family",
    "uncovered",
    "layers",
    "hidden",
    "heads",
    "kv_heads",
    "head_dim",
    "ffn",
    "vocab",
    "tied",
    "experts",
    "experts_per_token",
    "shared_experts",
    "expert_ffn",
    "dense_layers",
    "expert_step",
    "kv_lora",
    "q_lora",
    "rope",
    "nope",
    "v",
    "index_heads",
    "index_head_dim",
    "index_top_k",
    "window",
    "window_layers",
    "max_context",
    "own_precision",
    "own_bits",
    "sixteen_bit",
    "other_parameters",
    "source",
)
Cells = Mapping[str, str]


def table_cells(table: Path = TABLE) -> Iterator[Cells]:
    """The cells of each line by the names of their columns; `DataError` where there are none."""
    try:
        header, *lines = table.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise DataError(
            "the table of language models cannot be read: {path}",
            path=str(table),
            hint="install the package again (in a checkout: python -m advisor.infra.build.language_models)",
        ) from error
    columns = header.split(",")
    for line in lines:
        yield dict(zip(columns, line.split(","), strict=True))


@cache
def bundled_cells() -> Mapping[str, Cells]:
    """The cells of each bundled model by its name."""
    return {name: cells for cells in table_cells() for name in cells["names"].split(";")}


def model_of_cells(name: str, cells: Cells) -> LanguageModel:
    """The model of one line of the table that is covered."""
    precision = LlmPrecision(cells["own_precision"])

    def whole(column: str, default: int = 0) -> int:
        return int(float(cells[column])) if cells[column] else default

    latent = None
    if cells["kv_lora"]:
        latent = Latent(*(whole(part) for part in Latent._fields))
    indexer = None
    if cells["index_top_k"]:
        parts = ("index_heads", "index_head_dim", "index_top_k")
        indexer = Indexer(*(whole(part) for part in parts))
    return LanguageModel(
        name=name,
        family=cells["family"],
        layers=whole("layers"),
        hidden=whole("hidden"),
        heads=whole("heads"),
        kv_heads=whole("kv_heads"),
        head_dim=whole("head_dim"),
        ffn=whole("ffn"),
        gated=_gated(cells["family"]),
        vocab=whole("vocab"),
        tied=cells["tied"] == "1",
        experts=whole("experts"),
        experts_per_token=whole("experts_per_token"),
        shared_experts=float(cells["shared_experts"] or 0),
        expert_ffn=whole("expert_ffn"),
        dense_layers=whole("dense_layers"),
        expert_step=whole("expert_step", 1),
        latent=latent,
        indexer=indexer,
        window=whole("window") or None,
        window_layers=whole("window_layers"),
        max_context=whole("max_context") or None,
        own_precision=precision,
        own_bits=float(cells["own_bits"] or BITS[precision]),
        sixteen_bit=tuple(cells["sixteen_bit"].split()),
        other_parameters=float(cells["other_parameters"] or 0),
        source=cells["source"],
    )


def _gated(family: str) -> bool:
    return FAMILIES[family].gated
