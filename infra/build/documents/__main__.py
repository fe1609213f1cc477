"""`python -m advisor.infra.build.documents` rewrites all documents; tests fail when they are stale."""

from __future__ import annotations

import os

from advisor.answers.context import load_context
from advisor.infra.build.documents import openapi, schemas, stub

if __name__ == "__main__":
    stub.FILE.write_text(stub.stub(), encoding="utf-8")
    for name, part in schemas.documents().items():
        (schemas.FOLDER / f"{name}.schema.json").write_text(schemas.written(part), encoding="utf-8")
    shipped = load_context()
    os.environ["ADVISOR_TODAY"] = shipped.catalog.as_of.isoformat()
    openapi.FILE.write_text(openapi.written(shipped), encoding="utf-8")
