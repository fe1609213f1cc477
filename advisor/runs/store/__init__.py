"""Schedules, runs and API keys in the database of the measurements."""
