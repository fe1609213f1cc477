"""The bundled table of networks, by name: kernels of a step, sizes and memory, without torch.

`networks.csv` has a line for each network at each captured input; `operations.npy` has the kernels of their
steps and stays on disk, memory-mapped, until a network is asked for. Built by `python -m
advisor.infra.build.networks build`; `advisor.models.zoo.step_facts` says what is captured, and how."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from copy import copy
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from advisor.domain import DataKind, Task, Workload
from advisor.domain.workload import names_a_file
from advisor.errors import DataError, UsageError, unknown_name
from advisor.messages import Message
from advisor.models.network_columns import KINDS, MEMORY_COLUMNS, MemoryFacts

FOLDER = Path(__file__).parents[3] / "advisor" / "data" / "performance"
NETWORKS, OPERATIONS = "networks.csv", "operations.npy"
# Common names of networks that differ much from their names in libraries.
SPELLINGS = "spellings.csv"
# Libraries in the order in which a name without a library is looked up.
LIBRARIES = ("torchvision", "timm", "transformers", "diffusers", "advisor")
_ON_HUBS = ("timm", "transformers", "diffusers")
# One row is a group of similar kernels, with their means: FLOPs (2 x MAC) and elements read and
# written per sample, elements moved per batch, and bytes per element x 32 in mixed precision.
# `reduction` x `width` is the matrix that each output row is multiplied with.
OPERATION = np.dtype(
    [
        ("kind", "u1"),
        ("backward", "u1"),
        ("count", "<u2"),
        ("flops", "<f4"),
        ("sample_elements", "<f4"),
        ("fixed_elements", "<f4"),
        ("amp_sample_width", "u1"),
        ("amp_fixed_width", "u1"),
        ("reduction", "<u2"),
        ("width", "<u2"),
    ]
)
_TEXTS = ("library", "family", "input", "sample")
_NUMBERS = ("parameters", "weight_tensors", "weights_mib", "trained_mib", "input_bytes")
_ROWS = ("inference_first", "inference_rows", "training_first", "training_rows")
COLUMNS = ("name", *_TEXTS, "data", *_NUMBERS, *_ROWS, *(f"{name}_mib" for name in MEMORY_COLUMNS), "aliases")
# Attention within windows of one size does not grow with the image.
_WINDOWED = re.compile(
    r"swin|maxx?_?vit|hiera|nest$|da_vit|longformer|global_context_vit|coa_t|modernbert|gpt_neo$"
)
# Decoders write text with a pass for each token; a row of the table is one pass over a whole sequence.
_WRITING = re.compile(r"whisper|^t5|bart|gpt|opt|pythia|m2m100|marian|pegasus|gnmt|s2s|_mt$|transformer_big")
# Pixels to a side of a latent, in every autoencoder of the table.
_LATENT = 8
_UNFUSED = ("attention_math", "attention_masked", "softmax")
_FLOPS_PER_GMAC = 2e9
_NO_MEMORY = MemoryFacts(**dict.fromkeys(MEMORY_COLUMNS, 0.0))

Rows = NDArray[Any]
_Index = Mapping[str, list[tuple[str, str]]]


class NetworkFacts(Struct, frozen=True, kw_only=True):
    """One network at one input: its properties, the kernels of its steps, and their memory.

    `input` is the size of a sample: `3x224x224` for an image, `seq:128` for tokens, or a tensor's sizes;
    `input_bytes` are copied to the GPU per sample, in fp32. `sample` is what rates count: an image, a
    sequence or a denoising step. `family` is the architecture's class. Weights are parameters and buffers in
    fp32. `kernels` are read-only rows of the table by task, without training for a network that cannot be
    trained. `scaled` is the captured input if the facts were scaled from it, else empty. `stand_in` are
    another network's rows, used to compare GPUs where the network's kernels are unknown."""

    name: str
    input: str
    input_bytes: float
    parameters: int
    kernels: Mapping[Task, Rows]
    library: str = "torchvision"
    family: str = ""
    sample: str = "image"
    data: DataKind = DataKind.IMAGE
    weight_tensors: int = 0
    weights_mib: float = 0.0
    memory: MemoryFacts = _NO_MEMORY
    scaled: str = ""
    stand_in: Mapping[Task, Rows] = field(default_factory=dict)

    # Arrays have no hash.
    __hash__ = object.__hash__

    @property
    def key(self) -> str:
        """The name that measurements are stored under; networks of one name in several libraries share it."""
        return self.name.rpartition("/")[2]

    def step_rows(self, task: Task) -> Rows:
        """The kernels from which a GPU's step is predicted; `KeyError` for a task without any."""
        return self.kernels[task] if task in self.kernels else self.stand_in[task]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The sizes in `input`; for tokens, their number."""
        return tuple(map(int, re.findall(r"\d+", self.input.rpartition(":")[2])))

    @property
    def pixels(self) -> int:
        """Pixels of an image at the network's input size; 0 if the network takes no images."""
        if self.data is not DataKind.IMAGE:
            return 0
        return self.input_shape[-1] * self.input_shape[-2]

    @property
    def writes_text(self) -> bool:
        """True if people use it to write text token by token, which one pass over a sequence does not do."""
        return bool(_WRITING.search(self.family))

    @property
    def trains(self) -> bool:
        """True if it has a training step; true also if nothing is known about its steps."""
        return not self.kernels or Task.TRAINING in self.kernels

    @property
    def gmacs(self) -> float:
        """Multiply-accumulates of one sample's inference, in billions; 0 where unknown."""
        rows = self.kernels.get(Task.INFERENCE)
        if rows is None:
            return 0.0
        return float((rows["flops"].astype(float) * rows["count"]).sum()) / _FLOPS_PER_GMAC

    @property
    def has_channels(self) -> bool:
        """True if its input has channels and two dimensions, so that channels_last applies."""
        return len(self.input_shape) == 3


