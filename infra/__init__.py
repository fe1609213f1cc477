"""The outside world: clouds, source files of the catalogue."""
