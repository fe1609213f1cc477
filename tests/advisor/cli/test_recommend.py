"""The main question from the command line, on the bundled catalogue and performance model."""

import csv
import io
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog import OfferQuery, check, load_catalog, resources_of
from advisor.domain import Precision, Task, Workload
from advisor.engine import Preparations, recommend
from advisor.engine.candidates import Runnable, query_of, runnable
from advisor.engine.limits import answering
from advisor.engine.predictions import Predictions
from advisor.engine.table import Candidates
from advisor.models.performance import load_model
from advisor.questions.network import NetworkQuestion
from advisor.questions.spec import CLOUD
from tests.popular import POPULAR

pytestmark = pytest.mark.vector

QUESTION = ("recommend", "--task", "inference", "--model", "googlenet")
ROOT = Path(__file__).parents[3]
CATALOG, MODEL = load_catalog(), load_model()


def test_the_answer_meets_its_target_and_can_be_bought_and_run(answer):
    document = answer(*QUESTION, "--target-throughput", "500", quiet=True)
    chosen = document["recommendation"]
    assert chosen["predicted"]["throughput"]["lower"] >= 500
    instance = CATALOG.instance(chosen["instance_type"])
    assert CATALOG.is_offered(instance.name, "us-east-1")
    assert not hasattr(check(instance, CATALOG.gpu_of(instance), needs_gpu=True), "reason")
    listed = CATALOG.price(instance.name, "us-east-1")
    assert chosen["price"]["usd_per_hour"] == listed.usd_per_hour


requests = st.builds(
    NetworkQuestion,
    network=st.sampled_from(POPULAR),
    task=st.sampled_from(Task),
    precision=st.sampled_from(Precision),
    target_throughput=st.floats(min_value=1, max_value=30_000),
    confidence=st.sampled_from([0.5, 0.8, 0.9]),
    region=st.sampled_from(CATALOG.regions()),
)


@pytest.mark.slow
@given(requests)
def test_no_cheaper_spec_of_the_real_model_is_passed_over(request):
    answer = recommend(request, Preparations(CATALOG, MODEL), today=CATALOG.as_of)
    judged = runnable(request, CATALOG, MODEL, CATALOG.offers(query_of(request)))
    options = [
        replace(one, disks=(*one.disks, *one.slow_disks)) for one in judged if isinstance(one, Runnable)
    ]
    good = []
    if options:
        table = Candidates.of(request, options, Predictions(CATALOG, MODEL, request.confidence)).grid
        good = table.usd[answering(request, table)].tolist()
    if answer.chosen is None:
        assert not good
    else:
        assert answer.chosen.prediction.lower >= request.target_throughput
        by_estimate = answer.price_call and answer.price_call.cheaper
        cheapest = by_estimate or answer.chosen
        # Types without a GPU are not among the options.
        assert not good or cheapest.spec.total_usd_per_hour <= min(good) + 1e-12


@pytest.mark.parametrize("family", ["g4dn", "g5", "g6"])
@pytest.mark.parametrize("task", Task)
@pytest.mark.parametrize("network", POPULAR)
def test_a_bigger_sibling_is_never_less_sure(network, task, family):
    """A doubt about one stage must not hide behind another stage that is nearly as slow.

    By more than held-out trials of different stages differ in (half a per cent here)."""
    lowers = []
    for size in ("xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge"):
        instance = CATALOG.instance(f"{family}.{size}")
        disk = CATALOG.disks.attach(instance, "gp3", 500, "us-east-1", iops=8000, mib_per_second=1000)
        workload = Workload(network=network, task=task, batch_size=32)
        (one,) = MODEL.predict([(workload, resources_of(CATALOG, instance, disk))])
        lowers.append(one.lower)
    assert all(larger >= 0.995 * smaller for smaller, larger in pairwise(lowers))


def test_a_guess_is_marked_as_high_risk_and_is_valid_json(answer):
    document = answer(*QUESTION, "--confidence", "0.9999", "--allow-extrapolation")
    assert document["recommendation"]["risk"] == 4


@pytest.mark.parametrize(("today", "code"), [("2026-07-21", 0), ("2028-07-19", 0), ("2028-07-20", 5)])
def test_strict_takes_prices_for_as_long_as_their_source_keeps(ask, monkeypatch, today, code):
    """AWS's newest list is of 2026-07-20 and keeps for 730 days."""
    monkeypatch.setenv("ADVISOR_TODAY", today)
    assert ask(*QUESTION, "--strict")[0] == code


