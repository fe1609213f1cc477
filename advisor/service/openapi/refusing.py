"""What the guard and the router may say to any request, told of every operation at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from advisor.service.openapi.parts import refusals

_API = "/v1"
_METHODS = ("get", "put", "post", "delete", "patch")
# FastAPI's own idea of what is wrong with a request; ours is a problem document.
_FRAMEWORKS = "#/components/schemas/HTTPValidationError"
_UNUSED = ("HTTPValidationError", "ValidationError")


def tell_refusals(whole: dict[str, Any]) -> None:
    """Add to each operation under /v1 the refusals that it does not describe itself, 404 where
    something is named in its path."""
    general = {str(status): told for status, told in refusals().items()}
    named = {str(status): told for status, told in refusals(404).items()}
    for path, operation in _operations(whole):
        own = {
            status: told
            for status, told in operation.get("responses", {}).items()
            if _FRAMEWORKS not in str(told)
        }
        operation["responses"] = {**general, **(named if "{" in path else {}), **own}
    for name in _UNUSED:
        whole["components"]["schemas"].pop(name, None)


def _operations(whole: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in whole["paths"].items():
        if path.startswith(_API):
            for method in methods.keys() & set(_METHODS):
                yield path, methods[method]
