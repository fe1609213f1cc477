"""The table of language models as it is built."""

import csv

import pytest

from advisor.infra.build.language_models import table
from advisor.infra.build.language_models.corrections import NO_CHECKPOINT, REPLACED
from advisor.models.language.configs import COLUMNS, TABLE, model_of_cells, table_cells
from tests import rows

LLAMA = rows.table("built")["llama"]


@pytest.fixture
def built(tmp_path):
    """The lines of fetched rows, by their names."""

    def lines(*fetched):
        path = tmp_path / "model_configs.csv"
        header = table.FETCHED.read_text(encoding="utf-8").partition("\n")[0].split(",")
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, header, restval="")
            writer.writeheader()
            writer.writerows([{**LLAMA, **row} for row in fetched])
        return {line["names"]: line for line in table.lines(path)}

    return lines


def test_the_bundle_is_what_is_built():
    """Byte for byte, of what is committed."""
    assert table.written(table.lines(table.FETCHED)) == TABLE.read_text(encoding="utf-8")


def test_added_models_are_built_whatever_was_fetched(built):
    """More than a hundred lines, beside the one row of this test."""
    lines = built({})
    assert "some/Model-7B" in lines
    assert len(lines) > 100


def test_lines_are_sorted_and_need_no_quotes():
    """So that each build writes the same bytes, and the reader splits at commas."""
    text = TABLE.read_text(encoding="utf-8")
    names = [line.partition(",")[0] for line in text.splitlines()[1:]]
    assert names == sorted(names, key=str.casefold)
    assert '"' not in text
    assert all(line.count(",") == len(COLUMNS) - 1 for line in text.splitlines())
    assert len(text) < 300_000


def test_each_name_stands_once():
    """Two lines of one name would hide one of them."""
    names = [name for cells in table_cells() for name in cells["names"].split(";")]
    assert len(names) == len(set(names))


def test_defaults_shapes_and_other_networks_are_left_out(built):
    """Nobody has weights of them."""
    rows = [{"name": name} for name in (*NO_CHECKPOINT, *REPLACED, "org/Thing(default)", "a/b?")]
    lines = built({"name": "kept/one"}, *rows, {"name": "x/enc", "kind": "encoder"})
    fetched = {line["names"] for line in lines.values() if line["source"] != "published"}
    assert fetched == {"kept/one"}


def test_layers_that_no_formula_covers_are_named_and_have_no_sizes(built):
    """So that nothing is guessed of them."""
    line = built({"name": "x/hybrid", "model_type": "nemotron_h", "formula_ok": "False"})["x/hybrid"]
    assert line["uncovered"] == "hybrid"
    assert not line["layers"]


def test_tokenizers_vocabularies_are_padded(built):
    """litgpt's Llama 3 has 128,000 words; its embedding has 128,256 rows."""
    line = built({"vocab": "128000", "source": "Lightning-AI/litgpt", "model_type": "litgpt:LLaMAMLP"})
    assert line["some/Model-7B"]["vocab"] == "128256"
    assert line["some/Model-7B"]["family"] == "llama"


def test_a_slip_in_an_added_line_stops_the_build(built, tmp_path, monkeypatch):
    """The number of weights is held against the published one."""
    text = table.ADDED.read_text(encoding="utf-8").replace(",14336,131072,", ",15336,131072,", 1)
    broken = tmp_path / "added.csv"
    broken.write_text(text, encoding="utf-8")
    monkeypatch.setattr(table, "ADDED", broken)
    with pytest.raises(ValueError, match="published"):
        built()


def test_windows_that_never_close_are_no_windows(built):
    """Phi-3's window is longer than its context."""
    line = built({"window": "262145", "full_attn_layers": "0"}, {"name": "m/w", "window": "4096"})
    assert not line["some/Model-7B"]["window"]
    assert model_of_cells("m/w", line["m/w"]).window_layers == 32
