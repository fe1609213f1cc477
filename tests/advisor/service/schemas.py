"""The JSON Schemas that ship."""

import json
from importlib.resources import files


def schema_of(name):
    """Of a document, by its file's name."""
    return json.loads((files("advisor.render") / f"schemas/{name}.schema.json").read_text())
