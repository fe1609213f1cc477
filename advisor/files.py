"""Writing a file whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from advisor.errors import DataError, UsageError
from advisor.messages import FieldName

# Of a name, for the part beside it: names have up to 255 bytes, and a character up to four.
_SHORT = 40


def require_writable(path: Path) -> None:
    """`UsageError` where `write_whole` would fail, before the long work that makes the content."""
    import tempfile

    target = path.resolve()
    try:
        if target.is_dir():
            raise _not_written("{out} {path} is a folder", path, "name a file in it")
        if target.exists() and not os.access(target, os.W_OK):
            raise _not_written("{out} {path} is write-protected", path, "name another file")
        if target.exists() and not target.is_file():
            return
        if not target.exists():
            target.touch()  # its own name may be what cannot be
            target.unlink()
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=target.name[:_SHORT]):
            pass
    except OSError as error:
        text = "{out} {path} cannot be written: {reason}"
        raise _not_written(text, path, "name another place", reason=error.strerror) from error


def _not_written(text: str, path: Path, hint: str, reason: object = "") -> UsageError:
    return UsageError(text, hint=hint, field="out", out=FieldName("out"), path=path, reason=reason)


def write_whole(path: Path, text: str | bytes) -> None:
    """Write the file whole or leave the old one; `DataError` when it cannot be written.

    A link keeps pointing: what it points to is replaced. What is no regular file (a pipe,
    /dev/null) is written into, never replaced.
    """
    target, content = path.resolve(), text.encode() if isinstance(text, str) else text
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content)
            return
        _replace(target, content)
    except OSError as error:
        raise DataError(
            "cannot write '{path}': {reason}",
            hint="nothing was changed, name another place with --out",
            path=path,
            reason=error.strerror,
        ) from error


def _replace(target: Path, content: bytes) -> None:
    import tempfile  # most commands write nothing

    descriptor, part = tempfile.mkstemp(dir=target.parent, prefix=target.name[:_SHORT], suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(part).chmod(0o644)
        Path(part).replace(target)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
