"""/v1/recommend, /v1/predict, /v1/compare and /v1/memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request

from advisor.answers.context import Context
from advisor.answers.of_tasks import compared_in, memory_in, predicted_in, recommended_in
from advisor.answers.recommending import Recommended, recommended, relaxed
from advisor.engine import Preparations
from advisor.questions import commands
from advisor.questions.commands import AnyCompare, AnyMemory, AnyPredict, AnyRecommend
from advisor.questions.models import Recommend
from advisor.service.access import Scope, needs
from advisor.service.answers import Answered, Document, context_of, threads_of
from advisor.service.openapi import SHOWN_TYPE
from advisor.service.questions import QuestionRoutes

if TYPE_CHECKING:
    from advisor.answers.of_tasks import AnyRecommended

router = APIRouter(prefix="/v1", tags=["answers"], dependencies=[needs(Scope.READ)])


async def recommendation(request: Request, question: AnyRecommend) -> Answered:
    """The cheapest spec; where nothing meets the question, what to relax, which takes longer."""
    threads, context = threads_of(request), context_of(request)
    if not isinstance(question, Recommend):
        return await threads.run(_of_language, context, question, slow=True)
    preparations: Preparations = request.app.state.preparations
    is_quick = not question.explain and preparations.is_quick(context.request(question))
    result, found = await threads.run(_recommendation, context, question, preparations, slow=not is_quick)
    if found is None:
        found = await threads.run(_relaxed, result, question, slow=True)
    return found


def _of_language(context: Context, question: AnyRecommend) -> Answered:
    return _answered(recommended_in(context, question))


def _recommendation(
    context: Context, question: Recommend, preparations: Preparations
) -> tuple[Recommended, Answered | None]:
    result = recommended(context, question, preparations, relax=False)
    return result, _answered(result) if result.answer.chosen else None


def _relaxed(result: Recommended, question: Recommend) -> Answered:
    return _answered(relaxed(result, question))


def _answered(result: AnyRecommended) -> Answered:
    return Answered.of(result.message_document(), met=result.answer.chosen is not None)


def _recommendation_document(context: Context, question: AnyRecommend) -> Document:
    return recommended_in(context, question).message_document()


def _prediction(context: Context, question: AnyPredict) -> Document:
    return predicted_in(context, question).document()


def _comparison(context: Context, question: AnyCompare) -> Document:
    return compared_in(context, question).message_document()


def _memory(context: Context, question: AnyMemory) -> Document:
    return memory_in(context.catalog, question).document()


RECOMMEND = QuestionRoutes(
    path="/recommend",
    kind=commands.RECOMMEND,
    document=_recommendation_document,
    answer=recommendation,
    schema="Recommendation",
    about="The cheapest instance and disk that will really reach a throughput.",
    example={"task": "inference", "model": "googlenet", "target_throughput": 500},
)
PREDICT = QuestionRoutes(
    path="/predict",
    kind=commands.PREDICT,
    document=_prediction,
    schema="AnyPrediction",
    about="What one instance will reach, how sure that is, and what holds it back.",
    example={
        "task": "inference",
        "model": "googlenet",
        "instance": SHOWN_TYPE,
        "disk": "gp3:500GiB",
        "vcpus": 8,
        "curve": {"vcpus": [2, 4]},
    },
)
COMPARE = QuestionRoutes(
    path="/compare",
    kind=commands.COMPARE,
    document=_comparison,
    schema="AnyComparison",
    is_slow=True,
    about="How much faster, and at what cost: instances, or GPUs by themselves.",
    example={"task": "training", "model": "resnet50", "instance": [SHOWN_TYPE, "g5.xlarge"]},
)
# The largest batch is searched for on every GPU.
MEMORY = QuestionRoutes(
    path="/memory",
    kind=commands.MEMORY,
    document=_memory,
    schema="AnyMemory",
    is_slow=True,
    about="GPU memory of a network: its parts, the GPUs it fits, the largest batch.",
    example={"model": "resnet50", "batch_size": 64, "gpu": "T4,L4"},
)
for _routes in (RECOMMEND, PREDICT, COMPARE, MEMORY):
    _routes.add_to(router)
