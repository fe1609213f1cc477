"""The one database: measurements, leases, schedules, runs and keys, in SQLite or PostgreSQL."""

from __future__ import annotations

import os

from advisor.files import user_folder

DATABASE_VARIABLE = "ADVISOR_DATABASE_URL"


def default_database_url() -> str:
    """`ADVISOR_DATABASE_URL`, else a SQLite file in the user's data folder."""
    return os.environ.get(DATABASE_VARIABLE) or f"sqlite:///{user_folder() / 'measurements.sqlite'}"
