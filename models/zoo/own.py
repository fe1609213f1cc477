"""A user's own network, from `path/to/file.py:build`; docs/reference/networks.md has the contract.

Torch is imported when it is built. The file is loaded under a name of its own, and every fault in it is a
`UsageError` of one line that says what to change."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from advisor.domain.workload import own_file
from advisor.errors import UsageError
from advisor.models.zoo.kernels import tensors_in
from advisor.models.zoo.networks import NetworkInfo

if TYPE_CHECKING:
    import torch


# Top-level names of this product, all but the first in a checkout only.
OUR_NAMES = ("advisor", "benchmarks", "infra", "models", "sweeps", "tests")


class TheirImports(Struct, frozen=True):
    """Folders in which a user's imports are looked up, and what was loaded in place of ours."""

    folders: tuple[Path, ...]
    clashing: tuple[str, ...]
    _loaded: dict[str, ModuleType] = field(default_factory=dict)

    @classmethod
    def of(cls, folders: Sequence[Path]) -> TheirImports:
        """The folders in order, doubles left out; our own checkout is no user's repository."""
        ours = Path(__file__).parents[3]
        theirs = tuple(dict.fromkeys(folders))
        foreign = [folder for folder in theirs if folder != ours]
        return cls(theirs, tuple(name for name in OUR_NAMES if _has(foreign, name)))

    @contextmanager
    def first(self) -> Iterator[None]:
        """While inside, imports find the user's packages; their folders come last for others."""
        ours = _taken(self.clashing)
        sys.modules.update(self._loaded)
        added = [str(folder) for folder in self.folders if str(folder) not in sys.path]
        finder = _Finder(self)
        sys.meta_path.insert(0, finder)
        sys.path.extend(added)
        try:
            yield
        finally:
            sys.meta_path.remove(finder)
            for folder in added:
                sys.path.remove(folder)
            self._loaded.update(_taken(self.clashing))
            sys.modules.update(ours)


class _Finder(MetaPathFinder):
    """Finds the clashing names in the user's folders, before Python looks anywhere else."""

    def __init__(self, imports: TheirImports) -> None:
        self._imports = imports

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The user's package of that name; None leaves it to Python."""
        if path is not None or fullname not in self._imports.clashing:
            return None
        ours = Path(__file__).parents[3]
        folders = [str(folder) for folder in self._imports.folders if folder != ours]
        return PathFinder.find_spec(fullname, folders, target)


def _has(folders: Sequence[Path], name: str) -> bool:
    return any((folder / name).is_dir() or (folder / f"{name}.py").is_file() for folder in folders)


def _taken(names: Sequence[str]) -> dict[str, ModuleType]:
    """The loaded modules of these packages, which are removed from `sys.modules`."""
    result = [name for name in sys.modules if name.split(".")[0] in names]
    return {name: sys.modules.pop(name) for name in result}


DEFAULT_INPUT_SHAPE = (3, 224, 224)
_CHECKED_BATCH = 2


