"""Where a user's own files live."""

from __future__ import annotations

from pathlib import Path

APPLICATION = "instance-sizing-advisor"


def own_model_path() -> Path:
    """Where `advisor fit` keeps the user's own performance model."""
    from platformdirs import user_data_path

    return user_data_path(APPLICATION) / "model.json"


def own_fingerprint_path() -> Path:
    """Where `advisor probe` keeps what this machine can do, for the trials measured on it."""
    from platformdirs import user_data_path

    return user_data_path(APPLICATION) / "fingerprint.json"
