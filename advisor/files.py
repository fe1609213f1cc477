"""Writing a file whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from advisor.errors import DataError


def write_whole(path: Path, text: str) -> None:
    """Write the file whole or leave the old one; `DataError` when it cannot be written.

    A link keeps pointing: what it points to is replaced. What is no regular file (a pipe,
    /dev/null) is written into, never replaced.
    """
    target = path.resolve()
    try:
        if target.exists() and not target.is_file():
            target.write_text(text)
            return
        _replace(target, text)
    except OSError as error:
        raise DataError(
            f"cannot write '{path}': {error.strerror}; nothing was changed, name another place "
            "with --out"
        ) from error


def _replace(target: Path, text: str) -> None:
    import tempfile  # most commands write nothing

    descriptor, part = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".part")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(part).chmod(0o644)
        Path(part).replace(target)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
