"""Builds the bundled table of language models: `python -m advisor.infra.build.language_models`."""
