"""Parcels that did not arrive, kept on this machine to be tried again for two days.

A file a parcel, readable by its owner alone: what is in it is somebody's, and a target may hold a
secret. Whoever tries takes a lock on it, so that two daemons never send the same one at once.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from advisor.places import state_folder
from advisor.runs.delivery.parcel import Enclosure, Parcel
from advisor.runs.delivery.sending import Delivery, delivered_to_words

# After each further failure; then it is given up.
PAUSES_SECONDS = (300.0, 1800.0, 7200.0, 21600.0, 43200.0, 86400.0)

Say = Callable[[str], None]


def outbox_folder() -> Path:
    """Of this machine's schedules; need not exist."""
    return state_folder() / "outbox"


class Outbox:
    """The parcels in a folder that is made when the first one is kept."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = folder, clock

    def keep(self, parcel: Parcel, words: Sequence[str]) -> None:
        """To be tried again at these targets."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        seal = hashlib.sha256("\n".join(words).encode()).hexdigest()[:8]
        path = self._folder / f"{parcel.id}-{seal}.json"
        part = path.with_suffix(".part")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(self._entry(parcel, list(words), tries=1), file)
        part.replace(path)

    def any_due(self) -> bool:
        """Whether there is something to try now."""
        return any(one["at"] <= self._clock() for _, one in self._read())

    def try_again(self, say: Say) -> list[Delivery]:
        """Send what is due; what arrives, or was tried for two days, is removed."""
        found: list[Delivery] = []
        for path in self._paths():
            with _locked(path) as file:
                entry = _entry_in(file)
                if file is not None and entry is not None and entry["at"] <= self._clock():
                    found += self._tried(path, file, entry, say)
        return found

    def _tried(self, path: Path, file: IO[str], entry: dict[str, Any], say: Say) -> list[Delivery]:
        parcel = _parcel_of(entry["parcel"])
        found, waiting = [], []
        for word in entry["words"]:
            (one,) = delivered_to_words(parcel, [word], say=say, attempts=1)
            found.append(one)
            waiting += [] if one.arrived else [word]
        tries = entry["tries"] + 1
        if not waiting or tries > len(PAUSES_SECONDS):
            path.unlink(missing_ok=True)
        else:
            file.seek(0)
            json.dump(self._entry(parcel, waiting, tries), file)
            file.truncate()
        for one in found:
            say(_told(one, parcel, last=tries > len(PAUSES_SECONDS)))
        return found

    def _entry(self, parcel: Parcel, words: list[str], tries: int) -> dict[str, Any]:
        at = self._clock() + PAUSES_SECONDS[tries - 1]
        return {"at": at, "tries": tries, "words": words, "parcel": _written(parcel)}

    def _read(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        for path in self._paths():
            with contextlib.suppress(OSError), path.open() as file:
                entry = _entry_in(file)
                if entry is not None:
                    yield path, entry

    def _paths(self) -> list[Path]:
        return sorted(self._folder.glob("advisor-*.json"))


def _told(one: Delivery, parcel: Parcel, *, last: bool) -> str:
    if one.arrived:
        return f"'{parcel.title}' has arrived at {one.label}"
    return f"{one.error}; {'given up' if last else 'it is tried again later'}"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[IO[str] | None]:
    """The open file; None where somebody else has it, or it is gone."""
    try:
        file = path.open("r+")
    except OSError:
        yield None
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield None
            return
        yield file if path.exists() else None


def _entry_in(file: IO[str] | None) -> dict[str, Any] | None:
    """None for what a crash left half written, and for what is no entry."""
    try:
        found = json.load(file) if file is not None else None
    except (ValueError, OSError):
        return None
    is_entry = isinstance(found, dict) and found.keys() >= {"at", "tries", "words", "parcel"}
    return found if is_entry else None


def _written(parcel: Parcel) -> dict[str, Any]:
    told = asdict(parcel)
    for one in told["files"]:
        one["content"] = base64.b64encode(one["content"]).decode()
    return told


def _parcel_of(told: dict[str, Any]) -> Parcel:
    files = tuple(
        Enclosure(one["name"], one["media_type"], base64.b64decode(one["content"]))
        for one in told["files"]
    )
    return Parcel(**{**told, "files": files})
