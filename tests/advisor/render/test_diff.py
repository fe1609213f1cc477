"""What changed between two documents: facts, their words, and what is no change."""

import copy
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.messages import format_rate, short_usd
from advisor.render.diff import difference
from advisor.render.diff_text import difference_markdown, difference_text
from tests.advisor.render.schemas import assert_keeps
from tests.advisor.render.sizing.reports import golden_report, mixed_report

GOLDEN = Path(__file__).parents[2] / "golden"
HOSTILE = "<b>=1+1\n# 报告 📈 [x](http://evil) `rm` | \x1b[2J" + "x" * 300


def compared(old, new):
    """The document, held against its schema."""
    changes = difference(old, new)
    assert_keeps(changes, "report-diff")
    json.dumps(changes, allow_nan=False)
    return changes


@pytest.fixture
def old():
    return golden_report()


@pytest.fixture
def new(old):
    return copy.deepcopy(old)


def repriced(section, times):
    """The pick's price everywhere in a section, as a new catalogue would have it."""
    pick = section["recommendation"]["recommendation"]
    for row in (pick["price"], section["costs"]["choices"][0], *_of_pick(section, pick)):
        name = "usd_per_hour" if "market" in row and "total_usd_per_hour" not in row else None
        row[name or "total_usd_per_hour"] *= times
    return pick


def _of_pick(section, pick):
    drawn = [row for row in section["price_throughput"] if row["chosen"]]
    return [*drawn, *(row for row in section["regions"] if row["region"] == pick["region"])]


def swapped(section):
    """The first alternative is the pick now."""
    answer = section["recommendation"]
    before, after = answer["recommendation"], answer["alternatives"][0]
    answer["recommendation"], answer["alternatives"][0] = after, before
    return before, after


def test_the_same_report_has_not_changed(old, new):
    new["as_of"] = "2026-12-22"
    new["workloads"][0]["recommendation"]["warnings"] = ["the instance price is 155 days old"]
    changes = compared(old, new)
    assert changes["changed"] is False
    assert difference_text(changes).startswith("Nothing changed from 2026-11-22 to 2026-12-22")
    assert changes["workloads"][0]["warnings"]["came"] == ["the instance price is 155 days old"]


def test_a_price_that_fell_is_told_with_its_share(old, new):
    repriced(new["workloads"][0], 0.96)
    changes = compared(old, new)
    row = changes["workloads"][0]["prices"][0]
    assert (row["instance_type"], round(row["percent"], 6)) == ("g4dn.2xlarge", -4)
    text = difference_text(changes)
    assert "g4dn.2xlarge (us-east-1, on-demand) became 4 % cheaper: $0.752 -> $0.722" in text
    stays = "the pick stays (g4dn.2xlarge + local disk), $0.752 -> $0.722 an hour (-4.0 %)"
    assert f"{stays}, $549 -> $527 a month" in text
    assert changes["totals"]["usd_per_hour"]["new"] < changes["totals"]["usd_per_hour"]["old"]


def test_another_pick_has_its_reasons(old, new):
    section = new["workloads"][0]
    before, after = swapped(section)
    section["recommendation"]["alternatives"] = section["recommendation"]["alternatives"][1:]
    rejected = {"reason": "not_offered", "detail": "sold out", "usd_per_hour": None}
    section["recommendation"]["rejected"].append(rejected | {"instance_type": before["instance_type"]})
    changes = compared(old, new)
    pick = changes["workloads"][0]["pick"]
    assert pick["changed"]
    kinds = [(reason["kind"], reason.get("now"), reason.get("then")) for reason in pick["reasons"]]
    assert kinds == [("old_pick", "rejected", None)]
    text = difference_text(changes)
    assert f"the pick changed from {before['instance_type']}" in text
    assert f"because {before['instance_type']} is rejected now (not offered: sold out)" in text
    assert after["instance_type"] in text


