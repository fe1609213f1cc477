"""Measures a language model behind an OpenAI-compatible endpoint under generated load."""
