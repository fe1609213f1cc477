"""The JSON Schemas that ship."""

import json
from importlib.resources import files

from jsonschema import Draft202012Validator


def schema_of(name):
    """Of a document, by its file's name."""
    return json.loads((files("advisor.render") / f"schemas/{name}.schema.json").read_text())


def assert_keeps(document, name):
    """A document is as the schema of that name says."""
    Draft202012Validator(schema_of(name)).validate(document)
