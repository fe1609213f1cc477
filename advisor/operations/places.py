"""Where a user's own files live."""

from __future__ import annotations

from pathlib import Path

from advisor.places import APPLICATION as APPLICATION
from advisor.places import user_folder


def own_model_path() -> Path:
    """Where `advisor fit` keeps the user's own performance model."""
    return user_folder() / "model.json"


def own_fingerprint_path() -> Path:
    """Where `advisor probe` keeps what this machine can do, for the trials measured on it."""
    return user_folder() / "fingerprint.json"