def test_what_to_relax_can_be_typed_as_it_is_told(answer):
    limits = ["--target-throughput", "900", "--max-price", "0.9"]
    document = answer(*QUESTION, *limits, code=3)
    assert document["relax"]
    for one in document["relax"]:
        (change,) = one["changes"]
        given = answer(*QUESTION, *limits, change["option"], change["to"])["recommendation"]
        assert given["instance_type"] == one["gives"]["instance_type"]
        assert given["price"]["total_usd_per_hour"] == one["gives"]["total_usd_per_hour"]


def test_a_printed_disk_can_be_asked_for(shown):
    chosen = shown(*QUESTION, "--target-throughput", "1000").splitlines()[2]
    disk = chosen.split(" + ")[1].split()[0]
    again = shown(*QUESTION, "--target-throughput", "1000", "--disk", disk).splitlines()[2]
    assert again == chosen


def test_a_damaged_model_is_named_with_the_way_out(said, tmp_path):
    shipped = Path("advisor/data/performance/default_model.json")
    damaged = tmp_path / "model.json"
    damaged.write_text((ROOT / shipped).read_text()[:-200])
    assert str(damaged) in said(*QUESTION, "--performance-model", damaged, code=1)


def test_help_names_every_cloud_that_is_ranked(shown):
    ranked = {offer.instance.cloud for offer in CATALOG.offers(OfferQuery(cloud="any"))}
    text = shown("recommend", "--help")
    named = " ".join(text.partition("--cloud ")[2].partition(" --region ")[0].split())
    assert ranked <= set(named.replace(",", "").split())
    assert [name for name in CATALOG.clouds if name not in CLOUD.help] == []


FEW = ("--target-throughput", "5000", "--gpu", "T4,L4,A10G")


@pytest.mark.parametrize("most", [1, 3, 10])
@pytest.mark.parametrize("more", [("--target-throughput", "500"), FEW, ()])
def test_every_format_has_as_many_specs(answer, shown, most, more):
    """--max-results counts the recommended one; the default counts as if it were written."""
    words = (*QUESTION, *more, *(() if most == 10 else ("--max-results", str(most))))
    document = answer(*words)
    specs = 1 + len(document["alternatives"])
    assert specs <= most
    assert len(list(csv.DictReader(io.StringIO(shown(*words, "-o", "csv"))))) == specs
    markdown = shown(*words, "-o", "md")
    ranks = tuple(f"| {rank} |" for rank in range(1, 12))
    assert sum(line.startswith(ranks) for line in markdown.splitlines()) == specs
    text = shown(*words)
    table = text.partition("Alternatives")[2].partition("\n\n")[0].splitlines()
    if most == 10:  # a table on a terminal shows four, and how many more there are
        assert len(table) == min(specs, 4)
        assert table[0].startswith(f" ({len(table) - 1} of {specs - 1}") == (specs > 4)
    else:
        assert len(table[1:]) == specs - 1
    assert (document["others"] is None) == (specs == most)
    if document["others"]:
        assert most == 10 or document["others"] in " ".join(text.lower().split())
        assert document["others"] in markdown


@pytest.mark.parametrize(
    ("network", "task"), [("googlenet", "inference"), ("resnet50", "training"), ("bert", "training")]
)
def test_nothing_is_listed_that_nobody_takes(answer, shown, network, task):
    """Neither a fiftieth of the recommended rate nor samples ten times as dear."""
    words = ("recommend", "--task", task, "--model", network)
    document = answer(*words)
    chosen = document["recommendation"]
    lower, cost = chosen["predicted"]["throughput"]["lower"], chosen["cost"]
    for one in document["alternatives"]:
        assert one["predicted"]["throughput"]["lower"] >= lower / 50
    for one in document["pareto"]:
        assert one["lower"] >= lower / 50
        assert one["usd_per_million_samples"] <= 10 * cost["usd_per_million_samples"]
    own = chosen["instance_type"], chosen["disk"]["order"], chosen["price"]["total_usd_per_hour"]
    front = [(one["instance_type"], one["disk"], one["total_usd_per_hour"]) for one in document["pareto"]]
    assert own in front
    front = shown(*words).partition("Pareto front")[2].partition("\n\n")[0]
    assert f"  {chosen['instance_type']} " in front


