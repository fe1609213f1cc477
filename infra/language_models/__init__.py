"""Builds the bundled table of language models: `python -m advisor.infra.language_models`."""
