"""Translations of the engine's messages, for the page and for reports."""