class NetworkTable:
    """Networks by name, with at most one of the user's; a line is parsed when its network is needed."""

    def __init__(self, folder: Path = FOLDER) -> None:
        """Raises `DataError` where the table is missing or of another version."""
        self._own: NetworkFacts | None = None
        self._found: dict[tuple[str, str | None], NetworkFacts] = {}
        try:
            self._text = (folder / NETWORKS).read_text()
            self._operations: Rows = np.load(folder / OPERATIONS, mmap_mode="r")
            lines = (FOLDER / SPELLINGS).read_text().splitlines()[1:]
        except (OSError, ValueError) as error:
            raise DataError(
                "the network table cannot be read ({error})", hint=_WAY_OUT, error=error
            ) from error
        self._spellings = dict(line.split(",") for line in lines)
        header = self._text.partition("\n")[0]
        if tuple(header.split(",")) != COLUMNS or self._operations.dtype != OPERATION:
            raise DataError("{folder} is of another version", hint=_WAY_OUT, folder=folder / NETWORKS)

    @cached_property
    def _places(self) -> dict[tuple[str, str], list[str]]:
        """The lines of each network, by library and name."""
        places: dict[tuple[str, str], list[str]] = {}
        for line in self._text.splitlines()[1:]:
            name, library, _ = line.split(",", 2)
            places.setdefault((library, name), []).append(line)
        return places

    def with_own(self, own: NetworkFacts) -> NetworkTable:
        """The table with a network of the user's, which takes precedence over others of its name."""
        table = copy(self)
        table._own = own
        return table

    @property
    def names(self) -> tuple[str, ...]:
        """The shortest unambiguous name of every network, sorted; then that of the user's network."""
        return (*self._names, self._own.name) if self._own else self._names

    @cached_property
    def _names(self) -> tuple[str, ...]:
        first = {name: library for library, name in sorted(self._places, key=_rank, reverse=True)}
        return tuple(
            sorted(name if first[name] == library else f"{library}/{name}" for library, name in self._places)
        )

    def of(self, workload: Workload) -> NetworkFacts:
        """Facts of a workload's network at its input; raises as `find` does."""
        return self.find(workload.network, workload.input)

    def __getitem__(self, name: str) -> NetworkFacts:
        """Facts of `name` at its usual input; `UsageError` with similar names if it is unknown."""
        return self.find(name)

    def find(self, name: str, input: str | None = None) -> NetworkFacts:
        """The network called `name`, at an input or at its usual one, under its shortest unambiguous name.

        A name is that of a library, `library/name`, a Hugging Face checkpoint or a common spelling
        (`ResNet-50`, `ViT-B/16`). An input is such as `3x384x384`, `384px`, `800x1333`, `seq:384` or `512px
        latent 64x64`; if it was not captured, facts are scaled from the nearest one. Raises `UsageError` with
        similar names for an unknown name, and for an input that the network does not take."""
        if self._own and self._is_own(name):
            if input not in (None, self._own.input):
                raise UsageError(
                    "{name} is known at {input} alone",
                    hint="leave out --input",
                    name=name,
                    input=self._own.input,
                )
            return self._own
        if (name, input) not in self._found:
            self._found[name, input] = self._at(name, input)
        return self._found[name, input]

    def _at(self, name: str, input: str | None) -> NetworkFacts:
        variants = self._places[self._known(name)]
        if input is None:
            return self._network(variants[0])
        captured = [self._network(variant) for variant in variants]
        wanted = _Input.parse(input, of_latents=captured[0].sample == "step")
        for entry in captured:
            if _Input.parse(entry.input).fits(wanted):
                return entry
        usable = [entry for entry in captured if _Input.parse(entry.input).scales_to(wanted)]
        if not usable:
            existing = ", ".join(entry.input for entry in captured)
            raise UsageError(
                "{name} does not take an input of {input}",
                hint=Message("it takes such as {existing}", existing=existing),
                name=name,
                input=input,
            )
        nearest = min(usable, key=lambda entry: abs(math.log(_Input.parse(entry.input).ratio(wanted))))
        return self.scaled(nearest, str(wanted))

    def knows(self, name: str) -> bool:
        """True if `find` knows the name."""
        return self._is_own(name) or self._place(name) is not None

    def other_names(self, name: str) -> tuple[str | None, str | None]:
        """The name that `name` resolves to if it differs, and a network of a similar name in an earlier
        library (`resnet50` for `resnet-50`); None for either that does not apply."""
        if self._is_own(name) or not self.knows(name):
            return None, None
        network, plain = self.find(name), name.strip().casefold()
        key = network.key
        owner, _, own = plain.rpartition("/")
        # Only hubs put an owner's name before a network's.
        is_owned = owner in LIBRARIES or (owner and network.library in _ON_HUBS)
        is_own = key.casefold() in ((plain, own) if is_owned else (plain,))
        first = min(self._by_name.get(_loose(name), ()) if plain == key else (), key=_rank, default=None)
        return (
            None if is_own or plain == network.name.casefold() else network.name,
            first[1] if first and first[1] != key else None,
        )

    def _is_own(self, name: str) -> bool:
        return self._own is not None and name == self._own.name

    def scaled(self, network: NetworkFacts, input: str) -> NetworkFacts:
        """The network scaled to an image size or text length at which it was not captured.

        Work and memory grow with pixels or tokens; attention over all of them grows with their square."""
        old, new = _Input.parse(network.input), _Input.parse(input)
        ratio = old.ratio(new)
        is_global = not _WINDOWED.search(network.family)
        kernels = {task: _scaled_rows(rows, ratio, is_global) for task, rows in network.kernels.items()}
        before, after = ([*each.values()][-1] for each in (network.kernels, kernels))
        grown = _moved(after) / max(_moved(before), 1.0)
        growth = {name: 1.0 if "fixed" in name else grown for name in MEMORY_COLUMNS} | {"output": ratio}
        memory = MemoryFacts(**{name: getattr(network.memory, name) * by for name, by in growth.items()})
        return replace(
            network,
            input=str(old.like(new)),
            input_bytes=network.input_bytes * ratio,
            memory=memory,
            kernels=kernels,
            scaled=network.input,
        )

    def _known(self, name: str) -> tuple[str, str]:
        if source := self._place(name):
            return source
        raise unknown_name("network", name, self.names, listed_by="advisor networks", field="model")

    def _place(self, name: str) -> tuple[str, str] | None:
        if names_a_file(name) or "," in name:
            return None
        plain = name.strip().removeprefix("hf_hub:").removeprefix("hf-hub:")
        prefix, _, rest = plain.rpartition("/")
        library = prefix.casefold().rpartition("/")[2]
        if library in LIBRARIES:
            return self._in(rest, (library,))
        result = self._in(plain, LIBRARIES)
        if result is None and prefix:
            # An organisation's name before a checkpoint's.
            result = self._in(rest, ("transformers", "diffusers", *LIBRARIES))
        return result

    def _in(self, name: str, libraries: Iterable[str]) -> tuple[str, str] | None:
        """The (library, name) by exact name, then by other names, then without a weights tag; else None."""
        for library in libraries:
            if (library, name) in self._places:
                return library, name
        spelt, tagless = self._spellings.get(_loose(name), ""), name.partition(".")[0]
        for names, written in (
            (self._by_name, spelt),
            (self._by_name, name),
            (self._by_alias, name),
            (self._by_name, tagless),
            (self._by_alias, tagless),
        ):
            alike = dict(names.get(_loose(written), ()))
            for library in libraries:
                if library in alike:
                    return library, alike[library]
        return None

    @cached_property
    def _by_name(self) -> _Index:
        return _indexed((source[1], source) for source in self._places)

    @cached_property
    def _by_alias(self) -> _Index:
        aliases = ((lines[0].rpartition(",")[2], source) for source, lines in self._places.items())
        return _indexed((alias, source) for each, source in aliases for alias in each.split(";") if alias)

    def _network(self, line: str) -> NetworkFacts:
        cells: dict[str, Any] = dict(zip(COLUMNS, line.split(","), strict=True))

        def rows(task: Task) -> Rows:
            first = int(cells[f"{task}_first"])
            # A plain array, since each access to a memory-mapped one creates another memory-mapped array.
            return np.asarray(self._operations[first : first + int(cells[f"{task}_rows"])])

        kernels = {task: rows(task) for task in (Task.INFERENCE, Task.TRAINING)}
        library, name = cells["library"], cells["name"]
        is_shortest = self._place(name) == (library, name)
        return NetworkFacts(
            **{name: cells[name] for name in _TEXTS},
            name=name if is_shortest else f"{library}/{name}",
            data=DataKind(cells["data"]),
            parameters=int(cells["parameters"]),
            weight_tensors=int(cells["weight_tensors"]),
            weights_mib=float(cells["weights_mib"]),
            input_bytes=float(cells["input_bytes"]),
            memory=MemoryFacts(**{name: float(cells[f"{name}_mib"]) for name in MEMORY_COLUMNS}),
            kernels={task: each for task, each in kernels.items() if len(each)},
        )


