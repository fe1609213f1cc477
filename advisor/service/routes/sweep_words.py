"""The fields of a sweep, as `advisor sweep run` calls them: to start or to schedule one."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Request
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StrictBool

from advisor.errors import MeasuringError
from advisor.service.access import may_spend
from advisor.service.problems import Problem

if TYPE_CHECKING:
    from advisor.runs.started_fields import Allowed, RequestedSweep

_Word = Annotated[str, Field(max_length=400)]
_Number = Annotated[int | float, Field(gt=0, allow_inf_nan=False)]
_Item = _Word | _Number
# A text as on the command line ("0.5,1,2"), or a list ([0.5, 1, 2]).
_Items = _Word | _Number | Annotated[list[_Item], Field(min_length=1, max_length=100)]


class SweepWords(BaseModel):
    """What is to be measured. `networks`, `tasks`, `vcpus`, `memory` and `disks`, or a `preset`."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "networks": ["googlenet"], "tasks": "inference", "vcpus": [0.5, 1, 2],
                    "memory": "2GiB", "disks": "gp3", "accelerator": "emulated:T4",
                }
            ]
        },
    )  # fmt: skip

    networks: _Items | None = None
    tasks: _Items | None = None
    vcpus: _Items | None = None
    memory: _Items | None = None
    disks: _Items | None = None
    preset: _Word | None = None
    accelerator: _Items | None = None
    batch_sizes: _Items | None = None
    cache: _Items | None = None
    precision: _Word | None = None
    data: _Word | None = Field(default=None, description="A name of `advisor serve --allow-data`.")
    decoder: _Word | None = None
    rel_error: _Item | None = None
    repeats: _Item | None = None
    iterations: _Item | None = None
    executor: _Word | None = None
    retry_failed: StrictBool | None = None
    adaptive: StrictBool | None = None
    budget: _Word | None = None
    target_throughput: _Item | None = None
    usd_per_hour: _Item | None = None
    instance: _Word | None = None
    on: _Word | None = Field(default=None, description="here, or aws: that spends money.")
    region: _Items | None = None
    market: _Word | None = None
    hours: _Item | None = None
    queue: _Item | None = None

    def fields(self) -> dict[str, Any]:
        """What was given, as the checks of the command read it."""
        given = self.model_dump(exclude_none=True, include=set(SweepWords.model_fields))
        regions = given.pop("region", None)
        if isinstance(regions, str):
            regions = regions.split(",")
        return given | ({"regions": regions} if regions is not None else {})


class StartedWords(SweepWords):
    """And how it is started: `dry_run` shows the plan; after `max_minutes` it is ended."""

    dry_run: StrictBool = False
    max_minutes: float = Field(default=1440, gt=0, le=10_080, allow_inf_nan=False)
    fresh_since: AwareDatetime | None = None

    def fields(self) -> dict[str, Any]:
        """With the time before which everything is measured again."""
        since: datetime | None = self.fresh_since
        return super().fields() | ({"fresh_since": since} if since else {})


def allowed_by(request: Request) -> Allowed:
    """What `advisor serve` was told that clients may name."""
    from advisor.runs.started_fields import Allowed

    settings = request.app.state.settings
    return Allowed(data=settings.allowed_data, code=settings.allowed_code)


def wants_aws(words: SweepWords) -> bool:
    """Whether it spends money at a cloud."""
    return (words.on or "").strip().lower() == "aws"


def checked(words: SweepWords, request: Request) -> RequestedSweep:
    """The sweep that is asked for; `Problem` 403 for who may not spend, 422 for what cannot be."""
    from advisor.runs.started_fields import requested_sweep

    if wants_aws(words):
        may_spend(request)
    try:
        return requested_sweep(words.fields(), allowed_by(request))
    except MeasuringError as error:
        raise Problem(422, "unmeasurable", str(error)) from error
