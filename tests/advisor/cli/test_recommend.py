"""The main question from the command line, on the bundled catalogue and performance model."""

import csv
import io
import json
import shlex
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import jsonschema
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
from tests.popular import POPULAR

pytestmark = pytest.mark.vector

SCHEMA = json.loads((files("advisor.render") / "schemas/recommendation.schema.json").read_text())
QUESTION = ("recommend", "--task", "inference", "--model", "googlenet")
CATALOG, MODEL = load_catalog(), load_model()


def strict_json(text):
    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_the_answer_meets_its_target_and_can_be_bought_and_run(ask):
    code, out, err = ask(*QUESTION, "--target-throughput", "500", "-o", "json")
    document = strict_json(out)
    chosen = document["recommendation"]
    assert (code, err) == (0, "")
    jsonschema.validate(document, SCHEMA)
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


@pytest.mark.slow
@given(requests)
def test_asking_to_be_less_sure_is_never_dearer(request):
    sure = recommend(request, Preparations(CATALOG, MODEL), today=CATALOG.as_of).chosen
    less = recommend(
        replace(request, confidence=0.5), Preparations(CATALOG, MODEL), today=CATALOG.as_of
    ).chosen
    if sure is not None:
        assert less.spec.total_usd_per_hour <= sure.spec.total_usd_per_hour


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


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--model", "googlenett"], 2, "did you mean googlenet?"),
        (["--model", "bert_bayes"], 2, "unknown network 'bert_bayes'"),
        (["--task", "infer"], 2, "unknown task 'infer'"),
        (["--region", "us-east-9"], 2, "unknown region"),
        (["--gpu", "T44"], 2, "unknown GPU"),
        (["--gpu", "24parsecs.."], 2, "not a size"),
        (["--disk", "gp33:1GiB"], 2, "did you mean gp3"),
        (["--disk", "gp3:1parsec"], 2, "not a size"),
        (["--disk", "gp3:10GiB"], 2, "cannot hold imagenet"),
        (["--disk", "gp3:500GiB:1iops"], 2, "3000 to 80000 IOPS"),
        (["--disk", "gp3:500GiB:500GiB"], 2, "gp3:158GiB:6000iops"),
        (["--target-throughput", "0"], 2, "above 0"),
        (["--target-throughput", "-5"], 2, "above 0"),
        (["--target-throughput", "nan"], 2, "above 0"),
        (["--target-throughput", "abc"], 2, "above 0"),
        (["--confidence", "90"], 2, "as 0.9"),
        (["--batch-size", "1.5"], 2, "whole number"),
        (["--dataset", "imagenot"], 2, "did you mean imagenet?"),
        (["--dataset", "./nowhere/at/all"], 2, "no folder"),
        (["--performance-model", "nowhere.json"], 2, "advisor fit --out"),
        (["--target-throughput", "9e9"], 3, "relax --target-throughput"),
        (["--target-throughput", "10", "--confidence", "0.9999"], 4, "--allow-extrapolation"),
    ],
)
def test_each_refusal_is_one_line_with_the_way_out(ask, arguments, code, said):
    got, _, err = ask(*QUESTION, *arguments)
    assert (got, len(err.strip().splitlines())) == (code, 1)
    assert said in err


def test_a_guess_is_marked_as_high_risk_and_is_valid_json(ask):
    code, out, _ = ask(*QUESTION, "--confidence", "0.9999", "--allow-extrapolation", "-o", "json")
    document = strict_json(out)
    assert (code, document["recommendation"]["risk"]) == (0, 4)
    jsonschema.validate(document, SCHEMA)


@pytest.mark.parametrize(("today", "code"), [("2026-07-21", 0), ("2028-07-19", 0), ("2028-07-20", 5)])
def test_strict_takes_prices_for_as_long_as_their_source_keeps(ask, monkeypatch, today, code):
    """AWS's newest list is of 2026-07-20 and keeps for 730 days."""
    monkeypatch.setenv("ADVISOR_TODAY", today)
    assert ask(*QUESTION, "--strict")[0] == code


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("--vcpus", "16..4"), "lower end first"),
        (("--vcpus", "many"), "above 0"),
        (("--memory", "32"), "4GiB"),
        (("--gpu", "cc99x.."), "compute capability"),
        (("--disk", "gp3:500GiB,io2"), "name types alone"),
        (("--disk", "gp3,gp9"), "did you mean"),
        (("--disk", ","), "--disk takes"),
        (("--quota", "Q=8"), "unknown quota"),
        (("--quota", "G=8", "--cloud", "gcp"), "not of gcp"),
    ],
)
def test_a_constraint_that_makes_no_sense_is_one_line(ask, arguments, hint):
    code, out, err = ask(*QUESTION, *arguments)
    assert (code, out) == (2, "")
    assert hint in err
    assert err.count("\n") == 1