class OwnNetwork(Struct, frozen=True):
    """A network in a user's file, run as those of the zoo are.

    `fingerprint` changes with the file, so that rates of two versions stay apart."""

    reference: str
    fingerprint: str
    info: NetworkInfo
    _module: ModuleType
    _function: Callable[[], Any]
    _imports: TheirImports

    @property
    def makes_batches(self) -> bool:
        """True if the file has an example_batch: then photographs may not be what it takes."""
        return hasattr(self._module, "example_batch")

    def build(self) -> torch.nn.Module:
        """A new network on the CPU; a `UsageError` when the user's function makes none.

        A forward pass on a batch gives lazy layers their sizes."""
        import torch

        with self._imports.first(), self._user_errors("fails"):
            network = self._function()
        if not isinstance(network, torch.nn.Module):
            raise UsageError(
                f"{self.reference} returns {_kind(network)}, not a torch.nn.Module",
                hint="end the function with `return network`",
            )
        if _is_lazy(network):
            self._give_sizes(network)
        return network

    def _give_sizes(self, network: torch.nn.Module) -> None:
        import torch

        inputs, _ = self.synthetic_batch(_CHECKED_BATCH, torch.get_default_device())
        way_out = "call it once on a batch in build()"
        for trains in (True, False):
            refused = self._user_errors("has lazy layers that get no size from a batch", way_out)
            with torch.no_grad(), self._imports.first(), refused:
                self.forward(network.train(trains), inputs)
        if _is_lazy(network):
            raise UsageError(
                f"{self.reference} has lazy layers that its forward pass does not reach", hint=way_out
            )

    def synthetic_batch(self, batch_size: int, device: str | torch.device = "cpu") -> tuple[Any, Any]:
        """The file's example_batch(batch_size), or noise of its INPUT_SHAPE and class numbers."""
        import torch

        from advisor.models.zoo.capture import to_device

        example = getattr(self._module, "example_batch", None)
        if example is None:
            noise = torch.rand(batch_size, *self.info.input_shape, device=device)
            return noise, torch.arange(batch_size, device=device)
        with self._imports.first(), self._user_errors("example_batch fails"):
            batch = example(batch_size)
        if not (isinstance(batch, tuple) and len(batch) == 2):
            raise UsageError(
                f"{self.reference}: example_batch returns {_kind(batch)}",
                hint="let it return (inputs, targets)",
            )
        inputs, targets = batch
        # What a tokenizer returns is like a dictionary.
        inputs = dict(inputs) if isinstance(inputs, Mapping) else inputs
        return to_device(inputs, device), to_device(targets, device)

    def synthetic_targets(self, inputs: Any) -> Any:
        """Targets for a batch of the size of `inputs`, where a data set has none that fit."""
        first = next(tensors_in(inputs))
        return self.synthetic_batch(len(first), first.device)[1]

    def forward(self, network: torch.nn.Module, inputs: Any) -> Any:
        """The network's outputs; tuples unpack by position and dictionaries by name."""
        arguments, keywords = _arguments(network, inputs)
        return network(*arguments, **keywords)

    def training_loss(self, network: torch.nn.Module, inputs: Any, targets: Any) -> torch.Tensor:
        """The file's loss(outputs, targets), or the one that the network itself returns, or cross
        entropy of its logits: (batch, classes), or with a class for each place."""
        outputs = self.forward(network, inputs)
        loss = getattr(self._module, "loss", None)
        return loss(outputs, targets) if loss else self._usual_loss(outputs, targets)

    def check(self) -> None:
        """Build it and try a forward pass and a loss on the CPU with two rows.

        Raises `UsageError` for whatever goes wrong; runs that follow raise torch's own errors, so that a GPU
        out of memory is not taken for a fault of the file."""
        import torch

        network = self.build().eval()
        inputs, targets = self.synthetic_batch(_CHECKED_BATCH)
        shape = tuple(inputs.shape) if isinstance(inputs, torch.Tensor) else _kind(inputs)
        advice = "set INPUT_SHAPE, or write example_batch(batch_size), in the file"
        with torch.no_grad(), self._imports.first():
            with self._user_errors(f"does not take an input of {shape}", advice):
                self.forward(network, inputs)
            with self._user_errors("has a loss that fails", "see loss(outputs, targets) in the file"):
                loss = self.training_loss(network, inputs, targets)
        if not isinstance(loss, torch.Tensor) or loss.ndim:
            raise UsageError(
                f"{self.reference}: loss returns {_kind(loss)}, not one number", hint="return its mean"
            )

    def _usual_loss(self, outputs: Any, targets: Any) -> torch.Tensor:
        from torch.nn import functional

        tensors = list(tensors_in(outputs))
        if own := [entry for entry in tensors if entry.ndim == 0 and entry.is_floating_point()]:
            return own[0]
        logits = getattr(outputs, "logits", tensors[0] if tensors else outputs)
        shape = tuple(getattr(logits, "shape", ()))
        places = tuple(getattr(targets, "shape", ()))
        if len(shape) > len(places) > 1 and shape[:-1] == places:
            logits = logits.movedim(-1, 1)  # as networks on words have their classes: last
        elif not (len(shape) == 2 or (len(shape) > 2 and (shape[0], *shape[2:]) == places)):
            raise UsageError(
                f"{self.reference} gives {_kind(outputs)}, not logits of (batch, classes)",
                hint="write loss(outputs, targets) in the file",
            )
        # Labels of whatever data set stand for any classes: speed does not depend on them.
        return functional.cross_entropy(logits, targets % logits.shape[1])

    @contextmanager
    def _user_errors(self, what: str, advice: str = "run the file by itself to see where") -> Iterator[None]:
        try:
            yield
        except UsageError:
            raise
        except (Exception, SystemExit) as error:
            raise UsageError(f"{self.reference} {what} ({_message(error)})", hint=advice) from error


