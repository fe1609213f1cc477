"""`advisor gpus` as a user calls it."""

from __future__ import annotations

import csv
import io
import json

import pytest

from advisor.cli.main import run


def test_json_has_every_data_sheet_and_the_cheapest_offer(capsys) -> None:
    """With prices dated; unknown values are null, never 0."""
    assert run(["gpus", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    rows = {row["name"]: row for row in document["gpus"]}
    t4 = rows["T4"]
    assert document["schema"] == "advisor.gpus/1"
    assert t4["cheapest"]["instance_type"] == "g4dn.xlarge"
    assert t4["usd_per_gpu_hour"] == t4["cheapest"]["price"]["usd_per_hour"]
    assert t4["int8_tops"] == 130
    assert rows["TITAN V"]["usd_per_gpu_hour"] is None
    assert all(value != 0 for row in rows.values() for value in row.values())


def test_sorted_as_asked_with_unknown_values_last(capsys) -> None:
    """Most memory first, cheapest first."""
    run(["gpus", "--sort-by", "memory_mib", "-o", "csv"])
    memory = [float(row["memory_mib"]) for row in csv.DictReader(io.StringIO(_out(capsys)))]
    assert memory == sorted(memory, reverse=True)
    run(["gpus", "-o", "csv"])
    prices = [row["usd_per_gpu_hour"] for row in csv.DictReader(io.StringIO(_out(capsys)))]
    known = [float(price) for price in prices if price]
    assert known == sorted(known)
    assert prices[len(known) :] == [""] * (len(prices) - len(known))


def test_a_least_memory_keeps_cards_sold_with_it(capsys) -> None:
    """24GiB.. is every 24 GB card, and none of 16."""
    run(["gpus", "--gpu", "24GiB..", "-o", "csv"])
    names = {row["name"] for row in csv.DictReader(io.StringIO(_out(capsys)))}
    assert {"L4", "A10G", "RTX 3090", "A100-SXM4-80GB"} <= names
    assert not {"T4", "V100-SXM2-16GB"} & names


@pytest.mark.parametrize(
    "wrong", [["--gpu", "Voodoo"], ["--region", "mars"], ["--sort-by", "beauty"], ["--gpu", ","]]
)
def test_bad_input_is_one_line_and_exit_code_2(wrong: list[str], capsys) -> None:
    """And nothing on stdout."""
    assert run(["gpus", *wrong]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert len(told.err.splitlines()) == 1


def _out(capsys) -> str:
    return str(capsys.readouterr().out)
