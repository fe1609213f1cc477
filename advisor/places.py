"""Where a user's own files live."""

from __future__ import annotations

from pathlib import Path

APPLICATION = "instance-sizing-advisor"


def user_folder() -> Path:
    """The user's data directory; it need not exist yet."""
    from platformdirs import user_data_path

    return user_data_path(APPLICATION)


def state_folder() -> Path:
    """The user's folder for what programs note about themselves (logs); need not exist yet."""
    from platformdirs import user_state_path

    return user_state_path(APPLICATION)


def sweep_log_path() -> Path:
    """The log of sweeps, unless another place is named."""
    return state_folder() / "sweeps.jsonl"
