"""CloudFormation templates: an account's set-up, and scheduled sweeps; with our IAM policies inserted."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from advisor.errors import unknown_name
from advisor.infra.aws.errors import policy_text

NAMES = ("account", "schedules")


def template(name: str) -> dict[str, Any]:
    """A template as CloudFormation's JSON. Policies come from `infra/aws/policies`, and their placeholders
    become references in the stack."""
    import yaml

    if name not in NAMES:
        raise unknown_name("template", name, NAMES)
    text = (files("advisor.infra.cloudformation") / f"{name}.yaml").read_text(encoding="utf-8")
    document: dict[str, Any] = _with_policies(yaml.safe_load(text))
    return document


def _with_policies(value: Any) -> Any:
    """The value with each `{Policy: name}` in it replaced by that policy."""
    if isinstance(value, list):
        return [_with_policies(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"Policy"}:
        return _with_references(json.loads(policy_text(value["Policy"])))
    return {key: _with_policies(entry) for key, entry in value.items()}


def _with_references(value: Any) -> Any:
    """The value with each text that has placeholders wrapped in `Fn::Sub`."""
    if isinstance(value, list):
        return [_with_references(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _with_references(entry) for key, entry in value.items()}
    return {"Fn::Sub": value} if isinstance(value, str) and "${" in value else value
