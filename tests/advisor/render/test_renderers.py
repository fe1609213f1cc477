"""The same answer in every format, golden bytes, one screen of text; tests/corpus has text and JSON."""

import json
from datetime import date
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from advisor.domain import (
    IMAGENET,
    CloseCallKind,
    Latency,
    MemoryFormat,
    Precision,
    RunTime,
    Span,
    Stack,
    Task,
    Tf32,
    Withheld,
)
from advisor.engine.candidates import plain_workload
from advisor.render.borderline import verify_command
from advisor.render.document import Sources, plain, recommendation_document
from advisor.render.records import risk
from advisor.render.tables import recommendation_csv
from advisor.render.views.brief import brief_text
from advisor.render.views.whole import recommendation_markdown, whole_text
from tests.advisor.render.schemas import assert_keeps
from tests.alike import assert_golden_text
from tests.builders import candidate, close_call, network_question, prediction, recommendation, rejected

GOLDEN = Path(__file__).parents[2] / "golden"
SOURCES = Sources(
    model_id="0123456789abcdef",
    trained_on="24 trials",
    error_percent=6.5,
    catalog=SimpleNamespace(as_of=date(2026, 7, 20), sources=("a price list",)),
)
HOURS = Span(lower=43.2, median=52.31, upper=63.42)
UNSURE = replace(HOURS, upper=float("inf"))
RUN_TIME = RunTime(samples=115_305_030.0, hours=HOURS, first_epoch=Span(lower=0.9, median=1.2, upper=1.5))
FASTER = candidate("g5.xlarge", 1.006, prediction=prediction(900.0, 1000.0, 1200.0))
FRONT = {
    "request": network_question(network="googlenet", task=Task.INFERENCE),
    "pareto": (candidate(), FASTER),
}


RUN = {
    "request": network_question(network="googlenet", task=Task.TRAINING, epochs=90, max_hours=72),
    "ranked": (candidate(run=RUN_TIME), candidate("g6.xlarge", 0.8048, run=replace(RUN_TIME, hours=UNSURE))),
}


def document(**changes):
    return plain(recommendation_document(recommendation(**changes), SOURCES))


def text(**changes):
    return whole_text(None, document(**changes))


CALLED = {"close_calls": (close_call(),)}
TEXTS = {
    "recommendation.txt": text() + "\n",
    "recommendation.json": json.dumps(document(), indent=2) + "\n",
    "recommendation.csv": recommendation_csv(document()),
    "recommendation.md": recommendation_markdown(document()),
    "pareto.md": recommendation_markdown(document(**FRONT)),
    "run.csv": recommendation_csv(document(**RUN)),
    "run.md": recommendation_markdown(document(**RUN)),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_format_changes_only_when_we_mean_it(name):
    assert_golden_text(GOLDEN / name, TEXTS[name])


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"ranked": (), "nearest": candidate()},
        {"ranked": (), "nearest": None, "rejected": ()},
        RUN,
        {"ranked": (candidate(run=replace(RUN_TIME, hours=UNSURE)),)},
        CALLED,
        {"close_calls": (close_call(instead=None, saves_usd_per_hour=None),)},
    ],
)
def test_the_document_keeps_its_schema(changes):
    assert_keeps(document(**changes), "recommendation")


@pytest.mark.parametrize("kind", [None, *CloseCallKind])
@pytest.mark.parametrize("run", [None, RUN_TIME])
def test_text_has_a_dozen_lines_of_a_hundred_columns_whatever_the_answer_holds(run, kind):
    name, latency = "x{}.48xlarge-with-a-long-name", Latency(p50_seconds=0.1, p99_seconds=0.2)
    many = tuple(candidate(name.format(i), run=run, latency=latency) for i in range(40))
    reasons = tuple(rejected(f"t{i}.xlarge", 0.1, detail="because " * 40) for i in range(60))
    narrow = close_call(kind=kind, candidate=many[0], instead=many[1], saves_usd_per_hour=1234.5)
    holds = {
        "ranked": many,
        "rejected": reasons,
        "assumptions": ("assumed",) * 60,
        "warnings": ("mind it",) * 60,
        "close_calls": (narrow,) if kind else (),
    }
    lines = brief_text(document(**holds)).splitlines()
    titles = [line for line in lines[1:] if line[2] != " "]
    assert len(lines) <= 15
    for title in ("for", "does", "how sure", "based on"):
        assert any(line.startswith(f"  {title}  ") for line in titles)
    assert max(map(len, lines)) <= 100
    assert max(map(len, text(**holds).splitlines())) <= 100


def test_a_trial_is_asked_with_all_that_the_question_says():
    how = {"stack": Stack.COMPILE, "memory_format": MemoryFormat.CHANNELS_LAST, "tf32": Tf32.ON}
    what = {"dataset": replace(IMAGENET, name="cifar10"), "input": "3x384x384", "confidence": 0.95}
    request = replace(RUN["request"], max_hours=None, precision=Precision.AMP, **how, **what)
    runs = replace(candidate(), workload=plain_workload(request))
    command = verify_command(request, runs)
    assert "--precision amp --input 3x384x384 --stack compile --memory-format channels_last" in command
    assert command.endswith("--tf32 on --dataset cifar10 --confidence 0.95")
    own = replace(request, dataset=replace(IMAGENET, name="/mnt/my pictures"))
    assert "--data '/mnt/my pictures'" in verify_command(own, runs)


held = partial(Withheld, "a GPU", 9.0, rows=40)


@pytest.mark.parametrize(
    ("lower", "upper", "facts", "expected"),
    [
        (97, 110, {}, 0),
        (90, 110, {}, 1),
        (97, 110, {"extrapolation": ("far",)}, 2),
        (97, 110, {"extrapolation": ("far", "off", "out")}, 3),
        (60, 150, {}, 2),
        (40, 200, {}, 3),
        (39, 200, {"extrapolation": ("far",)}, 4),
        (97, 110, {"calibrated": False}, 4),
        (97, 110, {"withheld": None}, 3),
        *((97, 110, {"withheld": held(share)}, level) for share, level in ((84, 2), (74, 3), (50, 4))),
    ],
)
def test_risk_grows_with_the_interval_with_guessing_and_with_bounds_that_failed(
    lower, upper, facts, expected
):
    assert risk(prediction(lower, 100, upper, **{"withheld": held(90), **facts})) == expected
