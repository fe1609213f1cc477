"""The price cuts of June 2025, replayed through refresh, change exactly the right answers."""

import csv
from collections.abc import Iterator
from datetime import date
from itertools import product
from pathlib import Path

import pytest

from advisor.catalog import Catalog, Rejection, check, resources_of
from advisor.domain import CacheState, DiskChoice, Prediction, Resources, Task, Workload
from advisor.domain.live import Refresh
from advisor.engine import Preparations, recommend
from advisor.engine.candidates import batches_of, disks_for, plain_workload, query_of
from advisor.questions.network import NetworkQuestion
from tests.advisor.engine.plain_model import PlainModel
from tests.advisor.live.aws import BUNDLED, REGION, TODAY, fill, refreshed
from tests.builders import network_question
from tests.infra.live.conftest import point_at
from tests.infra.live.recorded import Recorded, serving

HISTORY = Path(__file__).parents[2] / "data" / "price_history" / "aws_gpu_us_east_1.csv"
CUT = {"p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "p5en.48xlarge"}
BEFORE, AFTER = date(2025, 6, 22), date(2025, 6, 23)
DISK = DiskChoice(type="gp3", size_gib=500.0)
MODEL = PlainModel()


def prices_on(day: date) -> dict[str, float]:
    """What each type that was sold on a day cost then."""
    seen = [row for row in ROWS if row["first_seen_commit_date"] <= day.isoformat()]
    return {row["instance_type"]: float(row["price_usd_per_hour"]) for row in seen}


with HISTORY.open() as _file:
    ROWS = sorted(csv.DictReader(_file), key=lambda row: row["first_seen_commit_date"])
NAMES = sorted({row["instance_type"] for row in ROWS})
QUESTIONS = [
    network_question(
        network="googlenet",
        task=Task.TRAINING,
        target_throughput=target,
        gpus=gpus,
        min_gpu_memory_mib=memory,
        max_usd_per_hour=limit,
        disk=DISK,
    )
    for gpus, target, memory, limit in product(
        [(), ("A100",), ("V100", "A100"), ("H100", "H200"), ("A100", "H100", "H200"), ("T4", "L4")],
        [None, 300.0, 900.0, 2500.0],
        [None, 30_000.0],
        [None, 25.0, 60.0],
    )
]


def sold(request: NetworkQuestion, prices: dict[str, float]) -> Iterator[tuple[float, str]]:
    """What it costs to ask for, and the type, of every spec that meets a request, by force."""
    for offer in BUNDLED.offers(query_of(request)):
        instance = offer.instance
        gpu = BUNDLED.gpu_of(instance)
        runs = not isinstance(check(instance, gpu, needs_gpu=True), Rejection)
        if instance.name not in prices or not runs:
            continue
        for disk in disks_for(request, BUNDLED, instance):
            usd = prices[instance.name] + disk.usd_per_hour
            resources = resources_of(BUNDLED, offer, disk)
            for workload in batches_of(request, plain_workload(request))[
                3:
            ]:  # of 8 and more: smaller ones are no faster
                (rate,) = MODEL.predict([(workload, resources)], confidence=request.confidence)
                fits = MODEL.gpu_memory_mib(workload) <= gpu.memory_mib
                cold = _first_epoch(workload, resources, request) or rate
                fits &= 2 * cold.lower >= (request.target_throughput or rate.lower)
                if fits and usd <= (request.max_usd_per_hour or 1e9):
                    if request.target_throughput is None:
                        yield usd / rate.median, instance.name
                    elif rate.lower >= request.target_throughput:
                        yield usd, instance.name


def _first_epoch(workload: Workload, resources: Resources, request: NetworkQuestion) -> Prediction | None:
    """The rate at which a training reads its data from the disk; None for other tasks."""
    if request.task is not Task.TRAINING:
        return None
    (cold,) = MODEL.predict([(workload, resources)], confidence=request.confidence, cache=CacheState.COLD)
    return cold


def answer(request: NetworkQuestion, catalog: Catalog) -> str | None:
    chosen = recommend(request, Preparations(catalog, MODEL), today=TODAY).chosen
    return chosen.spec.offer.instance.name if chosen else None


def by_force(request: NetworkQuestion, prices: dict[str, float]) -> set[str | None]:
    """The types that may be answered: several only where they cost the same."""
    specs = list(sold(request, prices))
    least = min(specs)[0] if specs else None
    return {name for cost, name in specs if least and cost <= least * (1 + 1e-12)} or {None}


@pytest.fixture(scope="module")
def replayed(tmp_path_factory) -> tuple[Catalog, Catalog, Refresh]:
    """The catalogue of the day before and of the day, and what the second refresh told."""
    folder = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patch, serving(Recorded()) as aws:
        point_at(patch, aws, folder)
        fill(aws, prices_on(BEFORE))
        _, before = refreshed(folder, NAMES)
        fill(aws, prices_on(AFTER))
        text, after = refreshed(folder, NAMES)
        again, _ = refreshed(folder, NAMES)
    assert not any(asked_price.changed for asked_price in again.answers)
    return before, after, text


def test_a_refresh_tells_the_four_price_cuts_and_nothing_else(replayed) -> None:
    _, _, outcome = replayed
    assert {asked_price.instance_type for asked_price in outcome.answers if asked_price.changed} == CUT
    assert not any(asked_price.not_believed for asked_price in outcome.answers)
    assert not outcome.withdrawn
    deepest = next(
        asked_price for asked_price in outcome.answers if asked_price.instance_type == "p5.48xlarge"
    )
    assert deepest.price.usd_per_hour / deepest.before.usd_per_hour == pytest.approx(0.56, abs=0.01)


def test_what_was_not_yet_sold_is_not_recommended(replayed) -> None:
    before, _, _ = replayed
    assert before.price("p5.4xlarge", REGION) is None
    assert BUNDLED.price("p5.4xlarge", REGION) is not None


def test_answers_change_exactly_when_the_prices_say_so(replayed) -> None:
    """Each question, before and after, against the cheapest of all specs by brute force."""
    before, after, _ = replayed
    changed, same = set(), 0
    for request in QUESTIONS:
        was, now = answer(request, before), answer(request, after)
        assert was in by_force(request, prices_on(BEFORE)), request
        assert now in by_force(request, prices_on(AFTER)), request
        if was == now:
            same += 1
        else:
            changed.add((was, now))
    assert same > 40
    # Nothing but a type that became cheaper takes another's place.
    assert {now for _, now in changed} <= CUT
    assert len(changed) >= 4
