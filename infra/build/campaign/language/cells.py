"""Which cells the campaign has, in which order. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from advisor.records import asdict

VLLM, TRANSFORMERS = "vllm", "transformers"


class Server(Struct, frozen=True, kw_only=True):
    """What is loaded once for many cells. `graphs`: CUDA graphs are used."""

    engine: str
    model: str
    precision: str
    graphs: bool


class Cell(Struct, frozen=True, kw_only=True):
    """So many requests in flight (of plain transformers: sequences in a batch), each of so many
    tokens in and out."""

    server: Server
    input_tokens: int
    output_tokens: int
    concurrency: int

    @property
    def key(self) -> str:
        """The same for the same cell in every run."""
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
        """As the file has it."""
        return {
            **asdict(self.server),
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "concurrency": self.concurrency,
        }


class Grid(Struct, frozen=True, kw_only=True):
    """The campaign's size. `lengths` are (in, out); `cell_seconds` is what a cell takes."""

    shapes: Mapping[str, Mapping[str, Any]]
    lengths: tuple[tuple[int, int], ...]
    concurrency: tuple[int, ...]
    cell_seconds: float
    start_seconds: float


_LENGTHS = ((1024, 128), (128, 128), (1024, 1024), (128, 1024), (4096, 256), (8192, 256))
_CONCURRENCY = (1, 4, 16, 64, 256, 2, 8, 32, 128)


def full_grid(shapes: Mapping[str, Mapping[str, Any]]) -> Grid:
    """About 300 rows in 40 minutes on one large GPU."""
    return Grid(
        shapes=shapes, lengths=_LENGTHS, concurrency=_CONCURRENCY, cell_seconds=6.0, start_seconds=150.0
    )


def quick_grid(shapes: Mapping[str, Mapping[str, Any]]) -> Grid:
    """A trial of the campaign itself."""
    return Grid(
        shapes=shapes, lengths=((32, 8), (64, 8)), concurrency=(1, 2), cell_seconds=1.0, start_seconds=60.0
    )


def servers(grid: Grid, engine: str, *, has_fp8: bool, has_cuda: bool) -> list[Server]:
    """The usual ones first: time may end after any. Plain transformers has no fp8, a CPU neither
    that nor graphs."""
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
    """Coarse over everything first, the steps between later: a cell for each length and number of
    requests that the model's positions hold."""
    longest = grid.shapes[server.model]["max_position_embeddings"]
    for count in grid.concurrency:
        for given, wanted in grid.lengths:
            if given + wanted <= longest:
                yield Cell(server=server, input_tokens=given, output_tokens=wanted, concurrency=count)


def missing(every: Iterator[Cell], done: Mapping[str, Mapping[str, Any]]) -> list[Cell]:
    """Those without a row; none above a batch that found no memory for the same lengths."""
    full = [row for row in done.values() if row["status"] == "out_of_memory"]
    return [one for one in every if one.key not in done and not _is_beyond(one, full)]


def _is_beyond(cell: Cell, full: Sequence[Mapping[str, Any]]) -> bool:
    same = {**cell.row(), "concurrency": None}
    return any(
        {**{name: row[name] for name in same}, "concurrency": None} == same
        and cell.concurrency >= row["concurrency"]
        for row in full
    )
