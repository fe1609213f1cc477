"""A parcel as files: `file:PATH`, or `file:FOLDER/` for all of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from advisor.errors import DataError, DeliveryError, UsageError
from advisor.files import write_whole
from advisor.runs.delivery.parcel import Parcel


@dataclass(frozen=True, slots=True)
class FileTarget:
    """A file here, or with a slash at its end a folder; `{date}` is the report's day."""

    path: str

    @property
    def label(self) -> str:
        """As it was written."""
        return f"file:{self.path}"

    def check(self) -> None:
        """The folder must be there and take files."""
        folder = self._folder()
        if "{date}" in str(folder):
            return
        if not folder.is_dir():
            raise UsageError(f"--send {self.label}: there is no folder '{folder}'; make it first")
        if not os.access(folder, os.W_OK):
            raise UsageError(f"--send {self.label}: the folder '{folder}' cannot be written")

    def send(self, parcel: Parcel) -> None:
        """Each file whole or not at all."""
        place = Path(parcel.dated(self.path))
        try:
            if not self._is_folder():
                write_whole(place, parcel.files[0].content)
                return
            for one in parcel.files:
                write_whole(place / one.name, one.content)
        except DataError as error:
            raise DeliveryError(str(error).partition(";")[0]) from error

    def _is_folder(self) -> bool:
        return self.path.endswith("/") or Path(self.path).is_dir()

    def _folder(self) -> Path:
        return Path(self.path) if self._is_folder() else Path(self.path).parent


def file_target(text: str) -> FileTarget:
    """'file:PATH', also as file:///PATH."""
    path = text.partition(":")[2]
    if path.startswith("//"):
        path = path[2:]
        if not path.startswith("/"):
            raise ValueError("file:// needs the whole path, as file:///srv/report.html")
    if not path or "\0" in path:
        raise ValueError("no path")
    return FileTarget(path)