@pytest.mark.parametrize(
    "more",
    [
        ("--target-throughput", "1000", "--precision", "amp"),
        ("--precision", "amp"),
        ("--max-latency-ms", "60"),
        ("--target-throughput", "500", "--pareto"),
    ],
)
def test_a_spec_has_one_price_in_one_answer(answer, more):
    """Whatever part of the answer names it; another price of a type names another disk."""
    words = ("recommend", "--task", "inference", "--model", "resnet50", *more)
    document = answer(*words, "--explain-rejected")
    specs = [document["recommendation"], *document["alternatives"]]
    prices = [
        (one["instance_type"], one["disk"]["order"], one["price"]["total_usd_per_hour"]) for one in specs
    ]
    prices += [(one["instance_type"], one["disk"], one["total_usd_per_hour"]) for one in document["pareto"]]
    prices += [
        (one["instance_type"], one["disk"], one["usd_per_hour"])
        for one in (*document["rejected"], *document["close_calls"])
        if one["disk"]
    ]
    by_spec = {}
    for name, disk, usd in prices:
        assert by_spec.setdefault((name, disk), usd) == pytest.approx(usd), (name, disk)


def test_a_spec_is_predicted_at_the_batch_with_which_it_is_recommended(answer):
    for target in ("300", "1000", "2000"):
        words = ("--task", "inference", "--model", "resnet50", "--precision", "amp")
        pick = answer("recommend", *words, "--target-throughput", target)["recommendation"]
        place = ("--instance", pick["instance_type"], "--disk", pick["disk"]["order"])
        alone = answer("predict", *words, *place)
        assert alone["batch_size"] == alone["good_batch_size"]
        lower = alone["predicted"]["throughput"]["lower"]
        if lower < float(target):  # only a larger batch reaches it
            assert pick["batch_size"] > alone["batch_size"]
            continue
        assert alone["batch_size"] == pick["batch_size"]
        assert lower == pytest.approx(pick["predicted"]["throughput"]["lower"], rel=1e-9)


def test_arm_and_a_cpu_of_unknown_speed_are_told(answer, shown):
    words = (*shlex.split("recommend --task preprocessing --model resnet50 --epochs 1 --max-hours 1"),)
    document, text = answer(*words), shown(*words)
    pick = document["recommendation"]
    assert pick["cpu_architecture"] == CATALOG.instance(pick["instance_type"]).cpu.architecture
    has = next(line for line in text.splitlines() if line.startswith("  has"))
    assert ("arm64" in has) == (pick["cpu_architecture"] == "arm64")
    assert ("speed unknown" in has) == (not pick["cpu_speed_known"])


def test_a_batch_that_fits_nowhere_is_relaxed_to_the_largest_doubling_that_fits(answer, ask):
    document = answer(*QUESTION, "--batch-size", "1,000,000", "--gpu", "T4", code=3)
    (change,) = document["relax"][0]["changes"]
    fitting = int(change["to"])
    assert (change["option"], fitting >= 256) == ("--batch-size", True)
    for size, code in ((fitting, 0), (2 * fitting, 3)):
        assert ask(*QUESTION, "--batch-size", size, "--gpu", "T4")[0] == code


def test_the_latency_that_is_limited_is_told_to_be_one_batch_alone(shown):
    assert "one batch alone" in " ".join(shown("recommend", "--help").split())
    assert "no queueing" in shown(*QUESTION, "--max-latency-ms", "200", "--target-throughput", "100")


def test_tables_say_how_many_instances_only_where_some_are_several(shown):
    question = (*QUESTION, "--target-throughput", "5000")
    assert "| count |" not in shown(*question, "-o", "md")
    assert "| count |" in shown(*question, "--max-count", "8", "-o", "md")
    rows = csv.DictReader(io.StringIO(shown(*question, "--max-count", "8", "-o", "csv")))
    assert {int(row["count"]) for row in rows} - {1}


def test_what_was_measured_between_nodes_is_an_anchor(answer):
    """The doubt that nobody measured is gone, and the bounds are others."""
    nodes = (
        *shlex.split("recommend --task training --model resnet50 --precision amp --gpu A10G"),
        *shlex.split("--target-throughput 4000 --max-nodes 4"),
    )
    measured = ROOT / "tests" / "data" / "nodes" / "resnet50-1gbit.json"
    before, after = answer(*nodes), answer(*nodes, "--anchor", measured)
    assert any("nobody measured" in warning for warning in before["warnings"])
    assert not any("nobody measured" in warning for warning in after["warnings"])
    lower = [each["recommendation"]["predicted"]["throughput"]["lower"] for each in (before, after)]
    assert lower[0] != lower[1]
