"""/v1/recommend: the cheapest spec that meets a target."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from advisor.operations.answering.recommending import recommended
from advisor.service.access import Scope, needs
from advisor.service.answers import ground_of, json_answer

router = APIRouter(prefix="/v1", tags=["answers"], dependencies=[needs(Scope.READ)])


class Question(BaseModel):
    """The words of `advisor recommend`, with underscores."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    task: str
    model: str
    target_throughput: float | None = None
    confidence: float = 0.9
    batch_size: int | None = None
    precision: str = "fp32"
    dataset: str = "imagenet"
    cloud: str = "aws"
    region: str | None = None
    market: str = "on-demand"
    disk: str | None = None

    def answers(self) -> dict[str, object]:
        """As `request_from` reads them."""
        words = self.model_dump()
        return words | {"network": words.pop("model")}


@router.post("/recommend")
def recommend(question: Question, request: Request) -> Response:
    """The cheapest instance and disk that will really reach a throughput."""
    return json_answer(recommended(ground_of(request), question.answers()).document())


@router.get("/recommend")
def recommend_by_link(question: Annotated[Question, Query()], request: Request) -> Response:
    """The same by a link: the words are query parameters."""
    return json_answer(recommended(ground_of(request), question.answers()).document())
