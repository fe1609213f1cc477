"""What a tracker of rental prices tells today, taken as `advisor catalog import` takes a file."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from datetime import date
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from advisor.catalog import Catalog
from advisor.catalog.importing import Imported, import_file
from advisor.infra.live.deadlines import Deadline
from advisor.infra.live.web import checked_url, download

SECONDS = 120.0
Say = Callable[[str], None]


def imported_from(
    url: str, folder: Path, catalog: Catalog, today: date, say: Say, *, accept_implausible: bool = False
) -> Imported:
    """The file at an address, kept in `folder` as an import of its host's name, or as refreshed
    prices.

    `today` is the date of prices that tell none. `LiveError` where it cannot be fetched, and
    `UsageError` where it is no price list that is known: then nothing has changed.
    """
    address = checked_url(url, "--tracker")
    host = str(urlsplit(address).hostname)
    say(f"asking {host}")
    content = Deadline(SECONDS).within(host, lambda: download(address))
    with tempfile.TemporaryDirectory() as made:
        # A price says where it is from by the name of its file.
        path = Path(made) / _file_name(host, urlsplit(address).path)
        path.write_bytes(content)
        return import_file(
            path, _plain(host), folder, catalog, as_of=today, accept_implausible=accept_implausible
        )


def _file_name(host: str, path: str) -> str:
    return f"{_plain(host)} {_plain(PurePosixPath(path).name) or 'prices'}"


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)[:60]
