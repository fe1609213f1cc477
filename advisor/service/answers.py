"""Documents -> responses: encoded as they are, never through a model of their fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import Request
from starlette.responses import Response

from advisor.operations.answering import Ground


def ground_of(request: Request) -> Ground:
    """What this process loaded at its start."""
    ground: Ground = request.app.state.ground
    return ground


def json_answer(document: Mapping[str, Any], status: int = 200) -> Response:
    """A document as JSON."""
    return Response(orjson.dumps(document), status_code=status, media_type="application/json")
