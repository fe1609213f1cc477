"""Measurements as documents and files."""
