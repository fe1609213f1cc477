"""Where a user's own files live."""

from __future__ import annotations

from pathlib import Path

APPLICATION = "instance-sizing-advisor"


def user_folder() -> Path:
    """The user's data directory; it need not exist yet."""
    from platformdirs import user_data_path

    return user_data_path(APPLICATION)
