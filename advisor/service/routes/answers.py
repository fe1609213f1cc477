"""/v1/recommend, /v1/predict, /v1/compare and /v1/memory."""

from __future__ import annotations

from fastapi import APIRouter, Request

from advisor.answers.comparing import compared
from advisor.answers.context import Context
from advisor.answers.memory import memory_document_of
from advisor.answers.predicting import predicted
from advisor.answers.recommending import Recommended, recommended, relaxed
from advisor.engine import Preparations
from advisor.questions.models import Compare, MemoryQuestion, Predict, Recommend
from advisor.service.access import Scope, needs
from advisor.service.answers import Document, context_of, document_json, threads_of
from advisor.service.metrics import count_recommendation
from advisor.service.openapi import SHOWN_TYPE
from advisor.service.questions import QuestionRoutes

router = APIRouter(prefix="/v1", tags=["answers"], dependencies=[needs(Scope.READ)])


async def recommendation(request: Request, question: Recommend) -> bytes:
    """The cheapest spec; where nothing meets the question, what to relax, which takes longer."""
    threads, context = threads_of(request), context_of(request)
    preparations: Preparations = request.app.state.preparations
    is_quick = not question.explain and preparations.is_quick(context.request(question))
    result, content = await threads.run(
        _recommendation, context, question, preparations, slow=not is_quick
    )
    if content is None:
        content = await threads.run(_relaxed, result, question, slow=True)
    count_recommendation(met=result.answer.chosen is not None)
    return content


def _recommendation(
    context: Context, question: Recommend, preparations: Preparations
) -> tuple[Recommended, bytes | None]:
    result = recommended(context, question, preparations, relax=False)
    return result, document_json(result.message_document()) if result.answer.chosen else None


def _relaxed(result: Recommended, question: Recommend) -> bytes:
    return document_json(relaxed(result, question).message_document())


def _recommendation_document(context: Context, question: Recommend) -> Document:
    return recommended(context, question).message_document()


def _prediction(context: Context, question: Predict) -> Document:
    return predicted(context, question).message_document()


def _comparison(context: Context, question: Compare) -> Document:
    return compared(context, question).message_document()


def _memory(context: Context, question: MemoryQuestion) -> Document:
    return memory_document_of(context.catalog, question)


RECOMMEND = QuestionRoutes(
    path="/recommend", kind=Recommend, document=_recommendation_document, answer=recommendation,
    schema="Recommendation",
    about="The cheapest instance and disk that will really reach a throughput.",
    example={"task": "inference", "model": "googlenet", "target_throughput": 500},
)  # fmt: skip
PREDICT = QuestionRoutes(
    path="/predict", kind=Predict, document=_prediction, schema="Prediction",
    about="What one instance will reach, how sure that is, and what holds it back.",
    example={
        "task": "inference", "model": "googlenet", "instance": SHOWN_TYPE, "disk": "gp3:500GiB",
        "vcpus": 8, "curve": {"vcpus": [2, 4]},
    },
)  # fmt: skip
COMPARE = QuestionRoutes(
    path="/compare", kind=Compare, document=_comparison, schema="Comparison", is_slow=True,
    about="How much faster, and at what cost: instances, or GPUs by themselves.",
    example={"task": "training", "model": "resnet50", "instance": [SHOWN_TYPE, "g5.xlarge"]},
)  # fmt: skip
# The largest batch is searched for on every GPU.
MEMORY = QuestionRoutes(
    path="/memory", kind=MemoryQuestion, document=_memory, schema="MemoryAnswer", is_slow=True,
    about="GPU memory of a network: its parts, the GPUs it fits, the largest batch.",
    example={"model": "resnet50", "batch_size": 64, "gpu": "T4,L4"},
)  # fmt: skip
for _routes in (RECOMMEND, PREDICT, COMPARE, MEMORY):
    _routes.add_to(router)
