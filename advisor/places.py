"""Where a user's own files live."""

from __future__ import annotations

import os
import sys
from pathlib import Path

APPLICATION = "instance-sizing-advisor"


def user_folder() -> Path:
    """The user's data directory; it need not exist yet."""
    if sys.platform == "linux":
        # What platformdirs says there, too; but importing it takes 4 ms of every answer.
        told, home = os.environ.get("XDG_DATA_HOME", ""), os.environ.get("HOME", "")
        base = Path(told if told.startswith("/") else f"{home}/.local/share")
        if base.is_absolute():
            return base / APPLICATION
    from platformdirs import user_data_path

    return user_data_path(APPLICATION)


def state_folder() -> Path:
    """The user's folder for what programs note about themselves (logs); need not exist yet."""
    from platformdirs import user_state_path

    return user_state_path(APPLICATION)


def datasets_folder() -> Path:
    """Where made data sets live: the user's cache folder."""
    from platformdirs import user_cache_path

    return user_cache_path(APPLICATION) / "datasets"


def sweep_log_path() -> Path:
    """The log of sweeps, unless another place is named."""
    return state_folder() / "sweeps.jsonl"


def own_model_path() -> Path:
    """Where `advisor fit` keeps the user's own performance model."""
    return user_folder() / "model.json"


def own_fingerprint_path() -> Path:
    """Where `advisor probe` keeps what this machine can do, for the trials measured on it."""
    return user_folder() / "fingerprint.json"
