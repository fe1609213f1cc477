"""Answers about language models: as text, as JSON, and as blocks of a report."""
