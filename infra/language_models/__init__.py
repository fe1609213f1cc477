"""Builds the bundled table of language models: `python -m infra.language_models`."""
