"""Translations of the engine's messages, for the service's page and for reports."""