def load_own(reference: str, root: Path | None = None) -> OwnNetwork:
    """The network that `path/to/file.py:function` names (`:build` when no function is named).

    The file's own imports are looked up in its folder and in `root` (default: the current one), in packages
    named like the advisor's too. Raises `UsageError` when there is no such file or function, or when the file
    cannot be imported."""
    file, name = own_file(reference)
    path = Path(file).expanduser().resolve()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"there is no file {file} that can be read",
            field="model",
            hint="name one as --model path/to/file.py:build",
        ) from error
    imports = TheirImports.of((path.parent, (root or Path.cwd()).resolve()))
    fingerprint = hashlib.sha256(content).hexdigest()[:12]
    module = _load(path, reference, fingerprint, imports)
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"{file} has no function {name}()", hint="write one that returns the network")
    info = _info(module, reference, path)
    return OwnNetwork(reference, fingerprint, info, module, function, imports)


def _load(path: Path, reference: str, fingerprint: str, imports: TheirImports) -> ModuleType:
    name = f"own_network_{path.stem}_{fingerprint}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickles look their module up by its name.
    sys.modules[name] = module
    try:
        with imports.first():
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UsageError(f"{reference} cannot be loaded ({_message(error)})", hint=_way_out(error)) from error
    return module


def _way_out(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        return "install it, or start from the folder that the import begins in"
    if isinstance(error, ImportError) and "relative import" in str(error):
        return "the file is loaded by itself: write the import from the repository's root"
    if isinstance(error, SystemExit):
        return 'it ends the process: put what it runs under `if __name__ == "__main__":`'
    return "run the file by itself to see where"


def _info(module: ModuleType, reference: str, path: Path) -> NetworkInfo:
    shape = getattr(module, "INPUT_SHAPE", DEFAULT_INPUT_SHAPE)
    is_known = hasattr(module, "INPUT_SHAPE") or not hasattr(module, "example_batch")
    rows = getattr(module, "SAMPLES_PER_ROW", 1)
    try:
        sizes = tuple(int(size) for size in shape)
        return NetworkInfo(
            name=reference,
            title=path.stem,
            input_shape=sizes,
            unit=str(getattr(module, "UNIT", ("sample", "image")[is_known and len(sizes) == 3])),
            samples_per_row=int(rows),
        )
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{reference}: INPUT_SHAPE {shape!r} or SAMPLES_PER_ROW {rows!r} is not made of whole "
            "numbers above 0",
            hint="write them like INPUT_SHAPE = (3, 224, 224)",
        ) from error


def _message(error: BaseException) -> str:
    """'ValueError: its message', its first line only."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _kind(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return f"a tensor of {tuple(shape)}" if shape is not None else f"a {type(value).__name__}"


def _arguments(network: Any, inputs: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    from torch.nn.parallel import DistributedDataParallel

    while True:  # into what torch.compile and several GPUs put around it
        if hasattr(network, "_orig_mod"):
            network = network._orig_mod
        elif isinstance(network, DistributedDataParallel):
            network = network.module
        else:
            break
    taken = inspect.signature(network.forward)
    takes_one = [parameter.kind for parameter in taken.parameters.values()] == [_ONE]
    places = inputs if isinstance(inputs, tuple) and not takes_one else ()
    names = inputs if isinstance(inputs, Mapping) and not takes_one else {}
    try:
        taken.bind(*places, **names)
    except TypeError:
        return (inputs,), {}
    return (places, names) if places or names else ((inputs,), {})


_ONE = inspect.Parameter.POSITIONAL_OR_KEYWORD


def _is_lazy(network: torch.nn.Module) -> bool:
    from torch.nn.parameter import is_lazy

    return any(map(is_lazy, [*network.parameters(), *network.buffers()]))
