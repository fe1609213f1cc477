"""Alembic runs `versions` in their order."""