def test_a_prediction_that_moved_is_told_with_its_interval(old, new):
    section = new["workloads"][0]
    rate = section["recommendation"]["recommendation"]["predicted"]["throughput"]
    before = {name: format_rate(value) for name, value in rate.items()}
    rate["lower"] *= 0.9
    (row,) = compared(old, new)["workloads"][0]["predictions"]
    assert row["new_interval"]["lower"] == pytest.approx(0.9 * row["old_interval"]["lower"])
    assert row["median"]["percent"] == 0.0
    median, lower, upper = (before[name] for name in ("median", "lower", "upper"))
    now = f"is predicted {median} ({format_rate(rate['lower'])} to {upper}) images/s"
    assert f"{now}, was {median} ({lower} to {upper})" in difference_text(difference(old, new))


def test_reports_on_language_models_are_compared_in_their_own_units():
    before, after = mixed_report(), mixed_report()
    assert compared(before, after)["changed"] is False
    for section in after["workloads"][1:3]:
        swapped(section)
        section["recommendation"]["recommendation"]["predicted"]["throughput"]["lower"] *= 0.9
    for section in after["workloads"][1:]:
        section["recommendation"]["performance_model"]["id"] = "0123"
    report = compared(before, after)
    text, totals = difference_text(report), report["totals"]
    for name in ("month_usd", "run_usd"):
        assert totals[name]["old"] == pytest.approx(before["totals"][name])
    assert totals["month_usd"] == totals["usd_per_month"]
    assert "Chat: the pick changed from g6e.12xlarge + gp3:40GiB" in text
    for unit in (" output tokens", r"\) tokens"):
        assert re.search(rf"p4d.24xlarge .* is predicted .*{unit}/s, was", text)
    assert "the predictors of language models changed: 5e4f3a2b1c0d9e8f -> 0123" in text
    assert "performance model" not in text


def test_months_that_count_other_workloads_are_told_as_such():
    before, after = mixed_report(), mixed_report()
    before["workloads"][2]["runs_per_month"] = 2
    changes = compared(before, after)
    (lacks,) = changes["totals"]["all_month_lacks"]["new"]
    assert (lacks["name"], lacks["why"]) == ("Tuning", "not_planned")
    status = {row["name"]: row["status"] for row in changes["workloads"]}
    assert [name for name in status if status[name] == "changed"] == ["Tuning"]
    text = difference_text(changes)
    usd = f"{lacks['month_usd']:.0f}"
    assert f"a month (-${usd}): Tuning (no runs a month now) -${usd}\n" in text
    assert "Tuning: the pick stays" in text
    assert f"  runs a month: 2 -> not set (${usd} a month)" in text


def test_a_run_that_becomes_a_commitment_is_compared_by_what_its_months_cost():
    before, after = mixed_report(), mixed_report()
    for report in (before, after):
        report["workloads"][2]["runs_per_month"] = 2
    chosen = after["workloads"][2]["recommendation"]["recommendation"]
    chosen["market"] = "commitment-1y"
    # Half a month for each of two runs follows from the plan.
    after["workloads"][2]["recommendation"]["request"] |= {"market": "commitment-1y", "horizon_hours": 365.0}
    runs, owed = 2 * chosen["run"]["usd"]["median"], 730 * chosen["price"]["total_usd_per_hour"]
    line = next(line for line in difference_text(compared(before, after)).splitlines() if "Tuning: " in line)
    assert f"{short_usd(runs)} -> {short_usd(owed)} a month" in line
    assert "because you ask for --market commitment-1y (was on-demand)" in line
    assert "--horizon-hours" not in line


def test_a_monthly_sum_says_what_each_workload_adds_to_its_change():
    before, after = mixed_report(), mixed_report()
    before["workloads"][2]["runs_per_month"], after["workloads"][2]["runs_per_month"] = 2, 4
    new = before["workloads"].pop(1)["name"]
    changes = compared(before, after)
    line = next(line for line in difference_text(changes).splitlines() if line.startswith("In all"))
    ends, parts = re.fullmatch(r"In all (.*) a month \(\+.*\): (.*)", line).groups()
    old_usd, new_usd = (float(usd.replace(",", "")) for usd in re.findall(r"\$([\d,.]+)", ends))
    added = [float(usd.replace(",", "")) for usd in re.findall(r"\+\$([\d,.]+)", parts)]
    assert sum(added) == pytest.approx(new_usd - old_usd, abs=len(added))
    assert f"{new} (new) +$" in parts
    assert "Tuning +$" in parts


