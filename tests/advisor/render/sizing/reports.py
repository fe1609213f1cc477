"""A report's document to render: gathered once, for real, and kept as a golden file."""

import json
from importlib.resources import files
from pathlib import Path

GOLDEN = Path(__file__).parents[3] / "golden" / "report"


def golden_report():
    """Five workloads of a team: one per task, one that nothing meets, one without a target."""
    return json.loads((GOLDEN / "team.json").read_text())


def validator():
    """Of `advisor.report/1`, with the recommendation inside."""
    import jsonschema
    from referencing import Registry, Resource

    folder = files("advisor.render") / "schemas"
    read = {
        name: json.loads((folder / f"{name}.schema.json").read_text())
        for name in ("report", "recommendation")
    }
    inside = Resource.from_contents(read["recommendation"])
    registry = Registry().with_resource(inside.id(), inside)
    return jsonschema.Draft202012Validator(
        read["report"], registry=registry, format_checker=jsonschema.FormatChecker()
    )
