"""The user's files: their folders, writing a file completely or not at all, safe CSV cells, system errors.

Spreadsheets interpret some texts in CSV files as formulas: a name such as `=HYPERLINK(..)` from somebody's
file would run when a user opens the export. Such a cell gets a leading apostrophe, which marks it as text.
The list of such texts is from OWASP, "CSV Injection": = + - @, tab, carriage return, and the full-width forms
that spreadsheets in some languages treat alike. Numbers stay unchanged, negative ones too."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from advisor.errors import AdvisorError, DataError, UsageError
from advisor.messages import FieldName, Message

APPLICATION = "instance-sizing-advisor"


def user_folder() -> Path:
    """The user's data folder for the advisor; it need not exist yet."""
    base = _linux_base("XDG_DATA_HOME", ".local/share")
    if base:
        return base / APPLICATION
    from platformdirs import user_data_path

    return user_data_path(APPLICATION)


def _cache_folder() -> Path:
    """The user's cache folder, for files that can be made again. Workers call it and lack platformdirs."""
    base = _linux_base("XDG_CACHE_HOME", ".cache")
    if base:
        return base / APPLICATION
    from platformdirs import user_cache_path

    return user_cache_path(APPLICATION)


def _linux_base(variable: str, usual: str) -> Path | None:
    """The base folder on Linux, by the rules of platformdirs (whose import takes 4 ms); None elsewhere."""
    if sys.platform != "linux":
        return None
    named, home = os.environ.get(variable, ""), os.environ.get("HOME", "")
    base = Path(named if named.startswith("/") else f"{home}/{usual}")
    return base if base.is_absolute() else None


def state_folder() -> Path:
    """The user's folder for logs and other state; it need not exist yet."""
    from platformdirs import user_state_path

    return user_state_path(APPLICATION)


def datasets_folder() -> Path:
    """The folder of generated data sets, in the user's cache."""
    return _cache_folder() / "datasets"


def manifests_folder() -> Path:
    """The folder of manifests, which list the files of each data set."""
    return _cache_folder() / "manifests"


def data_cache_folder() -> Path:
    """The folder for local copies of remote data sets; `ADVISOR_DATA_CACHE` may set it."""
    named = os.environ.get("ADVISOR_DATA_CACHE", "")
    return Path(named) if named else _cache_folder() / "fetched"


def sweep_log_path() -> Path:
    """The default path of the log of sweeps."""
    return state_folder() / "sweeps.jsonl"


def own_model_path() -> Path:
    """The path of the user's own performance model, which `advisor fit` writes."""
    return user_folder() / "model.json"


def own_fingerprint_path() -> Path:
    """The path of this machine's fingerprint, which `advisor probe` writes for the trials measured on it."""
    return user_folder() / "fingerprint.json"


_STARTERS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
# Blanks and invisible characters that some programs skip before a formula.
_UNSEEN = "[\\s\x00-\x1f\u200b-\u200f\u2060\ufeff]*"
_STEERS = "\t\r\n"
_FORMULA = re.compile(f"{_UNSEEN}[{_STARTERS}]")
# A formula may also begin after ';' or a tab, which separate cells in Excel in half of Europe.
_INNER = re.compile(f"([;\t\r\n])(?={_UNSEEN}[{_STARTERS}])")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def harmless(value: Any) -> Any:
    """The value as a cell that no spreadsheet interprets as a formula; only texts are ever changed."""
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return value
    text = _INNER.sub(r"\1'", value)
    starts = _FORMULA.match(text) or text.startswith(tuple(_STEERS))
    return f"'{text}" if starts else text


def csv_of(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Flat records as CSV with a header line; otherwise like `csv_lines`."""
    return csv_lines([dict(zip(columns, columns, strict=True))], columns) + csv_lines(rows, columns)


def csv_lines(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """The given columns of flat records as lines of CSV, without a header; None is an empty cell."""
    import csv  # imported here, since most answers need no CSV
    import io

    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([harmless(row.get(column, "")) for column in columns] for row in rows)
    return buffer.getvalue()


# Characters of a file's name in the temporary name: a name has at most 255 bytes, a character up to four.
_SHORT = 40


def require_writable(path: Path) -> None:
    """Raise `UsageError` if `write_whole` would fail; to be called before the content is computed."""
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
            target.touch()  # the name itself may be invalid
            target.unlink()
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=target.name[:_SHORT]):
            pass
    except OSError as error:
        text = "{out} {path} cannot be written: {reason}"
        raise _not_written(text, path, "name another place", reason=error.strerror) from error


def _not_written(text: str, path: Path, hint: str, reason: object = "") -> UsageError:
    return UsageError(text, hint=hint, field="out", out=FieldName("out"), path=path, reason=reason)


def write_whole(path: Path, text: str | bytes) -> None:
    """Replace the file atomically, or leave it unchanged and raise `DataError`.

    If the path is a link, the file that it points to is replaced. Anything but a regular file (a pipe,
    /dev/null) is written to, never replaced."""
    target, content = path.resolve(), text.encode() if isinstance(text, str) else text
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content)
            return
        _replace(target, content)
    except OSError as error:
        hint = Message("nothing was changed, name another place with --out")
        raise DataError(
            "cannot write '{path}': {reason}", hint=hint, path=path, reason=error.strerror
        ) from error


def _replace(target: Path, content: bytes) -> None:
    import tempfile  # imported here, since most commands write no file

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


@contextmanager
def system_errors(
    kind: type[AdvisorError], what: str, *, hint: str | None = None, field: str | None = None
) -> Iterator[None]:
    """A context that turns an `OSError` into a `kind` whose message is `what` and the system's reason."""
    try:
        yield
    except OSError as error:
        raise kind(f"{what} ({error.strerror or error})", hint=hint, field=field) from error
