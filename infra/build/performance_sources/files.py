"""Where the sources' own files lie."""

from __future__ import annotations

from pathlib import Path


def find_source(directory: Path, name: str) -> Path:
    """The file of that name below the folder; `FileNotFoundError` says where it is from."""
    result = sorted(directory.rglob(name))
    if not result:
        raise FileNotFoundError(f"{name} is not below {directory}; SOURCES.md says where it is from")
    return result[0]
