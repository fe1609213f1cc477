"""Paths of a user's own files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

APPLICATION = "instance-sizing-advisor"


def user_folder() -> Path:
    """The user's data directory; it need not exist yet."""
    base = _linux_base("XDG_DATA_HOME", ".local/share")
    if base:
        return base / APPLICATION
    from platformdirs import user_data_path

    return user_data_path(APPLICATION)


def _cache_folder() -> Path:
    """The user's folder for what can be made again; a worker has no platformdirs."""
    base = _linux_base("XDG_CACHE_HOME", ".cache")
    if base:
        return base / APPLICATION
    from platformdirs import user_cache_path

    return user_cache_path(APPLICATION)


def _linux_base(variable: str, usual: str) -> Path | None:
    """The folder as platformdirs finds it on Linux; importing that would take 4 ms of every answer."""
    if sys.platform != "linux":
        return None
    named, home = os.environ.get(variable, ""), os.environ.get("HOME", "")
    base = Path(named if named.startswith("/") else f"{home}/{usual}")
    return base if base.is_absolute() else None


def state_folder() -> Path:
    """The user's folder for what programs note about themselves (logs); need not exist yet."""
    from platformdirs import user_state_path

    return user_state_path(APPLICATION)


def datasets_folder() -> Path:
    """The folder of made data sets, in the user's cache."""
    return _cache_folder() / "datasets"


def manifests_folder() -> Path:
    """The folder of manifests: the files of each data set."""
    return _cache_folder() / "manifests"


def data_cache_folder() -> Path:
    """The folder of copies of remote data sets on this machine; `ADVISOR_DATA_CACHE` names it."""
    named = os.environ.get("ADVISOR_DATA_CACHE", "")
    return Path(named) if named else _cache_folder() / "fetched"


def sweep_log_path() -> Path:
    """The log of sweeps, unless another place is named."""
    return state_folder() / "sweeps.jsonl"


def own_model_path() -> Path:
    """The path of the user's own performance model, which `advisor fit` writes."""
    return user_folder() / "model.json"


def own_fingerprint_path() -> Path:
    """The path of this machine's fingerprint, which `advisor probe` writes for the trials measured on it."""
    return user_folder() / "fingerprint.json"
