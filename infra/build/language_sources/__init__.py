"""Rates of language models that others measured and published; SOURCES.md names every source.

`serving.csv.gz` is what the form of serving is fitted on, `training.csv.gz` that of fine-tuning."""
