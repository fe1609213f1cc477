"""The price cuts of June 2025, replayed through refresh, change exactly the right answers."""

import csv
from datetime import date
from itertools import product
from pathlib import Path

import pytest

from advisor.catalog import Catalog
from advisor.domain import DiskChoice, Task
from advisor.domain.live import Refresh
from advisor.engine import Preparations, recommend
from advisor.questions.network import NetworkQuestion
from tests.advisor.engine.plain_model import PlainModel
from tests.advisor.live.aws import BUNDLED, REGION, TODAY, fill, refreshed
from tests.builders import network_question
from tests.infra.live.conftest import point_at
from tests.infra.live.recorded import Recorded, serving

HISTORY = Path(__file__).parents[2] / "data" / "price_history" / "aws_gpu_us_east_1.csv"
CUT = {"p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "p5en.48xlarge"}
BEFORE, AFTER = date(2025, 6, 22), date(2025, 6, 23)
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
        disk=DiskChoice(type="gp3", size_gib=500.0),
    )
    for gpus, target, memory, limit in product(
        [(), ("A100",), ("V100", "A100"), ("H100", "H200"), ("A100", "H100", "H200"), ("T4", "L4")],
        [None, 300.0, 900.0, 2500.0],
        [None, 30_000.0],
        [None, 25.0, 60.0],
    )
]


def answer(request: NetworkQuestion, catalog: Catalog) -> str | None:
    chosen = recommend(request, Preparations(catalog, MODEL), today=TODAY).chosen
    return chosen.spec.offer.instance.name if chosen else None


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


def test_answers_change_exactly_when_the_prices_say_so_and_none_is_of_what_was_not_yet_sold(replayed):
    before, after, _ = replayed
    answers = [(answer(request, before), answer(request, after)) for request in QUESTIONS]
    changed = {(was, now) for was, now in answers if was != now}
    assert sum(was == now for was, now in answers) > 40
    assert {now for _, now in changed} <= CUT
    assert len(changed) >= 4
    before, _, _ = replayed
    assert before.price("p5.4xlarge", REGION) is None
    assert BUNDLED.price("p5.4xlarge", REGION) is not None
