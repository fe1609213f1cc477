"""Builds the bundled catalogue snapshot from committed source files; each part has a file."""