_WAY_OUT = "install the package again (in a checkout: python -m advisor.infra.build.networks build)"


@cache
def bundled_networks() -> NetworkTable:
    """The table that ships, opened once."""
    return NetworkTable()


class _Input(Struct, frozen=True):
    """Sizes of an input; `word` is the prefix before them, as `seq` in `seq:128`."""

    word: str
    sizes: tuple[int, ...]

    @classmethod
    def parse(cls, text: str, *, of_latents: bool = False) -> _Input:
        """Parses `3x224x224`, `224px`, `800x1333`, `seq:128`, `512px latent 64x64` and the like.

        With `of_latents`, pixels are eight to a side of a latent."""
        plain = text.lower().partition("latent")[2] or text.lower()
        plain = re.sub(r"(?<=.)\(.*", "", plain).strip(" ()~").replace(",", "x")
        match = re.fullmatch(r"(?:([a-z]+)[ :])?\s*([\d x+*]+?)\)?\s*(px)?", plain)
        if not match:
            raise UsageError("input '{text}' is not such as 3x224x224, 224px or seq:128", text=text)
        sizes = tuple(int(entry) for entry in re.findall(r"\d+", match[2]))
        if of_latents and match[3]:
            sizes = tuple(size // _LATENT for size in sizes)
        return cls(match[1] or "", sizes)

    def __str__(self) -> str:
        return (f"{self.word}:" if self.word else "") + "x".join(map(str, self.sizes))

    def like(self, other: _Input) -> _Input:
        """The size of `other`, completed from this input where it is abbreviated, as `384px` is."""
        if self.word or len(other.sizes) == len(self.sizes):
            return _Input(self.word, other.sizes)
        places = other.sizes * (2 if len(other.sizes) == 1 else 1)
        return _Input("", (*self.sizes[: -len(places)], *places))

    def fits(self, other: _Input) -> bool:
        """True if `other` equals this input, possibly abbreviated or with width and height swapped."""
        if not self.scales_to(other):
            return False
        like = self.like(other).sizes
        return like == self.sizes or (*like[:-2], *like[:-3:-1]) == self.sizes

    def scales_to(self, other: _Input) -> bool:
        """True if the two inputs are of one form and differ in size alone."""
        if self.word or other.word:
            return (other.word in ("", self.word)) and len(other.sizes) == len(self.sizes)
        if len(other.sizes) > len(self.sizes) or len(self.sizes) < 2:
            return False
        channels = len(self.sizes) - 2
        return self.like(other).sizes[:channels] == self.sizes[:channels]

    def ratio(self, other: _Input) -> float:
        """Pixels (or tokens) of `other`, divided by those of this input."""
        return math.prod(self.like(other).sizes) / math.prod(self.sizes)


def _scaled_rows(rows: Rows, ratio: float, is_global: bool) -> Rows:
    scaled = np.array(rows)
    attention = _is(rows, "attention", *_UNFUSED[:2])
    squared = ratio * ratio if is_global and attention.any() else ratio
    scaled["flops"] *= np.where(attention, squared, ratio)
    scaled["sample_elements"] *= np.where(_is(rows, *_UNFUSED), squared, ratio)
    longer = np.minimum(np.round(rows["width"] * ratio), np.iinfo(np.uint16).max)
    grows = _is(rows, "upsample") | (attention & is_global)
    scaled["width"] = np.where(grows, longer, rows["width"])
    return scaled


def _is(rows: Rows, *kinds: str) -> NDArray[np.bool_]:
    return np.isin(rows["kind"], [KINDS.index(kind) for kind in kinds])


def _moved(rows: Rows) -> float:
    return float((rows["sample_elements"].astype(float) * rows["count"]).sum())


def _rank(source: tuple[str, str]) -> int:
    return LIBRARIES.index(source[0])


def _indexed(named: Iterable[tuple[str, tuple[str, str]]]) -> _Index:
    """The networks (library, name) of each name, by its loose spelling."""
    result: dict[str, list[tuple[str, str]]] = {}
    for name, source in named:
        result.setdefault(_loose(name), []).append(source)
    return result


@cache
def _loose(name: str) -> str:
    """The name in lower case without signs between words; digits stay separate (1.6 is not 16)."""
    joined = re.sub(r"(?<!\d)[-_ ./]+|[-_ ./]+(?!\d)", "", name.casefold())
    return re.sub(r"[-_ ./]+", "_", joined)
