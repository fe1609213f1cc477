"""What share of the engine's sentences the page tells in Chinese: 200 questions, drawn at random.

`python -m benchmarks.page_words --json [--seed 8]`. Counted are the assumptions, warnings and
reasons of real answers; a form is a sentence without its numbers.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter
from typing import Any

from advisor.service.forms.questions import RECOMMEND

from advisor.answers.ground import Ground, ground_in_use
from advisor.answers.recommending import settled
from advisor.errors import AdvisorError
from advisor.render.i18n.sentences import told
from advisor.service.problems import Problem

QUESTIONS = 200
LANGUAGE = "zh-CN"
_CHOICES: dict[str, tuple[str, ...]] = {
    "target_throughput": ("", "30", "120", "400", "700", "2000", "9000", "50000"),
    "precision": ("", "", "amp", "bf16"),
    "gpu": ("", "", "", "T4,L4", "A10G", "24GiB..", "V100-SXM2-16GB", "cc8.0..", "K80"),
    "max_price": ("", "", "0.4", "1.5", "4"),
    "cloud": ("", "", "gcp", "any", "azure", "alibaba"),
    "market": ("", "", "spot", "commitment-1y"),
    "disk": ("", "", "", "gp3:500GiB", "gp3,io2", "local", "st1"),
    "max_count": ("", "", "6"),
    "confidence": ("", "", "0.97"),
    "batch_size": ("", "", "1", "64", "4096"),
    "quota": ("", "", "", "G=8"),
}


def main() -> None:
    """Print one JSON document."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true", help="the only output there is")
    parser.add_argument("--seed", type=int, default=8)
    seed = parser.parse_args().seed
    draw, ground = random.Random(seed), ground_in_use()
    sentences: Counter[str] = Counter()
    answers = 0
    for number in range(QUESTIONS):
        said = _sentences(ground, _question(draw))
        answers += said is not None
        sentences.update(said or ())
        print(f"\r{number + 1} questions", end="", file=sys.stderr)
    json.dump(_document(sentences, answers, seed), sys.stdout, indent=2, ensure_ascii=False)
    print()


def _question(draw: random.Random) -> dict[str, str]:
    words = {name: draw.choice(values) for name, values in _CHOICES.items()}
    words["task"] = draw.choice(("training", "inference", "preprocessing"))
    words["model"] = draw.choice(("alexnet", "googlenet", "resnet50", "vgg16", "inception_v3"))
    if words["task"] == "training":
        words |= {"epochs": draw.choice(("", "90")), "max_count": ""}
        words["max_hours"] = draw.choice(("5", "60")) if words["epochs"] else ""
    if words["task"] == "inference":
        words["max_latency_ms"] = draw.choice(("", "", "8", "60"))
    return {name: value for name, value in words.items() if value}


def _sentences(ground: Ground, asked: dict[str, str]) -> list[str] | None:
    """What the answer says; None for a question that cannot be asked."""
    try:
        document = settled(ground, question_of(Recommend, asked)).document()
    except (AdvisorError, Problem):
        return None
    reasons = [one["detail"] for one in document["rejected"]]
    return [*document["assumptions"], *document["warnings"], *reasons]


def _document(sentences: Counter[str], answers: int, seed: int) -> dict[str, Any]:
    forms: dict[str, set[bool]] = {}
    for one in sentences:
        forms.setdefault(_form(one), set()).add(told(one, LANGUAGE) is not None)
    translated = sum(count for one, count in sentences.items() if told(one, LANGUAGE) is not None)
    return {
        "seed": seed,
        "questions": QUESTIONS,
        "answers": answers,
        "sentences": sentences.total(),
        "translated_percent": round(100 * translated / max(sentences.total(), 1), 3),
        "forms": len(forms),
        "forms_translated": sum(known == {True} for known in forms.values()),
        "left_in_english": sorted(form for form, known in forms.items() if known != {True}),
    }


def _form(sentence: str) -> str:
    return re.sub(r"\d[\d,.]*", "#", sentence)


if __name__ == "__main__":
    main()
