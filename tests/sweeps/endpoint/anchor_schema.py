"""The JSON Schema of an endpoint's anchor, as it ships."""

import json
from pathlib import Path

import advisor.sweeps.endpoint

SCHEMA = json.loads(Path(advisor.sweeps.endpoint.__file__).with_name("anchor.schema.json").read_text())
