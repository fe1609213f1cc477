"""Writes the JSON Schema of each document, and the service's OpenAPI document, which ship as files."""
