"""Published rates of language models that others measured; SOURCES.md names every source.

The serving predictor is fitted on `serving.csv.gz`, the fine-tuning predictor on `training.csv.gz`."""