def test_what_it_stands_on_is_told(old, new):
    context = new["reproducibility"]
    context["catalog"] |= {"as_of": "2026-12-01", "sha256": "f" * 64}
    context["performance_model"] |= {"id": "abc", "trained_on": "60 trials"}
    context["measurements"]["bundled_sha256"] = "e" * 64
    changes = compared(old, new)
    changed = [name for name, part in changes["stands_on"].items() if part["changed"]]
    assert changed == ["catalog", "performance_model", "measurements"]
    text = difference_text(changes)
    assert "the catalogue changed: 2026-07-20 -> 2026-12-01" in text
    assert "-> abc (fitted on 60 trials)" in text
    assert "the measurements changed (still 30)" in text


def test_workloads_come_and_go(old, new):
    gone = new["workloads"].pop(1)["name"]
    first, second, *_ = new["workloads"]
    first["name"], second["name"] = "Another", "Renamed"
    first["recommendation"]["request"]["model"] = "another"
    changes = compared(old, new)
    status = {section["name"]: section["status"] for section in changes["workloads"]}
    assert (status["Another"], status["Renamed"]) == ("added", "same")
    assert status[gone] == status[old["workloads"][0]["name"]] == "removed"
    assert f"{gone} is no longer asked for" in difference_text(changes)
    # What only the removed workload stood on is no change.
    before, after = mixed_report(), mixed_report()
    after["workloads"] = after["workloads"][:1]
    after["reproducibility"]["language_predictors"] = []
    assert "predictors" not in difference_text(compared(before, after))


@pytest.mark.parametrize("workload", [0, 1], ids=["network", "language model"])
def test_a_saved_answer_is_compared_with_a_report(workload):
    section = mixed_report()["workloads"][workload]
    report = {**mixed_report(), "workloads": [section]}
    assert compared(section["recommendation"], report)["workloads"][0]["status"] == "same"


def test_an_answer_that_comes_or_goes_is_told():
    saved = json.loads((GOLDEN / "recommendation.json").read_text())
    other = copy.deepcopy(saved)
    other["recommendation"], other["alternatives"] = None, []
    other["nearest"] = saved["recommendation"]
    changes = compared(saved, other)
    assert "nothing meets the target any more" in difference_text(changes)
    back = difference_text(compared(other, saved))
    assert "meets the target now, and nothing did before" in back


def test_a_hostile_name_harms_no_text(old, new):
    for document, times in ((old, 1.0), (new, 0.5)):
        document["workloads"][0]["name"] = HOSTILE
        repriced(document["workloads"][0], times)["instance_type"] = HOSTILE
    changes = compared(old, new)
    for text in (difference_text(changes), difference_markdown(changes)):
        assert "\x1b" not in text
        assert "\n# 报告" not in text
    assert "<b>" not in difference_markdown(changes).replace("\\<b\\>", "")
    assert "[x](http" not in difference_markdown(changes)


@given(st.data())
def test_swapping_the_sides_mirrors_the_difference(data):
    old = golden_report()
    new = copy.deepcopy(old)
    keep = data.draw(st.sets(st.sampled_from(range(len(old["workloads"]))), min_size=2))
    new["workloads"] = [section for index, section in enumerate(new["workloads"]) if index in keep]
    for section in new["workloads"]:
        for row in section["price_throughput"]:
            row["total_usd_per_hour"] *= data.draw(st.sampled_from([1, 1, 1, 0.5, 3]))
    there, back = compared(old, new), compared(new, old)
    assert there["changed"] == back["changed"]
    names = {"added": "removed", "removed": "added"}
    told, mirrored = (
        {row["name"]: (row["status"], len(row.get("prices", ()))) for row in each["workloads"]}
        for each in (there, back)
    )
    assert told == {name: (names.get(status, status), count) for name, (status, count) in mirrored.items()}
    difference_text(there)