def test_what_to_relax_can_be_typed_as_it_is_told(ask):
    limits = ["--target-throughput", "900", "--max-price", "0.9"]
    code, out, _ = ask(*QUESTION, *limits, "-o", "json")
    document = strict_json(out)
    jsonschema.validate(document, SCHEMA)
    assert code == 3
    assert document["relax"]
    for one in document["relax"]:
        (change,) = one["changes"]
        asked = [*QUESTION, *limits, change["option"], change["to"], "-o", "json"]
        given = strict_json(ask(*asked)[1])["recommendation"]
        assert given["instance_type"] == one["gives"]["instance_type"]
        assert given["price"]["total_usd_per_hour"] == one["gives"]["total_usd_per_hour"]


def test_a_printed_disk_can_be_asked_for(ask):
    chosen = ask(*QUESTION, "--target-throughput", "1000")[1].splitlines()[2]
    disk = chosen.split(" + ")[1].split()[0]
    again = ask(*QUESTION, "--target-throughput", "1000", "--disk", disk)[1].splitlines()[2]
    assert again == chosen


def test_a_damaged_model_is_named_with_the_way_out(ask, tmp_path):
    shipped = Path("advisor/data/performance/default_model.json")
    damaged = tmp_path / "model.json"
    damaged.write_text((Path(__file__).parents[3] / shipped).read_text()[:-200])
    code, out, err = ask(*QUESTION, "--performance-model", str(damaged))
    assert (code, out) == (1, "")
    assert str(damaged) in err


def test_help_names_every_cloud_that_is_ranked(ask):
    ranked = {offer.instance.cloud for offer in CATALOG.offers(OfferQuery(cloud="any"))}
    text = ask("recommend", "--help")[1]
    named = " ".join(text.partition("--cloud ")[2].partition(" --region ")[0].split())
    assert ranked <= set(named.replace(",", "").split())


FEW = ("--target-throughput", "5000", "--gpu", "T4,L4,A10G")


@pytest.mark.parametrize("most", [1, 3, 10])
@pytest.mark.parametrize("more", [("--target-throughput", "500"), FEW, ()])
def test_every_format_has_as_many_specs(ask, most, more):
    """--max-results counts the recommended one; the default counts as if it were written."""
    words = (*QUESTION, *more, *(() if most == 10 else ("--max-results", str(most))))
    document = strict_json(ask(*words, "-o", "json")[1])
    specs = 1 + len(document["alternatives"])
    assert specs <= most
    assert len(list(csv.DictReader(io.StringIO(ask(*words, "-o", "csv")[1])))) == specs
    markdown = ask(*words, "-o", "md")[1]
    assert (
        sum(line.startswith(f"| {rank} |") for rank in range(1, 12) for line in markdown.splitlines())
        == specs
    )
    text = ask(*words)[1]
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
def test_nothing_is_listed_that_nobody_takes(ask, network, task):
    """Neither a fiftieth of the recommended rate nor samples ten times as dear."""
    words = ("recommend", "--task", task, "--model", network, "-o", "json")
    document = strict_json(ask(*words)[1])
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
    text = ask(*words[:-2])[1]
    shown = text.partition("Pareto front")[2].partition("\n\n")[0]
    assert f"  {chosen['instance_type']} " in shown


@pytest.mark.parametrize(
    "more",
    [
        ("--target-throughput", "1000", "--precision", "amp"),
        ("--precision", "amp"),
        ("--max-latency-ms", "60"),
        ("--target-throughput", "500", "--pareto"),
    ],
)
def test_a_spec_has_one_price_in_one_answer(ask, more):
    """Whatever part of the answer names it; another price of a type names another disk."""
    words = ("recommend", "--task", "inference", "--model", "resnet50", *more)
    document = strict_json(ask(*words, "--explain-rejected", "-o", "json")[1])
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


def test_a_spec_is_predicted_at_the_batch_with_which_it_is_recommended(ask):
    for target in ("300", "1000", "2000"):
        words = ("--task", "inference", "--model", "resnet50", "--precision", "amp")
        asked = ("recommend", *words, "--target-throughput", target, "-o", "json")
        pick = strict_json(ask(*asked)[1])["recommendation"]
        place = ("--instance", pick["instance_type"], "--disk", pick["disk"]["order"])
        alone = strict_json(ask("predict", *words, *place, "-o", "json")[1])
        assert alone["batch_size"] == alone["good_batch_size"]
        lower = alone["predicted"]["throughput"]["lower"]
        if lower < float(target):  # only a larger batch reaches it
            assert pick["batch_size"] > alone["batch_size"]
            continue
        assert alone["batch_size"] == pick["batch_size"]
        assert lower == pytest.approx(pick["predicted"]["throughput"]["lower"], rel=1e-9)


def test_arm_and_a_cpu_of_unknown_speed_are_told(ask):
    words = (*shlex.split("recommend --task preprocessing --model resnet50 --epochs 1 --max-hours 1"),)
    document, text = strict_json(ask(*words, "-o", "json")[1]), ask(*words)[1]
    jsonschema.validate(document, SCHEMA)
    pick = document["recommendation"]
    assert pick["cpu_architecture"] == CATALOG.instance(pick["instance_type"]).cpu.architecture
    has = next(line for line in text.splitlines() if line.startswith("  has"))
    assert ("arm64" in has) == (pick["cpu_architecture"] == "arm64")
    assert ("speed unknown" in has) == (not pick["cpu_speed_known"])
