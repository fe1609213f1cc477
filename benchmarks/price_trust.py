"""How often an answer over all clouds and markets rests on a price that is not listed.

    python -m benchmarks.price_trust --json [--count 200]

Random questions of every task, always the same ones, with `--cloud any --market any`, against the
bundle and the predictors that ship, as of the day that is given (the bundle's newest by default).
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Any

from advisor.answers import ask
from advisor.answers.context import Context, load_context
from advisor.domain import Task
from advisor.domain.generation import LanguageTask
from advisor.domain.price_age import is_listed
from advisor.domain.words import ANY_MARKET
from advisor.errors import NoIntervalError, NoOfferError
from advisor.questions.language import RecommendFinetuning, RecommendGeneration
from advisor.questions.models import Recommend

TODAY = date(2026, 11, 22)
NETWORKS = ("googlenet", "resnet50", "vit_b_16", "bert-base-uncased", "efficientnet_b0", "swin_t")
LANGUAGE_MODELS = ("meta-llama/Llama-3.1-8B", "mistralai/Mistral-7B-v0.1", "Qwen/Qwen2.5-14B")
# Of ten questions so many are about networks, the next about generation, the rest about tuning.
_NETWORKS_OF_TEN, _GENERATION_OF_TEN = 6, 3


def questions(count: int, seed: int = 22) -> Iterator[Any]:
    """So many questions; the first ones are the same however many there are."""
    drawn = random.Random(seed)
    place = {"cloud": "any", "market": ANY_MARKET}
    for _ in range(count):
        kind = drawn.randrange(10)
        if kind < _NETWORKS_OF_TEN:
            yield Recommend(
                model=drawn.choice(NETWORKS),
                task=drawn.choice((Task.TRAINING, Task.INFERENCE)),
                target_throughput=round(10 ** drawn.uniform(1, 3.7)),
                accelerated_only=drawn.random() < 0.3,
                **place,
            )
        elif kind < _NETWORKS_OF_TEN + _GENERATION_OF_TEN:
            yield RecommendGeneration(
                task=LanguageTask.GENERATION,
                model=drawn.choice(LANGUAGE_MODELS),
                target_throughput=round(10 ** drawn.uniform(2, 4)),
                **place,
            )
        else:
            yield RecommendFinetuning(
                task=LanguageTask.FINETUNING,
                model=drawn.choice(LANGUAGE_MODELS),
                tokens=round(10 ** drawn.uniform(6, 8)),
                **place,
            )


def answered(context: Context, question: Any, today: date = TODAY) -> Any | None:
    """The answer with its texts; None where nothing answers."""
    try:
        found = ask.recommend(context, question, today=today)
    except (NoOfferError, NoIntervalError):
        return None
    return found if found.answer.chosen else None


def standing(found: Any) -> str:
    """What the chosen total rests on: 'list', or its least trusted other kind; 'old list'."""
    answer = found.answer
    kinds = {price.kind for price in answer.chosen.spec.prices if not is_listed(price, answer.today)}
    return next(
        (kind for kind in ("estimated", "observed") if kind in kinds), "old list" if kinds else "list"
    )


def main() -> None:
    """Print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    context, rests, borderline, unanswered, alone = load_context(), Counter[str](), 0, 0, 0
    for question in questions(asked.count):
        found = answered(context, question)
        if found is None:
            unanswered += 1
            continue
        rests[standing(found)] += 1
        call = found.answer.price_call
        borderline += call is not None and call.cheaper is not None
        alone += call is not None and call.listed is None
    told = {
        "questions": asked.count,
        "unanswered": unanswered,
        "as_of": TODAY.isoformat(),
        "rests_on": dict(rests),
        "borderline_on_price": borderline,
        "no_listed_answer": alone,
    }
    print(json.dumps(told, indent=2 if asked.json else None))


if __name__ == "__main__":
    main()
