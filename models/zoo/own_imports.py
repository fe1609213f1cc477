"""Lets a user's file import its repository's packages, even those named like the advisor's.

`advisor/` is this product's package, and a checkout has `models/` at its top, which is what half of
all training repositories call theirs. Python knows one package a name, so while the user's code
is being loaded the two change places; before and after, ours are where they were.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from msgspec import Struct, field

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
    """Loaded modules of these packages, taken out of sight."""
    result = [name for name in sys.modules if name.split(".")[0] in names]
    return {name: sys.modules.pop(name) for name in result}
