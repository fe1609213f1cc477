"""Measures served language models, at an endpoint or in an engine that is started for it."""
