"""`advisor gpus` as a user calls it."""

import csv
import io

import pytest


@pytest.fixture
def rows(shown):
    """The table's rows, as a spreadsheet has them."""
    return lambda *words: list(csv.DictReader(io.StringIO(shown("gpus", *words, "-o", "csv"))))


def test_json_has_every_data_sheet_and_the_cheapest_offer(answer):
    """With prices dated; unknown values are null, never 0."""
    rows = {row["name"]: row for row in answer("gpus")["gpus"]}
    t4 = rows["T4"]
    assert t4["cheapest"]["instance_type"] == "g4dn.xlarge"
    assert t4["usd_per_gpu_hour"] == t4["cheapest"]["price"]["usd_per_hour"]
    assert t4["int8_tops"] == 130
    assert rows["TITAN V"]["usd_per_gpu_hour"] is None
    assert all(value != 0 for row in rows.values() for value in row.values())


def test_sorted_as_asked_with_unknown_values_last(rows):
    """Most memory first, cheapest first."""
    memory = [float(row["memory_mib"]) for row in rows("--sort-by", "memory_mib")]
    assert memory == sorted(memory, reverse=True)
    prices = [row["usd_per_gpu_hour"] for row in rows()]
    known = [float(price) for price in prices if price]
    assert known == sorted(known)
    assert prices[len(known) :] == [""] * (len(prices) - len(known))


def test_a_least_memory_keeps_cards_sold_with_it(rows):
    """24GiB.. is every 24 GB card, and none of 16."""
    names = {row["name"] for row in rows("--gpu", "24GiB..")}
    assert {"L4", "A10G", "RTX 3090", "A100-SXM4-80GB"} <= names
    assert not {"T4", "V100-SXM2-16GB"} & names
