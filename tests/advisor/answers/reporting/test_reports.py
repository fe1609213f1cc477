"""A report gathered for real, which is the golden file that renderers are tested with."""

import json
from datetime import date
from functools import cache

import pytest
from msgspec.structs import replace

from advisor.answers.context import load_context
from advisor.answers.networks import recommended
from advisor.answers.reporting import reports
from advisor.answers.reporting.reports import Report, ReportedWorkload
from advisor.answers.reporting.saved import Input, read_saved
from advisor.domain import IMAGENET, LimitedBy, Task
from advisor.errors import UsageError
from advisor.questions.network import Recommend
from advisor.questions.reading import from_values
from advisor.render.document import plain
from tests.advisor.render.sizing.reports import GOLDEN, validator
from tests.alike import alike, assert_golden_document
from tests.builders import keep
from tests.sweeps.builders import measurement, trial

pytestmark = pytest.mark.vector

DAY = date(2026, 11, 22)
SOME_GPUS = "T4,L4,A10G"
VERSIONS = {"advisor": "0.1.0", "python": "3.11.7", "numpy": "2.4.6"}


def recommend_question(task, model, target=None, **changes):
    values = {"task": task, "model": model, "target_throughput": target, "region": None}
    return from_values(Recommend, {**values, **changes})


def question(name, *words, **changes):
    command = f"advisor recommend --task {words[0]}"
    return ReportedWorkload(name, recommend_question(*words, **changes), command)


TEAM = (
    question("Thumbnails", "inference", "googlenet", 500, gpu=SOME_GPUS),
    question("Nightly training", "training", "resnet50", 200, precision="amp", gpu=SOME_GPUS),
    question("Too much", "inference", "vgg16", 1e6, gpu="T4"),
    question("Decoding", "preprocessing", "resnet50", 900, vcpus="8", memory="16GiB"),
    question("As cheap as can be", "training", "vgg16", gpu=SOME_GPUS),
)


@cache
def context():
    return load_context()


def report(*given, **named):
    """A report as JSON has it: its messages are texts."""
    return plain(reports.report(*given, **named))


def gathered(*questions):
    command = "advisor report --plan team.yaml --date 2026-11-22"
    return plain(report(context(), questions, Report("Vision team, November", DAY, command)))


def test_a_team_of_workloads_gives_the_golden_report():
    report = gathered(*TEAM)
    report["reproducibility"]["versions"] = VERSIONS
    assert_golden_document(GOLDEN / "team.json", report)


def section(*words, **changes):
    return gathered(question("one", *words, **changes))["workloads"][0]


@cache
def thumbnails():
    return gathered(TEAM[0])["workloads"][0]


def test_what_the_user_measured_is_drawn_too():
    own = measurement(trial=trial(network="vgg16", task=Task.TRAINING, dataset=IMAGENET))
    loose = replace(own, limited_by=LimitedBy.NONE, trial=trial(network="vgg16", task=Task.TRAINING))
    keep(own, loose)
    drawn = section("training", "vgg16", gpu=SOME_GPUS)
    assert [(row["trial_id"], row["origin"]) for row in drawn["measured"]] == [(own.trial.trial_id, "store")]
    assert drawn["measured"][0]["samples_per_second"] == own.throughput_samples_per_second
    assert drawn["curves"]["vcpus"]["measured"] == [own.trial.trial_id]


def test_the_chart_of_prices_leaves_out_what_is_far_too_slow():
    drawn = section("training", "resnet50", epochs=90.0)["price_throughput"]
    (chosen,) = (row for row in drawn if row["chosen"])
    assert min(row["lower"] for row in drawn) >= chosen["lower"] / 20
    assert len({row["gpu"] for row in drawn}) > 5


def test_totals_count_the_workloads_that_end_and_are_not_known_where_nothing_is_answered():
    report = gathered(TEAM[0], question("A run", "training", "resnet50", 100, gpu=SOME_GPUS, epochs=10.0))
    totals = report["totals"]
    assert totals["runs"] == 1
    assert totals["usd_per_hour"] == report["workloads"][0]["answer"]["spec"]["usd_per_hour"]
    assert totals["usd_per_month"] == totals["month_usd"] == pytest.approx(730 * totals["usd_per_hour"])
    (quota,) = totals["quotas"]
    taken = [row["answer"]["spec"] for row in report["workloads"]]
    assert quota["vcpus"] == sum(spec["count"] * spec["vcpus"] for spec in taken)
    assert quota["kept_vcpus"] == taken[0]["count"] * taken[0]["vcpus"]
    report = gathered(TEAM[2])
    assert report["totals"]["usd_per_hour"] is None
    assert report["workloads"][0]["answer"]["spec"]["instance_type"]
    assert report["workloads"][0]["recommendation"]["relax"]
    validator().validate(report)


def saved(name="answer.json", **changes):
    explained = recommend_question("inference", "googlenet", 500, gpu=SOME_GPUS, explain=True)
    document = recommended(context(), explained, today=DAY).document()
    return Input(name, json.dumps({**document, **changes}).encode())


def retold(*files):
    report_again = plain(reports.report_of_saved(context(), files, Report("saved", DAY, "c", files)))
    validator().validate(report_again)
    return report_again


def test_a_saved_answer_that_still_holds_is_told_as_if_it_were_asked_now():
    (again,) = retold(saved())["workloads"]
    fresh = thumbnails()
    assert again["complete"]
    assert alike(again, fresh | {name: again[name] for name in ("name", "command")})


@pytest.mark.parametrize("text", ["a\x1b[2Jb", "\x9b2J", "\ud800", "a\u202eb", "\x00"])
def test_a_saved_file_that_steers_a_terminal_is_refused(text):
    with pytest.raises(UsageError, match="cannot be shown"):
        read_saved(saved(assumptions=[text]))


def test_a_saved_answer_is_asked_again_as_the_same_question():
    """It once lost what the answer stands on, and was no longer complete."""
    changes = {"confidence": 0.99, "allow_extrapolation": True, "horizon_hours": 24, "max_results": 2}
    question = recommend_question("inference", "googlenet", 500, gpu=SOME_GPUS, **changes)
    document = recommended(context(), question, today=DAY).document()
    (again,) = retold(Input("answer.json", json.dumps(document).encode()))["workloads"]
    assert again["complete"]
    assert again["recommendation"]["request"] == document["request"]


def test_a_saved_answer_of_an_older_version_tells_what_it_tells_itself():
    document = json.loads(saved().content)
    newer = ("horizon_hours", "max_results", "allow_extrapolation", "pareto")
    older = {key: value for key, value in document["request"].items() if key not in newer}
    for name in ("width", "height"):
        del older["dataset"][name]
    file = Input("answer.json", json.dumps({**document, "request": older}).encode())
    (section,) = retold(file)["workloads"]
    assert not section["complete"]
    assert section["recommendation"]["recommendation"] == document["recommendation"]
