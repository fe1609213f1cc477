"""Scores what ships for language models on measured rows."""
