"""All routes of the page, registered by one line of the application."""

from __future__ import annotations

from fastapi import APIRouter

from advisor.service.page import (
    comparing,
    exporting,
    finding,
    measured,
    predicting,
    static_files,
    sweeping,
)

router = APIRouter(include_in_schema=False)
for _one in (static_files, finding, exporting, predicting, comparing, measured, sweeping):
    router.include_router(_one.router)
