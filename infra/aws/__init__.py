"""Launches one AWS GPU instance for a sweep, and ends it in every case; see internals/launches.md."""
